"""A finished run of the synthetic grid."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Prmcal
from tests.harness.execution.synthetic_grid import grid, run_arguments


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, prmcal: Prmcal) -> tuple[Path, Path]:
    """A grid file and the folder of its uninterrupted run."""
    folder = tmp_path_factory.mktemp("finished")
    path, out = grid(folder), folder / "out"
    done = prmcal(*run_arguments(path, out, workers=2))
    assert done.returncode == 0, done.stderr
    return path, out
