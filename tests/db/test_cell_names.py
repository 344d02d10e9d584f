"""Short numbers of cells, and the cell that a reader means by a number, an identifier or a part of one."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from prmcal.db import catalog
from prmcal.db.metrics import Leaderboard
from prmcal.db.queries.cells import find_cell, numbered
from prmcal.errors import UnknownCellError
from tests.db import factory

ISOTONIC = "calibration/weak/qwen/isotonic/nano-math"


def test_numbers_count_the_rows_of_all_leaderboards(published: Path) -> None:
    rows = [cell for table in get_args(Leaderboard) for cell in catalog.leaderboard(published, table)["cell_id"]]
    assert numbered(published) == {cell_id: place for place, cell_id in enumerate(rows, start=1)}
    assert list(catalog.leaderboard(published)["number"])[:3] == [1, 2, 3]


def test_a_filter_keeps_the_numbers(published: Path) -> None:
    found = catalog.leaderboard(published, calibrator=["isotonic"])
    assert dict(zip(found["cell_id"], found["number"], strict=True)).items() <= numbered(published).items()
    assert len(found) == 4


@pytest.mark.parametrize(
    "name", ["3", "#3", " #3 ", ISOTONIC, "calib weak isotonic math", "Calibration/weak/ISOTONIC/math"]
)
def test_a_cell_has_several_names(published: Path, name: str) -> None:
    assert find_cell(published, name) == ISOTONIC


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("#0", "There is no cell '#0'."),
        ("9999", "There is no cell '9999'."),
        ("calibration/weak/qwen/isotonc/nano-math", f"Did you mean #3 '{ISOTONIC}'"),
        (
            "zzz",
            "There is no cell 'zzz'. "
            "`prmcal leaderboard DIR --table calibration` and `--table scaling` list all cells.",
        ),
        ("", "There is no cell ''."),
        ("weak/qwen/isotonic/nano-math", f"Did you mean #3 '{ISOTONIC}' or #"),
        ("temperature", "is part of "),
        (".*", "There is no cell '.*'."),
    ],
)
def test_what_is_no_cell_or_several_is_said(published: Path, name: str, message: str) -> None:
    with pytest.raises(UnknownCellError) as raised:
        find_cell(published, name)
    assert message in str(raised.value)
    assert str(raised.value).count(" or ") <= 3


def test_the_same_name_of_two_leaderboards_is_told_apart(published: Path) -> None:
    assert find_cell(published, "scaling weak nano-math pass@1") == "scaling/weak/nano-math/pass@1"
    assert find_cell(published, "scaling/weak/qwen/nano-aime/best-of-n") == ("scaling/weak/qwen/nano-aime/best-of-n")
    assert find_cell(published, str(numbered(published)[factory.FAILED_CELL])) == factory.FAILED_CELL
