"""What the terminal says below the table of a merged leaderboard."""

from __future__ import annotations

from pathlib import Path

from prmcal.db.text.provenance import renewal
from prmcal.harness.commands.results.leaderboard import render_leaderboard
from tests.db import factory, merged_factory


def test_rows_that_are_not_current_and_failed_verifications_are_named_below_the_table(tmp_path: Path) -> None:
    merged_factory.build(tmp_path)
    text = render_leaderboard(tmp_path, "calibration", "table", width=80)
    assert max(map(len, text.splitlines())) <= 80
    shown = " ".join(text.split())
    names = dict(zip(("leaderboard", "llm", "prm", "calibrator", "dataset"), _parts(), strict=True))
    assert (
        f"this has changed: {merged_factory.OUTDATED}. To measure the first again: {renewal(names)}" in shown
    )
    assert shown.count("Not current: #") == 1
    assert shown.count("A verification failed: #") == 1


def test_the_rows_of_a_run_need_no_note(tmp_path: Path) -> None:
    factory.build(tmp_path)
    text = render_leaderboard(tmp_path, "calibration", "table", width=80)
    assert "Not current" not in text and "A verification failed" not in text


def _parts() -> list[str]:
    return merged_factory.OUTDATED_CELL.split("/")
