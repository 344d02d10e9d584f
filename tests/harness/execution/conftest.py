"""A finished run of the synthetic grid."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import Prmcal
from tests.harness.execution.synthetic_grid import grid, run_arguments
from tests.shared import made_once


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, prmcal: Prmcal) -> tuple[Path, Path]:
    """A grid file and the folder of its uninterrupted run. A test may change them if it restores them."""

    def make(folder: Path) -> None:
        done = prmcal(*run_arguments(grid(folder), folder / "out", workers=2))
        assert done.returncode == 0, done.stderr

    whole = made_once(tmp_path_factory, "synthetic", make)
    folder = Path(shutil.copytree(whole, tmp_path_factory.mktemp("finished") / "synthetic"))
    return folder / "grid.yaml", folder / "out"
