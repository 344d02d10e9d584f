"""What a run tells of strategies: costs, curves, areas, selective answering, the frontier."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from prmcal.db import catalog
from prmcal.db.queries.curves import curve_points, exact_curves
from prmcal.db.text.board import comparison_board
from prmcal.harness.jobs.curves import TARGETS
from tests.conftest import PLUGINS
from tests.one_process import run_here

STRATEGIES = ["pass@1", "majority vote", "best-of-n", "best-of-n + IAS", "oracle IAS", "pass@N"]
QUESTIONS, POOL = 20, 16


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small finished run."""
    folder = tmp_path_factory.mktemp("scaling")
    data = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text())
    data |= {
        "llms": data["llms"][:1],
        "calibrators": ["uncalibrated", "isotonic"],
        "strategies": STRATEGIES,
        "calibration": {"name": "synthetic-questions", "questions": 20, "trajectories": 2, "follow_ups": 4},
        "measurement": {"measured": 2, "follow_ups": 4, "replicates": 100},
        "datasets": [{"name": "synthetic-questions", "questions": QUESTIONS}],
        "scaling": {"samples": POOL, "targets": [TARGETS[-1]]},
    }
    path = folder / "grid.yaml"
    path.write_text(yaml.safe_dump(data))
    assert run_here(path, folder / "out").failed_cells == 0
    return folder / "out"


@pytest.fixture(scope="module")
def database(out: Path) -> Path:
    return out / "leaderboard.duckdb"


def test_costs_are_those_of_the_pool(database: Path) -> None:
    found = catalog.leaderboard(database, "scaling").set_index("strategy")
    jobs = catalog.jobs(database).set_index("kind")
    test = jobs[jobs["split"] == "test"]
    fixed, single = found.loc["best-of-n"], found.loc["pass@1"]
    # All of the pool is drawn and scored: the totals are what the jobs counted.
    assert fixed["samples"] * QUESTIONS == QUESTIONS * POOL == test.loc["rollout", "samples"]
    assert fixed["generated_tokens"] * QUESTIONS == pytest.approx(test.loc["rollout", "generated_tokens"])
    assert fixed["prm_tokens"] * QUESTIONS == pytest.approx(test.loc["score", "scored_tokens"])
    assert single["generated_tokens"] == pytest.approx(fixed["generated_tokens"] / POOL)
    assert single["prm_tokens"] == 0 == found.loc["majority vote", "prm_tokens"]
    assert (found["prefill_tokens"] == 8).all()  # the bare question, once for all samples
    assert (found.loc["best-of-n + IAS", "prm_tokens"] < fixed["prm_tokens"]).all()


def test_what_needs_the_truth_is_a_limit_and_no_rival(database: Path) -> None:
    tests, cells = catalog.comparisons(database), catalog.leaderboard(database, "scaling")
    limits = cells[cells["strategy"].isin(["oracle IAS", "pass@N"])]
    assert len(limits) == 2 and limits["accuracy_standing"].isna().all()
    rivals = set(cells.dropna(subset="prm")["cell_id"]) - set(limits["cell_id"])
    scaling = tests[tests["leaderboard"] == "scaling"]
    assert {*scaling["cell_a"], *scaling["cell_b"]} == rivals
    assert "best" in set(cells.loc[cells["cell_id"].isin(rivals), "accuracy_standing"])
    # The difference from a limit is told, and not tested.
    oracle, other = limits["cell_id"].iloc[0], sorted(rivals)[0]
    found = catalog.compare_cells(database, oracle, other)
    assert np.isnan(found.p_values).all() and found.table["low"].notna().any()
    assert "is a limit and no rival" in comparison_board(found).legend


def test_curves_and_leaderboard_agree(database: Path) -> None:
    points, table = curve_points(database), catalog.leaderboard(database, "scaling")
    every = points[points["question_level"].isna()]
    adaptive = every[every["calibrator"].notna()]
    assert len(adaptive) == 2 * len(TARGETS)
    for _, row in table[table["strategy"] == "best-of-n + IAS"].iterrows():
        same = adaptive[(adaptive["calibrator"] == row["calibrator"]) & (adaptive["point"] == 7)]
        assert same["target"].item() == row["target"]
        for name in ("accuracy", "accuracy_low", "accuracy_high", "samples", "samples_low"):
            assert same[name].item() == pytest.approx(row[name])
    fixed = every[every["calibrator"].isna()]
    assert fixed["samples"].tolist() == [1, 2, 4, 8, 16]
    best = table[table["strategy"] == "best-of-n"]["accuracy"].item()
    assert fixed["accuracy"].iloc[-1] == pytest.approx(best)


def test_by_difficulty_points_add_up(database: Path) -> None:
    points = curve_points(database)
    fixed = points[points["calibrator"].isna() & (points["point"] == 2)]
    levels = fixed[fixed["question_level"].notna()]
    assert sorted(levels["question_level"]) == [1, 2, 3, 4, 5]
    whole = fixed[fixed["question_level"].isna()]["accuracy"].item()
    assert np.average(levels["accuracy"], weights=levels["questions"]) == pytest.approx(whole)


def test_any_setting_of_a_reader_is_computed_as_the_curves_were(database: Path) -> None:
    points = curve_points(database)
    (place,) = points[["dataset", "llm", "prm"]].drop_duplicates().to_dict("records")
    pool = exact_curves(database, **place)
    assert pool is not None
    for row in points[points["question_level"].isna()].to_dict("records"):
        curve = (
            pool.fixed([round(row["samples"])])
            if pd.isna(row["target"])
            else pool.adaptive(row["calibrator"], row["level"], [row["target"]])
        )
        for name, (value,) in curve.columns("samples").items():
            assert value == pytest.approx(row[name], abs=1e-12, nan_ok=True)
