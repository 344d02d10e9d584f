"""Metrics of a user, from a plugin file to every place where the built-in ones are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import prmcal
from prmcal.errors import GridError
from prmcal.harness.cli.leaderboard import render_leaderboard
from prmcal.harness.execution.run import rebuild_database
from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.planning.planner import build_plan
from prmcal.harness.site import write_page
from prmcal.harness.terminal import UNLIMITED
from prmcal.registry.plugins import load_plugin_file
from tests.conftest import PLUGINS
from tests.one_process import run_here

OWN = PLUGINS / "metrics.py"
METRICS: list[Any] = [
    "absolute_error",
    "spread",
    "mean_reward",
    {"name": "share_above_0.9", "plugin": "share_above", "arguments": {"bound": 0.9}},
    {"name": "ece_20", "plugin": "ece", "arguments": {"bins": 20}},
]
GRID: dict[str, Any] = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text()) | {
    "llms": [{"name": "weak", "plugin": "synthetic-llm", "arguments": {"skill": 0.7}}],
    "calibrators": ["uncalibrated", "isotonic"],
    "calibration": {"name": "synthetic-questions", "questions": 10, "trajectories": 2, "follow_ups": 4},
    "datasets": [{"name": "synthetic-questions", "questions": 10}],
    "measurement": {"measured": 2, "follow_ups": 4, "replicates": 100},
    "scaling": {"samples": 4},
    "strategies": ["pass@1"],
}


def with_metrics(*metrics: Any) -> dict[str, Any]:
    return GRID | {"measurement": GRID["measurement"] | {"metrics": list(metrics)}}


def spec(*metrics: Any) -> GridSpec:
    load_plugin_file(PLUGINS / "synthetic.py")
    load_plugin_file(OWN)
    return GridSpec.model_validate(with_metrics(*metrics))


def planned(*metrics: Any) -> Any:
    return build_plan(spec(*metrics))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> prmcal.Run:
    out = tmp_path_factory.mktemp("own") / "out"
    run_here(spec(*METRICS), out, OWN)
    return prmcal.open_run(out)


def test_they_are_on_the_leaderboard_with_intervals_and_tests(run: prmcal.Run) -> None:
    board = run.leaderboard("calibration")
    for name in ("absolute_error", "spread", "mean_reward_0.1", "share_above_0.9", "ece_20"):
        for column in (name, f"{name}_with_terminal"):
            assert (board[f"{column}_low"] <= board[column]).all(), column
            assert (board[column] <= board[f"{column}_high"]).all(), column
    assert (board["absolute_error_low"] < board["absolute_error_high"]).all()
    # A point estimate has the same reward at every level. They are not ranked, because no value is better.
    assert (board["mean_reward_0.1"] == board["mean_reward_0.9"]).all()
    assert board["mean_reward_0.1_standing"].isna().all()
    assert set(board["absolute_error_standing"]) in ({"best", "worse"}, {"best", "tied"})
    compared = run.compare("#1", "#2").table.set_index("metric")
    assert 0 <= compared.loc["spread", "p_adjusted"] <= 1
    assert compared.loc["ece_20", "p_value"] <= 1


def test_they_have_the_values_of_their_prefixes(run: prmcal.Run) -> None:
    cell = run.leaderboard("calibration").set_index("calibrator").loc["uncalibrated"]
    errors = []
    for question in range(10):
        rows = run.prefixes(cell["cell_id"], f"test-{question}")
        known = rows[rows["successes"].notna() & (rows["level"] == 0.5) & ~rows["terminal"].fillna(True).astype(bool)]
        errors += list(abs(known["calibrated_reward"] - known["successes"] / known["follow_ups"]))
    assert len(errors) == cell["rows"]
    assert cell["absolute_error"] == pytest.approx(np.mean(errors))


def test_readers_see_their_words_everywhere(run: prmcal.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prmcal.harness.site.writer.can_draw", lambda: False)
    described = run.metrics.set_index("name")
    assert described.loc["absolute_error", "title"] == "Absolute error"
    assert described.loc["absolute_error", "description"] == (
        "Mean absolute difference between reward and success rate."
    )
    assert described.loc["ece_20", "title"] == "ECE (ece_20)"
    assert described.loc["mean_reward_0.9", "title"] == "Mean reward, beta 0.9"
    assert described.index.get_loc("brier") == 0
    text = render_leaderboard(run.directory, "calibration", width=UNLIMITED)
    assert "Absolute error" in text
    assert "absolute_error,absolute_error_low" in render_leaderboard(run.directory, "calibration", "csv")
    write_page(run.directory, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Mean absolute difference between reward and success rate" in page


def test_a_rebuilt_database_has_them(run: prmcal.Run) -> None:
    before = run.metrics, run.leaderboard("calibration")
    rebuild_database(run.directory)
    again = prmcal.open_run(run.directory)
    assert again.metrics.equals(before[0])
    assert again.leaderboard("calibration").equals(before[1])


def test_only_the_jobs_that_measure_calibration_depend_on_them() -> None:
    plain, more = planned(), planned(*METRICS)
    changed = {job.kind for job, other in zip(plain.jobs, more.jobs, strict=True) if job.key != other.key}
    assert changed == {"calibration_metrics"}
    assert planned(*METRICS).jobs == more.jobs
    other = planned({"name": "share", "plugin": "share_above", "arguments": {"bound": 0.8}}).jobs
    same = planned({"name": "share", "plugin": "share_above", "arguments": {"bound": 0.9}}).jobs
    assert [job.key for job in other] != [job.key for job in same]


def test_a_broken_metric_fails_its_cells_and_is_named(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_here(spec("broken"), out, OWN)
    found = prmcal.open_run(out)
    reasons = set(found.leaderboard("calibration")["reason"])
    assert len(reasons) == 1
    (reason,) = reasons
    assert "The metric 'broken' failed to measure: it must return an array with one value per prefix" in reason
    assert (found.leaderboard("scaling")["status"] == "done").all()


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        (["brier"], "Two metrics have the column 'brier'"),
        (
            [{"name": "coverage_0.5", "plugin": "absolute_error"}],
            "Two metrics have the column 'coverage_0.5'",
        ),
        (["absolute_eror"], "Did you mean 'absolute_error'"),
    ],
)
def test_a_column_belongs_to_one_metric(metrics: list[Any], message: str) -> None:
    with pytest.raises(prmcal.errors.PrmcalError, match=message):
        planned(*metrics)


@pytest.mark.parametrize("name", ["questions", "rows", "accuracy", "mine_low", "mine_with_terminal"])
def test_a_metric_may_not_take_another_column(name: str) -> None:
    with pytest.raises(ValueError, match="leaderboards have other columns"):
        GridSpec.model_validate(with_metrics({"name": name, "plugin": "absolute_error"}))


def test_names_are_used_once() -> None:
    with pytest.raises((GridError, ValueError), match="the name 'absolute_error' is used twice"):
        GridSpec.model_validate(with_metrics("absolute_error", "absolute_error"))
