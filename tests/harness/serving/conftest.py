"""One server of the small run for all tests of the room."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import prmcal
from prmcal import CalibratedPRM
from tests.served_run import BODY, CELL, served, shared_run


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the run."""
    return shared_run(tmp_path_factory)


@pytest.fixture(scope="package")
def address(folder: Path) -> Iterator[str]:
    """The address of a server of the run."""
    with served(folder, "--cell", CELL, "--max-body", BODY) as (address, *_):
        yield address


@pytest.fixture(scope="package")
def here(folder: Path) -> Iterator[CalibratedPRM]:
    """The same calibrated PRM in this process."""
    with prmcal.load(folder, CELL) as prm:
        yield prm
