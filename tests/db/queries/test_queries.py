from __future__ import annotations

import math
import shutil
from datetime import datetime
from pathlib import Path

import pandas as pd
import pytest
import sqlalchemy as sa

from prmcal.db import catalog
from prmcal.db.metrics import cell_id
from prmcal.db.reader import fingerprint, frame, reading
from prmcal.db.run_folder import database_path, published_path
from prmcal.db.tables import Cell, Comparison, Result, RunRow
from prmcal.db.writer import Writer
from prmcal.errors import UnknownCellError
from tests.db import factory, parquet_files
from tests.measured import described_rows
from tests.stored import load, publish, record

WEAK_MATH = cell_id("calibration", "weak", "nano-math", prm="qwen", calibrator="temperature")


def test_rows_follow_the_grid_and_not_the_alphabet(published: Path) -> None:
    found = catalog.leaderboard(published, "calibration")
    assert list(found["dataset"].drop_duplicates()) == list(factory.DATASETS)
    first = found[found["dataset"] == "nano-math"]
    assert list(first["llm"].drop_duplicates()) == list(factory.LLMS)
    assert list(first["calibrator"])[:3] == list(factory.CALIBRATORS)
    scaling = catalog.leaderboard(published, "scaling", llm=["weak"], dataset=["nano-aime"])
    assert list(scaling["strategy"].drop_duplicates()) == list(factory.STRATEGIES)
    assert list(scaling["calibrator"].dropna()) == list(factory.CALIBRATORS)


def test_every_value_carries_its_interval_and_numbers(published: Path) -> None:
    row = catalog.leaderboard(published).set_index("cell_id").loc[WEAK_MATH]
    expected = factory.metric_values("weak", "temperature", "nano-math")
    for metric, value in expected.items():
        assert (row[metric], row[f"{metric}_low"], row[f"{metric}_high"]) == (value, value - 0.0213, value + 0.0345)
    assert (row["rows"], row["questions"], row["status"]) == (1234, 100, "done")
    # The variance of the errors, divided by that of their mean: an interval of 0.0558 is 2 x 1.96 of its deviations.
    spread = expected["brier"] - expected["signed_error"] ** 2
    assert row["independent"] == pytest.approx(min(1234, spread / (0.0558 / 3.92) ** 2), rel=1e-4)


def test_values_of_one_difficulty_are_asked_for_by_level(published: Path) -> None:
    found = catalog.measurements(published, question_level=2, calibrator=["temperature"])
    row = found[(found["cell_id"] == WEAK_MATH) & (found["metric"] == "brier")].iloc[0]
    assert row["value"] == factory.metric_values("weak", "temperature", "nano-math")["brier"] + 0.02
    assert row["questions"] == 50


def test_a_failed_cell_is_a_row_with_its_reason_and_shows_no_stale_values(results: Path, tmp_path: Path) -> None:
    shutil.copy(database_path(results), database_path(tmp_path))
    writer = Writer(database_path(tmp_path))
    found = catalog.leaderboard(writer.path).set_index("cell_id").loc[factory.FAILED_CELL]
    assert (found["status"], found["reason"]) == ("failed", factory.REASON)
    assert pd.isna(found["brier"])
    row = frame(writer.path, sa.select(Cell).where(Cell.cell_id == WEAK_MATH)).iloc[0].to_dict()
    record(
        writer, [Cell(**{**row, "strategy": None, "target": None, "level": None, "status": "failed", "reason": "gone"})]
    )
    found = catalog.leaderboard(writer.path).set_index("cell_id").loc[WEAK_MATH]
    assert found["reason"] == "gone"
    assert pd.isna(found["brier"])


def test_a_run_that_has_just_begun_has_rows_without_values(tmp_path: Path) -> None:
    writer = Writer(database_path(tmp_path))
    record(writer, described_rows())
    assert catalog.leaderboard(writer.path).empty
    here = {"leaderboard": "calibration", "llm": "l", "prm": "p", "calibrator": "c", "dataset": "d"}
    record(writer, [Cell(cell_id="x", status="pending", job_key="j", **here)])
    found = catalog.leaderboard(writer.path)
    assert found[["cell_id", "status"]].values.tolist() == [["x", "pending"]]
    assert found["brier"].isna().all()
    assert catalog.cell(writer.path, "x").jobs.empty
    assert catalog.trajectories(writer.path, "x").empty


def test_standings_say_which_differences_are_real(published: Path) -> None:
    found = catalog.leaderboard(published, llm=["weak"], dataset=["nano-math"]).set_index("calibrator")
    assert found["brier_standing"].to_dict() == {"uncalibrated": "worse", "temperature": "tied", "isotonic": "best"}
    assert found["ece_standing"].isna().all()


