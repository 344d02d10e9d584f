"""Equal keys with other bytes: the first ones stay, and rows say by how much another run differs."""

from __future__ import annotations

from pathlib import Path

import pytest

from prmcal.errors import RunError
from prmcal.harness.execution.run import rebuild_database
from prmcal.harness.merging.merge import merge
from prmcal.harness.storage.folder import RunFolder
from tests.conftest import PLUGINS, Prmcal
from tests.harness.merging.small_runs import cells, copied, part, refs_of, rows, shifted

ISOTONIC = {"llm": "weak", "calibrator": "isotonic", "dataset": "long"}
CELL = "calibration/weak/verifier/isotonic/long"


@pytest.fixture
def other(whole: Path, tmp_path: Path) -> Path:
    """A run whose fit has other last digits, and with it the rewards and the Brier score."""
    run = copied(whole, tmp_path / "other")
    shifted(run, refs_of(run, "calibrated", **ISOTONIC), "calibrated_rewards", "reward", -0.004)
    shifted(run, refs_of(run, "calibration_metrics", **ISOTONIC), "results", "value", 0.008)
    rebuild_database(run)
    return run


def differing(directory: Path) -> dict[str, str]:
    return {name: row["difference"] for name, row in cells(directory).items() if row["difference"]}


def test_the_first_stays_and_its_row_says_by_how_much_another_differs(
    whole: Path, other: Path, tmp_path: Path, prmcal: Prmcal
) -> None:
    out = tmp_path / "out"
    done = prmcal("merge", whole, other, "--out", out)
    assert done.returncode == 0 and "Runs differ under one key in 1 cell." in " ".join(done.stderr.split())
    found = differing(out)
    assert list(found) == [CELL] and found[CELL].startswith("brier 0.008, ")
    assert rows(out)["results"] == rows(whole)["results"]
    shown = prmcal("show", CELL, "--dir", out).stdout
    assert "They differ by: brier 0.008" in shown and RunFolder(whole).record().run_id in shown
    board = prmcal("leaderboard", out, "--table", "calibration").stdout
    assert "differ from another run (1 cells): #" in board and "(brier 0.008" in board
    merge([other, whole], tmp_path / "reversed")
    assert differing(tmp_path / "reversed") == found
    assert rows(tmp_path / "reversed")["results"] == rows(other)["results"]


def test_a_row_that_was_measured_from_other_inputs_says_so(whole: Path, other: Path, tmp_path: Path) -> None:
    first = part(whole, tmp_path / "first", lambda cell: cell.leaderboard == "calibration")
    merge([first, other], tmp_path / "out")
    found = differing(tmp_path / "out")
    of_rewards = {name for name in cells(whole) if "/weak/verifier/isotonic/long" in name} - {CELL}
    assert found.keys() == of_rewards | {CELL} and len(of_rewards) > 1
    assert {found[name] for name in of_rewards} == {"its inputs (calibrated 0.004)"}
    merge([tmp_path / "out", whole], tmp_path / "again")
    assert differing(tmp_path / "again") == found


def test_rounding_is_no_difference(whole: Path, tmp_path: Path) -> None:
    other = copied(whole, tmp_path / "other")
    shifted(other, refs_of(other, "calibration_metrics"), "results", "value", 1e-13)
    shifted(other, refs_of(other, "calibrated"), "calibrated_rewards", "reward", 1e-13)
    merge([whole, other], tmp_path / "out")
    assert not differing(tmp_path / "out")


@pytest.mark.parametrize(
    ("kind", "table", "column"),
    [("rollout", "texts", "tokens"), ("follow_ups", "follow_ups", "tokens")],
)
def test_other_samples_under_one_key_are_refused(
    kind: str, table: str, column: str, whole: Path, tmp_path: Path
) -> None:
    other = copied(whole, tmp_path / "other")
    shifted(other, refs_of(other, kind, llm="strong")[:1], table, column, 1)
    with pytest.raises(RunError, match=f"have different samples under one key .{kind}/") as refused:
        merge([whole, other], tmp_path / "out")
    assert "'seed'" in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_results_that_are_computed_again_agree_or_are_named(whole: Path, tmp_path: Path, prmcal: Prmcal) -> None:
    plugin = ("--plugin", PLUGINS / "synthetic.py")
    run = copied(whole, tmp_path / "run")
    files = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    done = prmcal("rebuild", run, "--check", *plugin)
    assert done.returncode == 0, done.stdout
    count = len(refs_of(run, "curves")) + len(cells(run))
    assert done.stdout == f"{count} of {count} results agree with what is stored when they are computed again.\n"
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == files

    shifted(run, refs_of(run, "calibration_metrics", **ISOTONIC), "results", "value", 0.25)
    shifted(run, refs_of(run, "curves", **ISOTONIC), "curve_points", "accuracy", 0.5)
    done = prmcal("rebuild", run, "--check", *plugin)
    assert done.returncode == 4
    shown = " ".join(done.stdout.split())
    assert f"{count - 2} of {count} results agree" in shown
    assert f"{CELL}: results.value: " in shown and "rows differ by up to 0.25" in shown
    assert "curves of weak, verifier, isotonic, long/test: curve_points.accuracy: " in shown


def test_what_cannot_be_computed_again_is_counted_with_its_reason(whole: Path, tmp_path: Path, prmcal: Prmcal) -> None:
    run = part(whole, tmp_path / "run", lambda cell: cell.leaderboard == "calibration")
    for ref in refs_of(run, "calibrated", **ISOTONIC):
        (run / "artifacts" / ref.kind / ref.key / "calibrated_rewards.parquet").unlink()
    done = prmcal("rebuild", run, "--check")
    assert done.returncode == 0
    shown = " ".join(done.stdout.split())
    assert "18 of 18 results agree" in shown and "Not computed again: 2 results. The artifact" in shown
