"""Other seeds, versions and contents of equal keys are rows of their own."""

from __future__ import annotations

import json
import re
import shutil
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from prmcal.db.catalog import cells, leaderboard, overview, seed_spreads
from prmcal.db.queries.runs import jobs_of
from prmcal.db.reader import reading
from prmcal.db.run_folder import published_path
from prmcal.db.text.overview import measured
from prmcal.harness.jobs.job import job_key
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.saved import read_plan
from prmcal.harness.share.merge import merge
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import ArtifactRef
from tests.conftest import Prmcal
from tests.harness.share.small_runs import GRID, WEAK, Part, run

CELL = "calibration/weak/verifier/isotonic/synthetic-questions"


@pytest.fixture(scope="module")
def seeds(parts: Mapping[str, Path], second_seed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("seeds") / "out"
    merge(out, [parts["llm"], second_seed])
    return out


def test_another_seed_is_a_replicate(seeds: Path, parts: Mapping[str, Path], second_seed: Path) -> None:
    board = leaderboard(published_path(seeds), "calibration")
    assert set(board["llm"]) == {"weak"} and set(board["seed"]) == {3, 4}
    singles = [
        leaderboard(published_path(run), "calibration").set_index("cell_id")
        for run in (parts["llm"], second_seed)
    ]
    values = [single.loc[CELL, "brier"] for single in singles]
    for seed, single in zip((3, 4), singles, strict=True):
        (row,) = board[board["cell_id"].str.startswith(CELL) & (board["seed"] == seed)].to_dict("records")
        assert (
            row["brier"] == single.loc[CELL, "brier"]
            and row["brier_standing"] == single.loc[CELL, "brier_standing"]
        )
        assert row["conditions"] == f"seed {seed}" and row["seeds"] == 2 and not row["conflict"]
        assert row["brier_between_seeds"] == pytest.approx(statistics.stdev(values))
    spread = (
        seed_spreads(published_path(seeds)).set_index(["cell_id", "metric"]).loc[(row["cell_id"], "brier")]
    )
    assert (spread["lowest"], spread["highest"]) == (min(values), max(values))


def test_the_spread_between_seeds_is_shown(prmcal: Prmcal, seeds: Path) -> None:
    shown = prmcal("show", 1, "--dir", seeds).stdout
    assert "Between seeds, over all questions" in shown and "seed 3" in shown
    told = prmcal("leaderboard", seeds, "--table", "calibration").stdout
    assert "Measured with several seeds: 12 of these cells." in told


def test_another_version_is_a_row_of_its_own(parts: Mapping[str, Path], tmp_path: Path) -> None:
    older = _with_other_version(parts["dataset"], tmp_path / "older", "isotonic", 0)
    merge(tmp_path / "out", [parts["dataset"], older])
    board = leaderboard(published_path(tmp_path / "out"), "calibration")
    assert list(board["calibrator"].unique()) == ["uncalibrated", "temperature", "isotonic"]
    assert set(board["conditions"]) == {""}
    others = board[board["version"] != ""]
    newest = board[(board["calibrator"] == "isotonic") & (board["version"] == "")]
    assert len(others) == len(newest) > 0 and set(others["calibrator"]) == {"isotonic"}
    told = dict(
        zip(
            pd.concat([others, newest])["outdated"].fillna(""),
            [*others["version"], *newest["version"]],
            strict=True,
        )
    )
    assert set(told) == {"isotonic 0, now 1", ""} and {*told.values()} - {""} <= {
        "calibrator version 0",
        "calibrator version 1",
    }
    assert board.loc[board["calibrator"] != "isotonic", "outdated"].isna().all()
    # The overview ranks the newest version at each place.
    assert [each.places for each in overview(published_path(tmp_path / "out")).ranking] == [2, 2, 2]


def test_a_new_version_that_changes_nothing_for_the_arguments_is_current(tmp_path: Path) -> None:
    fixed = run(
        tmp_path / "run", Part({"llms": [WEAK], "strategies": ["weighted best-of-n"], "league": False})
    )
    assert _plan(fixed).plugins["strategy"][0].identity["version"] == "1"
    merge(tmp_path / "out", [fixed])
    board = leaderboard(published_path(tmp_path / "out"), "scaling")
    assert len(board) and board["outdated"].isna().all()


@pytest.mark.parametrize(
    ("changes", "conditions"),
    [
        ({"sampling": {"temperature": 0.5}}, {"temperature 0.7", "temperature 0.5"}),
        ({"scaling": {**GRID["scaling"], "samples": 3}}, {"samples 4", "samples 3"}),
        (
            {"datasets": [{"name": "synthetic-questions", "questions": 6}]},
            {"", "data set questions 12", "data set questions 6"},
        ),
    ],
)
def test_other_conditions_and_other_questions_are_columns(
    parts: Mapping[str, Path], tmp_path: Path, changes: Mapping[str, Any], conditions: set[str]
) -> None:
    other = run(tmp_path / "other", Part({"llms": [WEAK], **changes}), parts["llm"])
    merge(tmp_path / "out", [parts["llm"], other])
    board = leaderboard(published_path(tmp_path / "out"), "scaling")
    assert set(board["llm"]) == {"weak"} and board["dataset"].nunique() == 2
    assert {re.sub("; data set content .*", "", each) for each in board["conditions"]} == conditions
    names = ["dataset", "llm", "prm", "calibrator", "strategy", "target", "level", "conditions", "version"]
    assert not board.duplicated(names).any()


COMMON = {"llms": [WEAK], "shards": {"questions": 20, "trajectories": 2}}
"""With these shards, runs with pools of different sizes share the trajectories of the smaller one."""


@pytest.fixture(scope="module")
def small_shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("small shards") / "run", Part(COMMON))


