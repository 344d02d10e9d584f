"""How leaderboards are presented: as text, with marks and legends."""

from __future__ import annotations

from pathlib import Path

import pytest

from prmcal.db import catalog
from prmcal.db.metrics import COORDINATES, Leaderboard
from prmcal.db.text.board import leaderboard_board
from prmcal.db.text.formats import COORDINATE_TITLES, LEADERBOARDS, MARKS, SYMBOLS, leaderboard_legend
from tests.db import factory
from tests.measured import DESCRIBED


def test_main_metrics_belong_to_their_leaderboard() -> None:
    for name, text in LEADERBOARDS.items():
        assert {DESCRIBED[metric].leaderboard for metric in text.main_metrics} == {name}


def test_a_legend_explains_every_mark() -> None:
    for marks in (MARKS, SYMBOLS):
        legend = leaderboard_legend(marks)
        assert [mark for mark in marks.values() if f"{mark}: " not in legend] == []
        assert ("A value without a mark is worse, or was not compared." in legend) is ("worse" not in marks)


@pytest.mark.parametrize("name", ["calibration", "scaling"])
def test_a_leaderboard_board_has_values_with_intervals_and_marks(published: Path, name: Leaderboard) -> None:
    frame = catalog.leaderboard(published, name)
    main = LEADERBOARDS[name].main_metrics
    found = leaderboard_board(frame, name, DESCRIBED, main)
    assert found.head[: found.names] == [
        "#",
        *(COORDINATE_TITLES[each] for each in COORDINATES if frame[each].notna().any()),
    ]
    assert [row[0] for row in found.rows] == [f"#{number}" for number in frame["number"]]
    assert len(found.keys) == len(found.head)
    assert found.head[found.names :] == [
        *map(DESCRIBED.title, main),
        "Questions",
        LEADERBOARDS[name].rows,
        *["Independent"] * (name == "calibration"),
        "Status",
    ]
    assert len(leaderboard_board(frame, name, DESCRIBED).head) > len(found.head)


def test_marks_and_reasons_are_shown(published: Path) -> None:
    frame = catalog.leaderboard(published, "calibration")
    found = leaderboard_board(frame, "calibration", DESCRIBED, ["brier"])
    by_cell = dict(zip(frame["cell_id"], found.rows, strict=True))
    best = frame[frame["brier_standing"] == "best"].iloc[0]
    low, high = best["brier_low"], best["brier_high"]
    assert f"{best['brier']:.3f} [{low:.3f}, {high:.3f}]*" in by_cell[best["cell_id"]]
    assert by_cell[factory.FAILED_CELL][-4:] == ("", "", "", "failed")
    assert found.notes == (f"failed (1 cells): {factory.REASON}",)
