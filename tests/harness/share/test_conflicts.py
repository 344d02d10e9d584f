"""Results that contradict each other both stay, each as it was measured, and are marked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from prmcal.db.catalog import cells, leaderboard, overview
from prmcal.db.run_folder import published_path
from prmcal.harness.planning.saved import read_plan
from prmcal.harness.share.merge import merge, rebuild_merged
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import ArtifactRef
from tests.conftest import Prmcal
from tests.harness.share.altered import measured_at, with_other_rewards, with_other_values, without
from tests.harness.share.small_runs import GRID, WEAK, Part, leaderboards, run


def test_contents_that_contradict_each_other_both_stay(
    prmcal: Prmcal, parts: Mapping[str, Path], tmp_path: Path
) -> None:
    altered = with_other_rewards(parts["dataset"], tmp_path / "altered", 3, -0.25)
    told = prmcal("merge", tmp_path / "out", parts["dataset"], altered, parts["llm"])
    assert told.returncode == 0, told.stderr
    text = " ".join(told.stdout.split())
    assert "Conflict: 1 artifact with different content under one key." in text
    assert "score of strong, verifier" in text or "score of weak, verifier" in text
    merge(tmp_path / "other order", [parts["llm"], altered, parts["dataset"]])
    assert leaderboards(tmp_path / "out") == leaderboards(tmp_path / "other order")
    board = cells(published_path(tmp_path / "out"))
    contradicting = board[board["conflict"]]
    # The rewards differ and the results do not, so each result is one row.
    assert len(contradicting) and set(contradicting["conditions"]) == {""}
    assert f"{len(contradicting)} in conflict." in text
    assert "differs" not in prmcal("rebuild", tmp_path / "out").stderr


def test_a_conflict_between_runs_of_other_conditions_is_marked(
    prmcal: Prmcal, parts: Mapping[str, Path], tmp_path: Path
) -> None:
    other = run(tmp_path / "other", Part({"llms": [WEAK], "measurement": {**GRID["measurement"], "bins": 5}}))
    altered = with_other_rewards(other, tmp_path / "altered", 3, -0.25)
    told = " ".join(prmcal("merge", tmp_path / "out", altered, parts["llm"]).stdout.split())
    board = cells(published_path(tmp_path / "out"))
    contradicting = board[board["conflict"]]
    assert 0 < len(contradicting) < len(board)
    assert f"{len(contradicting)} in conflict." in told
    # Rows that do not read the altered rewards have no conflict, in the same submission.
    assert set(contradicting["prm"].dropna()) == {"verifier"}
    assert not board.loc[board["strategy"] == "pass@1", "conflict"].any()


@pytest.mark.parametrize("steps", [[["old", "run", "other"]], [["old", "other"], ["run"]]])
def test_a_cell_that_failed_once_has_the_result_of_its_own_submission(
    parts: Mapping[str, Path], tmp_path: Path, steps: list[list[str]]
) -> None:
    """What failed in the oldest run was measured by two others, with results that contradict each other."""
    refs = _refs(parts["llm"], lambda job: job.labels.calibrator == "isotonic" and "metrics" in job.kind)
    other = with_other_values(parts["llm"], tmp_path / "other", refs, 0.001)
    old = without(parts["llm"], tmp_path / "old", refs, "The fit did not converge.")
    folders = {"run": parts["llm"], "other": measured_at(other, "2099-01-01T00:00:00+00:00")}
    folders["old"] = measured_at(old, "2001-01-01T00:00:00+00:00")
    for names in steps:
        merge(tmp_path / "out", [folders[name] for name in names])
    single = leaderboard(published_path(parts["llm"]), "calibration").set_index("cell_id")["brier"]
    for again in (False, True):
        if again:
            rebuild_merged(tmp_path / "out")
        board = leaderboard(published_path(tmp_path / "out"), "calibration")
        board = board[board["calibrator"] == "isotonic"].set_index("cell_id")
        assert set(board["status"]) == {"done"} and len(board) == 2 * sum(
            "isotonic" in name for name in single.index
        )
        for name, row in board.iterrows():
            base = str(name).rpartition("/")[0]
            shift = 0.001 if row["conditions"] else 0.0
            assert row["conflict"]
            assert row["brier"] == pytest.approx(single[base] + shift)


def test_equal_contents_of_two_submissions_are_one_row(parts: Mapping[str, Path], tmp_path: Path) -> None:
    """Two submissions have the same other results on one data set, and one of them also on another."""
    here, also = (
        _refs(parts["llm"], lambda job, name=name: "metrics" in job.kind and job.labels.dataset == name)
        for name in ("long", "synthetic-questions")
    )
    some = with_other_values(parts["llm"], tmp_path / "some", here, 0.001)
    more = with_other_values(parts["llm"], tmp_path / "more", [*here, *also], 0.001)
    folders = [
        parts["llm"],
        measured_at(some, "2098-01-01T00:00:00+00:00"),
        measured_at(more, "2099-01-01T00:00:00+00:00"),
    ]
    merge(tmp_path / "out", folders)
    board = leaderboard(published_path(tmp_path / "out"), "calibration")
    assert board["llm"].nunique() == 1 and board["conflict"].all()
    later = board[board["conditions"] != ""]
    sent = later.groupby("dataset")["submissions"].unique()
    assert [len(ids.split()) for (ids,) in sent] == [2, 1]
    for row in later.to_dict("records"):
        assert row["conditions"].removeprefix("submission ") in row["submissions"]
    assert overview(published_path(tmp_path / "out")).places == 4
    merge(tmp_path / "other", folders[::-1])
    assert leaderboards(tmp_path / "other") == leaderboards(tmp_path / "out")


def test_a_merged_leaderboard_is_no_run_to_submit(
    prmcal: Prmcal, parts: Mapping[str, Path], tmp_path: Path
) -> None:
    merge(tmp_path / "out", [parts["llm"]])
    told = prmcal("submit", tmp_path / "out", "--out", tmp_path / "bundle")
    assert told.returncode == 2 and "is a merged leaderboard. Send the folder itself" in " ".join(
        told.stderr.split()
    )
    assert not (tmp_path / "bundle").exists()


def _refs(folder: Path, kept: Callable[..., bool]) -> list[ArtifactRef]:
    """The artifacts of some jobs of a run."""
    plan = read_plan(folder, RunFolder(folder).record().grid)
    assert plan is not None
    return list(dict.fromkeys(ref for job in plan.jobs if kept(job) for ref in job.refs))
