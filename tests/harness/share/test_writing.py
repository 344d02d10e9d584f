"""From a run to a bundle and back: the same results, deterministic bytes, and only what was asked for."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from pathlib import Path

import pandas as pd
import pyarrow.parquet as parquet
import pytest

from prmcal.db.queries.leaderboard import leaderboard
from prmcal.db.run_folder import RECORD_FILE
from prmcal.errors import RunError
from prmcal.harness.execution.run import rebuild_database
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import (
    FitParameters,
    HiddenParameters,
    Parameters,
    PluginReference,
    QuestionSlice,
)
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.saved import read_plan
from prmcal.harness.share.checks import submission_of, unpack
from prmcal.harness.share.tables import file_digest
from prmcal.harness.share.writing import _kept_of, write_bundle
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import ArtifactRef, Store
from tests.conftest import Prmcal
from tests.harness.share.conftest import ABOUT

CELL = "calibration/weak/verifier/temperature/synthetic-questions"
FAILED = "calibration/weak/verifier/gone/synthetic-questions"


def plan_of(folder: Path) -> Plan:
    plan = read_plan(folder, RunFolder(folder).record().grid)
    assert plan is not None
    return plan


def test_an_unpacked_bundle_has_the_results_of_the_run(finished: Path, bundle: Path, tmp_path: Path) -> None:
    submission = unpack(bundle, tmp_path / "unpacked")
    assert (submission.submitter, submission.licence, submission.note) == dataclasses.astuple(ABOUT)
    assert submission_of(tmp_path / "unpacked", "the bundle") == submission
    assert rebuild_database(tmp_path / "unpacked") == 6
    pd.testing.assert_frame_equal(
        leaderboard(RunFolder(tmp_path / "unpacked").results()).drop(columns=["number", "reason"]),
        leaderboard(RunFolder(finished).results())
        .query("calibrator != 'gone'")
        .drop(columns=["number", "reason"])
        .reset_index(drop=True),
    )


def test_a_copy_of_the_run_elsewhere_gives_the_same_bytes(
    finished: Path, bundle: Path, tmp_path: Path
) -> None:
    before = os.umask(0o077)
    try:
        moved = shutil.copytree(finished, tmp_path / "moved" / "elsewhere", copy_function=shutil.copyfile)
        write_bundle(Path(moved), None, tmp_path / "again", ABOUT)
    finally:
        os.umask(before)
    assert (tmp_path / "again").read_bytes() == bundle.read_bytes()


def test_texts_are_left_out_unless_they_are_asked_for(finished: Path, tmp_path: Path) -> None:
    bare = write_bundle(finished, None, tmp_path / "bare", ABOUT).submission
    full = write_bundle(finished, None, tmp_path / "full", ABOUT, texts=True).submission
    unpack(tmp_path / "bare", tmp_path / "b"), unpack(tmp_path / "full", tmp_path / "f")
    question = plan_of(finished).datasets[0].questions[0]
    assert question.text.encode() in (tmp_path / "full").read_bytes()
    assert question.text.encode() not in (tmp_path / "bare").read_bytes()
    name = next(each for each in bare.files if each.endswith("trajectories.parquet"))
    full_table, bare_table = (parquet.read_table(tmp_path / each / name) for each in ("f", "b"))
    assert set(full_table.column_names) - set(bare_table.column_names) == {"text"}
    # A reader can compare the rest, and the hashes of texts that are supplied later.
    assert bare.files[name].table == full.files[name].table == file_digest(finished / name)
    hashes = name.replace("trajectories", "text_hashes")
    assert bare.files[hashes] == full.files[hashes]
    assert parquet.read_table(tmp_path / "b" / hashes).num_rows == full_table.num_rows


def test_chosen_cells_come_with_what_is_behind_them_and_nothing_else(finished: Path, tmp_path: Path) -> None:
    write_bundle(finished, [CELL], tmp_path / "part", ABOUT)
    unpack(tmp_path / "part", tmp_path / "unpacked")
    plan = plan_of(tmp_path / "unpacked")
    assert [cell.cell_id for cell in plan.cells] == [CELL]
    assert [each.name for each in plan.plugins["calibrator"]] == ["temperature"]
    assert {path.name for path in (tmp_path / "unpacked/artifacts").iterdir()} >= {
        "rollout",
        "success",
        "fit",
    }
    assert "uncalibrated" not in (tmp_path / "unpacked" / RECORD_FILE).read_text()
    assert rebuild_database(tmp_path / "unpacked") == 1


def test_a_failed_cell_comes_with_its_reason(finished: Path, tmp_path: Path) -> None:
    written = write_bundle(finished, [CELL, FAILED], tmp_path / "part", ABOUT)
    assert (written.cells, written.failed) == (2, 1)
    unpack(tmp_path / "part", tmp_path / "unpacked")
    rebuild_database(tmp_path / "unpacked")
    rows = leaderboard(RunFolder(tmp_path / "unpacked").results()).set_index("cell_id")
    assert rows.loc[FAILED, "status"] == "failed" and "There is no file" in rows.loc[FAILED, "reason"]


def test_an_unfinished_cell_is_refused(run: Path, tmp_path: Path) -> None:
    cell = next(each for each in plan_of(run).cells if each.cell_id == CELL)
    shutil.rmtree(run / "artifacts/calibration_metrics" / cell.job.refs[0].key)
    with pytest.raises(RunError, match=f"not finished, such as {CELL}"):
        write_bundle(run, [CELL], tmp_path / "part", ABOUT)
    assert write_bundle(run, None, tmp_path / "rest", ABOUT).cells > 0


def test_a_missing_or_altered_artifact_behind_a_cell_is_told(run: Path, tmp_path: Path) -> None:
    table = next(run.glob("artifacts/score/*/rewards.parquet"))
    data = bytearray(table.read_bytes())
    data[40] ^= 1
    table.write_bytes(data)
    with pytest.raises(RunError, match=r"is damaged\. Run the grid again"):
        write_bundle(run, None, tmp_path / "bundle", ABOUT)
    shutil.rmtree(table.parent)
    with pytest.raises(RunError, match=r"is absent\. Run the grid again"):
        write_bundle(run, None, tmp_path / "bundle", ABOUT)
    assert not [path for path in tmp_path.iterdir() if path != run]


def test_a_damaged_result_is_told_and_its_cell_is_not_left_out(run: Path, tmp_path: Path) -> None:
    table = next(run.glob("artifacts/calibration_metrics/*/results.parquet"))
    os.truncate(table, 100)
    with pytest.raises(RunError, match=rf"{table.parent} is damaged\. Run the grid again .*`prmcal run`"):
        write_bundle(run, None, tmp_path / "bundle", ABOUT)
    assert not [path for path in tmp_path.iterdir() if path != run]


def test_a_bundle_takes_the_place_of_a_file_only(finished: Path, prmcal: Prmcal, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    told = prmcal("submit", finished, "--out", pipe)
    assert told.returncode == 2 and not told.stdout
    assert f"{pipe} exists and is not a file. Nothing was changed." in " ".join(told.stderr.split())
    assert pipe.is_fifo() and list(tmp_path.iterdir()) == [pipe]


@pytest.mark.parametrize(
    ("parameters", "role", "models", "kept"),
    [
        (FitParameters, "rollout", False, False),  # a fit that reads trajectories changes the PRM
        (FitParameters, "rollout", True, True),
        (FitParameters, "success", False, True),
        (HiddenParameters, "rollout", True, False),
    ],
)
def test_models_and_hidden_states_are_left_out(
    tmp_path: Path, parameters: type[Parameters], role: str, models: bool, kept: bool
) -> None:
    plugin = PluginReference("a", "a", {})
    fields = {"prm": plugin, "data": QuestionSlice(plugin, "test", range(1)), "trajectories": range(1)}
    own = {"calibrator": plugin, "terminal": False} if parameters is FitParameters else {}
    ref = ArtifactRef(parameters.kind, "0" * 24)
    shard = Shard(ref, parameters(**fields, **own), {role: (ArtifactRef(role, "1" * 24),)})
    store = Store(tmp_path)
    manifest = store.write(ref, write_weights, {"seconds": 2.0})
    found = _kept_of(store, shard, manifest, texts=False, models=models)
    assert ("w.safetensors" in found) == kept
    about, _ = found["artifact.json"]
    assert isinstance(about, bytes) and json.loads(about)["seconds"] == 2.0  # the costs stay


def write_weights(folder: Path) -> None:
    (folder / "w.safetensors").write_bytes(b"x")


def test_the_command_chooses_cells_and_tells_what_it_wrote(
    finished: Path, tmp_path: Path, prmcal: Prmcal
) -> None:
    out = tmp_path / "new" / "lab.bundle"
    done = prmcal("submit", finished, "--calibrator", "temperature", "--out", out, "--licence", "CC0-1.0")
    assert done.returncode == 0 and out.exists() and not done.stdout
    assert "Left out: hidden states" in done.stderr and "not signed" in done.stderr
    first = out.read_bytes()
    assert prmcal("submit", finished, "#1", "calibration temperature", "--out", out).returncode == 0
    assert out.read_bytes() != first
    for arguments, message in (
        (("#999",), "There is no cell '#999'"),
        (("--llm", "wek"), "Did you mean 'weak'?"),
        (("--key", tmp_path / "none"), "There is no key"),
    ):
        done = prmcal("submit", finished, *arguments, "--out", tmp_path / "other")
        assert done.returncode == 2 and message in done.stderr and not (tmp_path / "other").exists()
    assert "is a folder" in prmcal("submit", finished, "--out", tmp_path).stderr
