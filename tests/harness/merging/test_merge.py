"""Runs that were merged: all rows of all runs, and a folder like that of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prmcal.db.catalog import runs
from prmcal.db.run_folder import published_path
from prmcal.errors import DatabaseVersionError, RunError
from prmcal.harness.execution.ending import Failure, write_failures
from prmcal.harness.merging.merge import merge
from prmcal.harness.storage.folder import RunFolder
from tests.conftest import Prmcal
from tests.harness.merging import small_runs
from tests.harness.merging.small_runs import GRID, cells, refs_of, rows

WEAK, STRONG = GRID["llms"]


def test_halves_of_a_grid_are_the_whole_in_any_order_and_a_run_continues_them(
    whole: Path, halves: list[Path], tmp_path: Path
) -> None:
    for number, folders in enumerate([[*halves, halves[0]], halves[::-1]]):
        merge(folders, tmp_path / str(number))
        assert rows(tmp_path / str(number)) == rows(whole)
    record, own = RunFolder(tmp_path / "0").record(), RunFolder(whole).record()
    assert record.grid == own.grid and [each.run_id for each in record.sources] == [own.run_id]
    assert {row["source"] for row in cells(tmp_path / "0").values()} == {own.run_id}
    small_runs.run(tmp_path / "0")
    assert rows(tmp_path / "0") == rows(whole)


def test_parts_of_other_grids_are_the_whole(whole: Path, tmp_path: Path) -> None:
    changes = {
        "one-llm": {"llms": [WEAK]},
        "reversed": {"calibrators": GRID["calibrators"][::-1], "datasets": GRID["datasets"][::-1]},
        "long": {"datasets": GRID["datasets"][1:], "llms": [STRONG]},
    }
    folders = [small_runs.run(tmp_path / name, each, whole) for name, each in changes.items()]
    out = tmp_path / "out"
    merge(folders, out)
    found, expected = rows(out), rows(whole)
    assert len(found.pop("comparisons")) == len(expected.pop("comparisons"))  # Either cell is the first.
    assert found == expected
    grid = RunFolder(out).record().grid
    assert grid["name"] == "merge of synthetic" and len(grid["grids"]) == 3
    sources = {row["source"] for row in cells(out).values()}
    assert sources < set(runs(published_path(out))["run_id"])
    merge([out, *folders], tmp_path / "again")
    assert rows(tmp_path / "again") == rows(out)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"seed": 9}, r"'weak' \(llm\)"),
        (
            {"calibrators": ["uncalibrated", {"name": "isotonic", "plugin": "platt"}]},
            r"'isotonic' \(calibrator\)",
        ),
        ({"datasets": [{**GRID["datasets"][1], "questions": 4}]}, r"'long' \(dataset\)"),
    ],
    ids=["seed", "calibrator", "questions"],
)
def test_one_name_for_different_things_is_refused(
    changes: dict[str, object], name: str, whole: Path, tmp_path: Path
) -> None:
    second = small_runs.run(tmp_path / "second", {"llms": [WEAK], "strategies": ["pass@1"], **changes}, whole)
    with pytest.raises(RunError, match=f"second and in a run before it, the name {name}"):
        merge([whole, second], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_parts_of_other_settings_stand_under_other_names(whole: Path, tmp_path: Path) -> None:
    llms = [{**WEAK, "name": "weak-9"}] if isinstance(WEAK, dict) else [{"name": "weak-9", "plugin": WEAK}]
    second = small_runs.run(tmp_path / "second", {"seed": 9, "llms": llms, "strategies": ["pass@1"]}, whole)
    merge([whole, second], tmp_path / "out")
    assert cells(tmp_path / "out").keys() == cells(whole).keys() | cells(second).keys()


def test_failed_and_pending_cells_stay_until_a_run_has_them(halves: list[Path], tmp_path: Path) -> None:
    failed = refs_of(halves[0], "calibration_metrics", llm="strong")
    write_failures(halves[0], {ref.key: Failure("no PRM", "plugin") for ref in failed})
    merge(halves[:1], tmp_path / "one")
    states = [row["status"] for row in cells(tmp_path / "one").values()]
    assert set(states) == {"done", "failed", "pending"}
    assert {row["reason"] for row in cells(tmp_path / "one").values()} >= {"no PRM"}
    merge(halves, tmp_path / "both")
    assert {(row["status"], row["reason"]) for row in cells(tmp_path / "both").values()} == {("done", None)}


def test_a_run_in_progress_a_folder_without_a_run_and_an_older_database_are_refused(
    whole: Path, halves: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    with RunFolder(halves[0]).lock(), pytest.raises(RunError, match=r"A run writes to .*weak now"):
        merge(halves, out)
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunError, match=r"No grid was run in .*empty"):
        merge([whole, tmp_path / "empty"], out)
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "mine.txt").write_text("mine")
    with pytest.raises(RunError, match="holds files that are not from a run"):
        merge(halves, notes)
    monkeypatch.setattr("prmcal.db.reader.SCHEMA_VERSION", 99)
    with pytest.raises(DatabaseVersionError, match=r"prmcal rebuild .*weak"):
        merge(halves, out)
    assert not out.exists() and [path.name for path in notes.iterdir()] == ["mine.txt"]


def test_a_folder_of_a_run_is_extended_and_keeps_its_other_files(
    whole: Path, halves: list[Path], tmp_path: Path, prmcal: Prmcal
) -> None:
    (halves[0] / "run.log").write_text("a line\n")
    done = prmcal("merge", halves[1], "--out", halves[0])
    assert done.returncode == 0, done.stderr
    # A long path is broken at any place.
    said = f"Merged 2 runs into {halves[0]}: 36 cells, 36 done."
    assert "".join(said.split()) in "".join(done.stderr.split())
    assert rows(halves[0]) == rows(whole)
    assert (halves[0] / "run.log").read_text() == "a line\n"
    before = json.loads((halves[0] / "run.json").read_text())
    merge([halves[0]], halves[0])  # With itself.
    assert rows(halves[0]) == rows(whole)
    assert before["sources"][:1] == json.loads((halves[0] / "run.json").read_text())["sources"][:1]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
