from __future__ import annotations

from pathlib import Path

import pytest

from prmcal.db.run_folder import published_path


@pytest.fixture(scope="session")
def results(small_run: Path) -> Path:
    """Folder of a small finished run. Not to be written to."""
    return small_run


@pytest.fixture(scope="session")
def published(results: Path) -> Path:
    return published_path(results)