@pytest.mark.parametrize(
    ("changes", "calibration", "scaling", "versions"),
    [
        (
            {"scaling": {**GRID["scaling"], "samples": 6}},
            [""],
            ["samples 4", "samples 6"],
            1,
        ),
        (
            {"measurement": {**GRID["measurement"], "bins": 5}},
            ["bins 10", "bins 5"],
            [""],
            1,
        ),
        ({"calibration": {**GRID["calibration"], "trajectories": 1}}, [""], [""], 2),
        ({"shards": {"questions": 30, "trajectories": 2}}, [""], [""], 1),
        ({"seed": 4}, ["seed 3", "seed 4"], ["seed 3", "seed 4"], 1),
    ],
)
def test_what_differs_is_told_only_of_the_rows_that_it_changes(
    small_shards: Path,
    tmp_path: Path,
    changes: Mapping[str, Any],
    calibration: Sequence[str],
    scaling: Sequence[str],
    versions: int,
) -> None:
    inputs = [small_shards, run(tmp_path / "b", Part({**COMMON, **changes}), small_shards)]
    merge(tmp_path / "out", inputs)
    path = published_path(tmp_path / "out")
    board = leaderboard(path, "calibration")
    assert sorted(board["conditions"].unique()) == sorted(calibration)
    assert sorted(leaderboard(path, "scaling")["conditions"].unique()) == sorted(scaling)
    assert board["version"].nunique() == versions and board["calibrator"].nunique() == 3
    found = overview(path)
    assert found.places == 2 * len(calibration) and set(found.cells["llm"]) == {"weak"}
    assert "1 LLM " in measured(found) and "3 calibrators " in measured(found)
    gains = {each.gain.places for each in found.ranking if each.gain is not None}
    assert gains == {2 * len(scaling)}
    with reading(path) as connection:
        for cell_id in leaderboard(connection, "scaling")["cell_id"]:
            assert jobs_of(connection, cell_id).cell["leaderboard"] == "calibration"
    # The same result is one row, whatever else differs between the runs.
    keys = [{cell.job.key for cell in _plan(each).cells} for each in inputs]
    assert len(cells(path)) == len(keys[0] | keys[1])


def _with_other_version(run: Path, out: Path, plugin: str, version: int) -> Path:
    """Copy a run as if an earlier version of a plugin had computed it, with other keys of the jobs behind it."""
    shutil.copytree(run, out)
    plan = _plan(out)
    text = (out / "plan.json").read_text()
    behind = [job for job in plan.jobs if job.labels.calibrator == plugin]
    for job in {job.key: job for job in behind}.values():
        refs = [ArtifactRef(ref.kind, _other(ref.key)) for ref in job.refs]
        text = text.replace(job.key, job_key(refs))
        for ref in job.refs:
            text = text.replace(ref.key, _other(ref.key))
            (out / "artifacts" / ref.kind / ref.key).rename(out / "artifacts" / ref.kind / _other(ref.key))
    content = json.loads(text)
    (entry,) = (each for each in content["plugins"]["calibrator"] if each["reference"]["name"] == plugin)
    entry["identity"]["version"] = version
    (out / "plan.json").write_text(json.dumps(content))
    return out


def _plan(run: Path) -> Plan:
    plan = read_plan(run, RunFolder(run).record().grid)
    assert plan is not None
    return plan


def _other(key: str) -> str:
    return f"{key[:-4]}0000"