@pytest.mark.parametrize(
    ("metric", "values", "p_adjusted", "best"),
    [
        ("brier", {"a": 0.2, "b": 0.1}, 0.01, "b"),
        ("signed_error", {"a": -0.2, "b": 0.1}, 0.01, "b"),
        ("signed_error", {"a": -0.05, "b": 0.1}, 0.01, "a"),
        ("budget_ratio", {"a": 0.5, "b": 0.1}, 0.01, None),
        ("brier", {"a": 0.2, "b": 0.1}, math.nan, None),
    ],
)
def test_the_best_is_what_the_metric_calls_better(
    tmp_path: Path, metric: str, values: dict[str, float], p_adjusted: float, best: str | None
) -> None:
    writer = Writer(database_path(tmp_path))
    record(writer, described_rows())
    here = {"leaderboard": "calibration", "llm": "l", "prm": "p", "dataset": "d", "status": "done"}
    record(writer, [Cell(cell_id=name, calibrator=name, **here) for name in values])
    for name, value in values.items():
        columns = {"metric": [metric], "value": [value], "low": [value], "high": [value], "rows": [9], "questions": [3]}
        path = parquet_files.write_parquet(tmp_path / f"{name}.parquet", columns)
        load(writer, "results", {name: [path]})
    numbers = {
        "difference": 0.1,
        "low": 0.1,
        "high": 0.1,
        "p_value": p_adjusted,
        "p_adjusted": p_adjusted,
        "questions": 3,
    }
    record(writer, [Comparison(leaderboard="calibration", metric=metric, cell_a="a", cell_b="b", **numbers)])
    standings = catalog.measurements(writer.path).set_index("cell_id")["standing"].dropna().to_dict()
    assert standings == ({} if best is None else {name: "best" if name == best else "worse" for name in values})


def test_the_exported_leaderboard_says_nothing_of_its_run(results: Path) -> None:
    for table in ("calibration", "scaling"):
        exported = catalog.leaderboard(published_path(results), table).to_csv()
        assert "run-1" not in exported
        assert "2026" not in exported


def test_a_cell_is_followed_down_to_its_rollouts_and_versions(published: Path) -> None:
    detail = catalog.cell(published, WEAK_MATH)
    assert detail.cell["status"] == "done"
    assert list(detail.jobs["kind"]) == [
        "calibration_metrics",
        "calibrated",
        "success",
        "fit",
        "graded",
        "score",
        "rollout",
    ]
    assert list(detail.jobs["depth"]) == [0, 1, 1, 2, 2, 2, 3]
    assert set(detail.plugins["name"]) == {"weak", "qwen", "temperature", "nano-math"}
    assert {"version": "1", "weights": "hash-of-weak"} in list(detail.plugins["identity"])
    assert list(detail.datasets["content_hash"]) == ["hash-nano-math"]
    assert detail.samples["text"].iloc[0] == parquet_files.SCRIPT
    assert len(detail.results) == 3 * len(factory.METRICS)


def test_the_trajectories_and_prefixes_behind_a_cell(published: Path) -> None:
    found = catalog.trajectories(published, WEAK_MATH, "q1")
    assert list(found["trajectory"]) == [0, 1, 2]
    assert list(found["correct"]) == [False, True, False]
    assert set(found["question"]) == {"What is 1?"}
    assert found["answer"].isna().tolist() == [False, True, False]
    prefixes = catalog.prefixes(published, WEAK_MATH, "q1")
    assert len(prefixes) == parquet_files.POOL * (parquet_files.STEPS + 1)
    assert (prefixes["follow_ups"] == 8).all()
    with reading(published) as connection:
        stored = connection.exec_driver_sql(
            "SELECT r.reward, c.reward FROM rewards r JOIN calibrated_rewards c USING (question_id, trajectory, step) "
            "WHERE r.job_key = 'score-weak-nano-math' AND c.job_key = 'calibrated-weak-temperature-nano-math' "
            "AND question_id = 'q1' ORDER BY trajectory, step"
        ).all()
    assert [tuple(row) for row in prefixes[["reward", "calibrated_reward"]].values] == [tuple(row) for row in stored]


def test_an_unknown_cell_suggests_the_nearest(published: Path) -> None:
    with pytest.raises(UnknownCellError, match=f"Did you mean .*{WEAK_MATH}"):
        catalog.cell(published, WEAK_MATH.replace("temperature", "temprature"))


def test_bins_come_in_order_and_an_empty_one_has_no_means(published: Path) -> None:
    bins = catalog.reliability(published, WEAK_MATH)
    assert list(bins["bin"]) == list(range(10))
    assert bins.loc[bins["count"] == 0, "mean_success"].isna().all()


def test_a_scaling_cell_has_no_bins(published: Path) -> None:
    cell = cell_id("scaling", "weak", "nano-math", strategy="pass@1")
    assert catalog.reliability(published, cell).empty


def test_all_level_rows_are_marked_by_null(published: Path) -> None:
    found = frame(published, sa.select(Result.question_level).distinct())
    assert set(found["question_level"].dropna()) == {1, 2}
    assert found["question_level"].isna().sum() == 1
    assert str(found["question_level"].dtype) == "Int64"


def test_runs_plugins_and_data_sets_are_listed(published: Path) -> None:
    assert catalog.runs(published)["packages"].tolist() == [{"torch": "2.13.0"}]
    calibrators = catalog.plugins(published).query("kind == 'calibrator'")
    assert list(calibrators["name"]) == list(factory.CALIBRATORS)


def test_an_earlier_run_that_was_killed_is_interrupted(tmp_path: Path) -> None:
    writer = Writer(database_path(tmp_path))
    with writer.transaction() as transaction:
        for number in (1, 2):
            (run,) = (row for row in factory._descriptions() if isinstance(row, RunRow))
            run.run_id, run.started_at = f"run-{number}", datetime(2026, 1, number)
            transaction.interrupt_runs()
            transaction.record([run])
    publish(writer)
    assert catalog.runs(writer.published)["status"].tolist() == ["interrupted", "running"]


def test_the_fingerprint_changes_with_every_publishing(tmp_path: Path) -> None:
    writer = Writer(database_path(tmp_path))
    assert fingerprint(writer.published) is None
    publish(writer)
    first = fingerprint(writer.published)
    publish(writer)
    assert fingerprint(writer.published) not in (None, first)
