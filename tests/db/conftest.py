from __future__ import annotations

from pathlib import Path

import pytest

from prmcal.db.run_folder import published_path
from tests.db import factory, merged_factory


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a small finished run. Not to be written to."""
    directory = tmp_path_factory.mktemp("run")
    factory.build(directory)
    return directory


@pytest.fixture(scope="session")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of another run of the same grid. Not to be written to."""
    directory = tmp_path_factory.mktemp("twin")
    factory.build(directory)
    return directory


@pytest.fixture(scope="session")
def merged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a small merged leaderboard. Not to be written to."""
    directory = tmp_path_factory.mktemp("merged")
    merged_factory.build(directory)
    return directory


@pytest.fixture(scope="session")
def published(results: Path) -> Path:
    return published_path(results)
