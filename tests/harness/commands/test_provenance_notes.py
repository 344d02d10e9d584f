"""What the terminal says below the table of a merged leaderboard."""

from __future__ import annotations

from pathlib import Path

from prmcal.db.text.formats import renewal
from prmcal.harness.cli.cells import render_cell
from prmcal.harness.cli.leaderboard import render_leaderboard
from tests.db import merged_factory


def test_rows_that_are_not_current_and_failed_verifications_are_named_below_the_table(
    merged_board: Path,
) -> None:
    text = render_leaderboard(merged_board, "calibration", "table", width=80)
    assert max(map(len, text.splitlines())) <= 80
    shown = " ".join(text.split())
    names = dict(zip(("leaderboard", "llm", "prm", "calibrator", "dataset"), _parts(), strict=True))
    assert (
        f"this has changed: {merged_factory.OUTDATED}. To measure the first again: {renewal(names)}" in shown
    )
    assert shown.count("Not current: #") == 1
    assert shown.count("A verification failed: #") == 1


def test_a_cell_says_who_sent_and_who_verified_it_and_how_to_renew_it(merged_board: Path) -> None:
    text = render_cell(merged_board, merged_factory.OUTDATED_CELL, width=80)
    assert max(map(len, text.splitlines())) <= 80
    shown = " ".join(text.split())
    assert f"From 1 submission ({merged_factory.CLEO}): not verified." in shown
    assert f"Not current. Since then, this has changed: {merged_factory.OUTDATED}." in shown
    replicate = render_cell(
        merged_board, f"calibration/{merged_factory.SEED_2}/qwen/temperature/nano-math", 80
    )
    assert f"From 1 submission ({merged_factory.BOB}): not verified; 1 verification failed." in replicate


def test_the_rows_of_a_run_need_no_note(small_run: Path) -> None:
    text = render_leaderboard(small_run, "calibration", "table", width=80)
    cell = render_cell(small_run, merged_factory.OUTDATED_CELL, width=80)
    assert "Not current" not in text + cell and "verification failed" not in text + cell
    assert "submission" not in cell


def _parts() -> list[str]:
    return merged_factory.OUTDATED_CELL.split("/")
