"""Other seeds, versions and contents of equal keys are rows of their own."""

from __future__ import annotations

import json
import shutil
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from prmcal.db.catalog import (
    calibration_cell,
    cells,
    history,
    jobs,
    leaderboard,
    overview,
    reward_errors,
    seed_spreads,
)
from prmcal.db.run_folder import published_path
from prmcal.db.text.overview import measured
from prmcal.harness.merging.merge import merge
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.saved import read_plan
from prmcal.harness.storage.folder import RunFolder
from tests.conftest import Prmcal
from tests.harness.merging.small_runs import GRID, WEAK, Part, run

CELL = "calibration/weak/verifier/isotonic/synthetic-questions"


@pytest.fixture(scope="module")
def seeds(parts: Mapping[str, Path], second_seed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("seeds") / "out"
    merge(out, [parts["llm"], second_seed])
    return out


def test_another_seed_is_a_replicate(seeds: Path, parts: Mapping[str, Path], second_seed: Path) -> None:
    board = leaderboard(published_path(seeds), "calibration").set_index("cell_id")
    assert set(board["llm"]) == {"weak (seed 3)", "weak (seed 4)"}
    singles = [
        leaderboard(published_path(run), "calibration").set_index("cell_id")
        for run in (parts["llm"], second_seed)
    ]
    values = [single.loc[CELL, "brier"] for single in singles]
    for seed, single in zip((3, 4), singles, strict=True):
        row = board.loc[CELL.replace("weak", f"weak (seed {seed})")]
        assert (
            row["brier"] == single.loc[CELL, "brier"]
            and row["brier_standing"] == single.loc[CELL, "brier_standing"]
        )
        assert row["variant"] == f"seed {seed}" and row["seeds"] == 2
        assert row["brier_between_seeds"] == pytest.approx(statistics.stdev(values))
    spread = seed_spreads(published_path(seeds)).set_index(["cell_id", "metric"]).loc[(row.name, "brier")]
    assert (spread["lowest"], spread["highest"]) == (min(values), max(values))
    assert len(history(published_path(seeds), CELL, "brier")) == 2


def test_the_spread_between_seeds_is_shown(prmcal: Prmcal, seeds: Path) -> None:
    shown = prmcal("show", "weak (seed 4)/verifier/isotonic/synthetic-questions", "--dir", seeds)
    assert "Between seeds, over all questions" in prmcal("show", 1, "--dir", seeds).stdout + shown.stdout
    told = prmcal("leaderboard", seeds, "--table", "calibration").stdout
    assert "Measured with several seeds: 12 of these cells." in told


def test_another_version_has_it_in_its_name(parts: Mapping[str, Path], tmp_path: Path) -> None:
    older = _with_other_version(parts["dataset"], tmp_path / "older", "isotonic", 0)
    merge(tmp_path / "out", [parts["dataset"], older])
    board = leaderboard(published_path(tmp_path / "out"), "calibration")
    assert list(board["calibrator"].unique()[:2]) == ["uncalibrated", "temperature"]
    assert set(board["calibrator"].unique()[2:]) == {"isotonic (version 0)", "isotonic (version 1)"}
    outdated = dict(zip(board["calibrator"], board["outdated"], strict=True))
    assert outdated["isotonic (version 0)"] == "isotonic 0, now 1"
    assert pd.isna(outdated["isotonic (version 1)"]) and pd.isna(outdated["temperature"])


def test_a_new_version_that_changes_nothing_for_the_arguments_is_current(tmp_path: Path) -> None:
    fixed = run(
        tmp_path / "run", Part({"llms": [WEAK], "strategies": ["weighted best-of-n"], "league": False})
    )
    assert _plan(fixed).plugins["strategy"][0].identity["version"] == "1"
    merge(tmp_path / "out", [fixed])
    board = leaderboard(published_path(tmp_path / "out"), "scaling")
    assert len(board) and board["outdated"].isna().all()


@pytest.mark.parametrize(
    ("changes", "llms", "datasets"),
    [
        ({"sampling": {"temperature": 0.5}}, {"weak (temperature 0.7)", "weak (temperature 0.5)"}, 2),
        ({"scaling": {**GRID["scaling"], "samples": 3}}, {"weak (samples 4)", "weak (samples 3)"}, 2),
        ({"datasets": [{"name": "synthetic-questions", "questions": 6}]}, {"weak"}, 3),
    ],
)
def test_other_conditions_and_other_questions_are_told_by_name(
    parts: Mapping[str, Path],
    tmp_path: Path,
    changes: Mapping[str, Any],
    llms: set[str],
    datasets: int,
) -> None:
    other = run(tmp_path / "other", Part({"llms": [WEAK], **changes}))
    merge(tmp_path / "out", [parts["llm"], other])
    board = leaderboard(published_path(tmp_path / "out"), "scaling")
    assert set(board["llm"]) == llms
    assert board["dataset"].nunique() == datasets
    assert not board.duplicated(["dataset", "llm", "prm", "calibrator", "strategy", "target", "level"]).any()


SMALL_SHARDS = {"shards": {"questions": 20, "trajectories": 2}}
"""With these, runs with pools of different sizes share the trajectories of the smaller one."""


@pytest.mark.parametrize(
    ("changes", "calibration", "scaling", "calibrators"),
    [
        (
            {"scaling": {**GRID["scaling"], "samples": 6}},
            ["weak"],
            ["weak (samples 4)", "weak (samples 6)"],
            3,
        ),
        (
            {"measurement": {**GRID["measurement"], "bins": 5}},
            ["weak (bins 10)", "weak (bins 5)"],
            ["weak"],
            3,
        ),
        ({"calibration": {**GRID["calibration"], "trajectories": 1}}, ["weak"], ["weak"], 6),
        ({"shards": {"questions": 30, "trajectories": 2}}, ["weak"], ["weak"], 3),
        ({"seed": 4}, ["weak (seed 3)", "weak (seed 4)"], ["weak (seed 3)", "weak (seed 4)"], 3),
    ],
)
def test_what_differs_is_told_only_of_the_rows_that_it_changes(
    tmp_path: Path,
    changes: Mapping[str, Any],
    calibration: Sequence[str],
    scaling: Sequence[str],
    calibrators: int,
) -> None:
    common = {"llms": [WEAK], **SMALL_SHARDS}
    inputs = [run(tmp_path / "a", Part(common)), run(tmp_path / "b", Part({**common, **changes}))]
    merge(tmp_path / "out", inputs)
    path = published_path(tmp_path / "out")
    assert list(leaderboard(path, "calibration")["llm"].unique()) == calibration
    assert list(leaderboard(path, "scaling")["llm"].unique()) == scaling
    assert leaderboard(path, "calibration")["calibrator"].nunique() == calibrators
    # Whatever the LLM is called on a leaderboard, all of them belong together.
    found = overview(path)
    assert found.places == 2 * len(calibration) and len(found.llms) == len(calibration)
    assert "1 LLM " in measured(found) and "3 calibrators " in measured(found)
    gains = {each.gain.places for each in found.ranking if each.gain is not None}
    assert gains == {2 * len(scaling)}
    for llm in {*calibration, *scaling}:
        part = overview(path, llm=[llm])
        assert all(each.gain is not None and each.gain.places % 2 == 0 for each in part.ranking)
    for cell_id in leaderboard(path, "scaling")["cell_id"]:
        assert calibration_cell(path, cell_id).startswith("calibration/")
    # The same result is one row, whatever else differs between the runs.
    keys = [{cell.job.key for cell in _plan(each).cells} for each in inputs]
    assert len(cells(path)) == len(keys[0] | keys[1])


def test_a_fit_counts_once_whatever_names_its_llm_has(tmp_path: Path) -> None:
    larger = {"llms": [WEAK], "scaling": {**GRID["scaling"], "samples": 6}}
    runs = [run(tmp_path / "a", Part(SMALL_SHARDS)), run(tmp_path / "b", Part({**SMALL_SHARDS, **larger}))]
    merge(tmp_path / "out", runs)
    path = published_path(tmp_path / "out")
    fits = jobs(path).query("kind == 'fit' and calibrator == 'isotonic'")
    assert set(fits["llm"]) == {"strong", "weak", "weak (samples 4)", "weak (samples 6)"}
    once = fits.drop_duplicates("seed")["seconds"]
    assert len(once) == 2
    shown = {each.calibrator: each.fit_seconds for each in overview(path).ranking}
    assert shown["isotonic"] == pytest.approx(once.mean())


def test_prefixes_of_two_pools_are_counted_once(tmp_path: Path) -> None:
    common = {"llms": [WEAK], **SMALL_SHARDS}
    first = run(tmp_path / "a", Part({**common, "calibrators": ["uncalibrated", "temperature"]}))
    larger = {"scaling": {**GRID["scaling"], "samples": 6}, "calibrators": ["uncalibrated", "isotonic"]}
    merge(tmp_path / "out", [first, run(tmp_path / "b", Part({**common, **larger}))])
    bars = reward_errors(published_path(tmp_path / "out"), 5)
    pd.testing.assert_frame_equal(bars, reward_errors(published_path(first), 5))


def _with_other_version(run: Path, out: Path, plugin: str, version: int) -> Path:
    """Copy a run as if an earlier version of a plugin had computed it, with other keys of the jobs behind it."""
    shutil.copytree(run, out)
    plan = _plan(out)
    text = (out / "plan.json").read_text()
    behind = [job for job in plan.jobs if job.labels.calibrator == plugin]
    for job in {job.key: job for job in behind}.values():
        text = text.replace(job.key, _other(job.key))
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
