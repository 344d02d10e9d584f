"""A grid asks a calibrator of any level for levels of its own, and IAS uses them."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
import yaml

from prmcal.db.queries.curves import curve_points
from tests.conftest import PLUGINS
from tests.one_process import run_here

LEVELS = [0.05, 0.25]
SEARCH = {"name": "beam search + IAS-of-K", "arguments": {"width": 2, "expansions": 2}}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("levels")
    data = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text())
    data |= {
        "llms": data["llms"][:1],
        "calibrators": [
            "any-spread",
            {
                "name": "bound",
                "plugin": "conformal",
                "arguments": {"calibrator": "any-spread", "level": 0.05},
            },
        ],
        "strategies": ["best-of-n + IAS", SEARCH],
        "datasets": [{"name": "synthetic-questions", "questions": 20}],
        "calibration": {"name": "synthetic-questions", "questions": 20, "trajectories": 2, "follow_ups": 4},
        "measurement": {"measured": 2, "follow_ups": 4, "replicates": 100},
        "scaling": {"samples": 8, "targets": [0.9], "levels": LEVELS},
    }
    path = folder / "grid.yaml"
    path.write_text(yaml.safe_dump(data))
    assert run_here(path, folder / "out").failed_cells == 0
    return folder / "out"


def table(out: Path, name: str) -> pd.DataFrame:
    with duckdb.connect(str(out / "leaderboard.duckdb"), read_only=True) as connection:
        return connection.sql(f"select * from {name}").df()


def test_every_prefix_has_a_reward_at_the_levels_of_the_calibrator_and_of_the_grid(out: Path) -> None:
    rewards = pd.concat(map(pd.read_parquet, out.glob("artifacts/calibrated/**/calibrated_rewards.parquet")))
    assert sorted(rewards["level"].unique()) == [0.05, 0.1, 0.25, 0.5, 0.9]
    assert rewards["level"].value_counts().nunique() == 1


def test_ias_has_a_cell_for_each_level_of_the_grid(out: Path) -> None:
    cells = table(out, "cells")
    for name in ("best-of-n + IAS", SEARCH["name"]):
        chosen = cells[cells["strategy"] == name]
        assert sorted(chosen["level"]) == [0.05, 0.05, 0.25, 0.25]
        assert (chosen["status"] == "done").all()


def test_a_lower_level_is_more_cautious(out: Path) -> None:
    points = curve_points(out / "leaderboard.duckdb")
    assert {0.05, 0.1, 0.25, 0.5, 0.9} == set(np.round(points["level"].dropna(), 2))
    results = table(out, "results").merge(table(out, "cells"), on="cell_id")
    samples = results[
        (results["metric"] == "samples")
        & (results["strategy"] == "best-of-n + IAS")
        & (results["calibrator"] == "any-spread")
        & results["question_level"].isna()
    ].set_index("level")["value"]
    assert samples[0.05] > samples[0.25]
