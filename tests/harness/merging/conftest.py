"""What the tests of merging share: a finished run of the whole grid."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.merging import small_runs
from tests.shared import made_once


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the whole grid. Tests must not write to it."""
    return made_once(tmp_path_factory, "whole", small_runs.run)
