"""What a strategy of one's own gets to see of a run: all that it declares, of the right questions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from tests.conftest import PLUGINS
from tests.one_process import run_here

QUESTIONS, POOL, CALIBRATION, MEASURED = 12, 8, 15, 4
LEVEL = 0.1

# It writes what it is given to a folder of its own.
WITNESS = """
from pathlib import Path

import numpy as np

from prmcal import Answered, PoolStrategy, strategy
from prmcal.registry.contracts.pool import READS


def write(path, pool):
    np.savez(path, correct=pool.correct, **{name: getattr(pool, name) for name in READS})


@strategy("witness")
class Witness(PoolStrategy):
    reads, tuned = READS, True

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def tune(self, pool, allowance):
        write(Path(self.folder) / "tuning.npz", pool)

    def answer(self, pool, allowance):
        write(Path(self.folder) / "test.npz", pool)
        return Answered(pool.correct.mean(axis=1), np.ones(pool.questions))
"""


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pools")
    data = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text())
    data |= {
        "llms": data["llms"][:1],
        "calibrators": [
            "isotonic",
            {"name": "quantiles", "plugin": "conformal", "arguments": {"calibrator": "isotonic"}},
        ],
        "strategies": [{"name": "witness", "arguments": {"folder": str(folder)}, "calibrators": ["quantiles"]}],
        "datasets": [{"name": "synthetic-questions", "questions": QUESTIONS}],
        "calibration": {"name": "synthetic-questions", "questions": CALIBRATION, "trajectories": 4, "follow_ups": 4},
        "measurement": {"measured": MEASURED, "follow_ups": 4, "replicates": 100},
        "scaling": {"samples": POOL, "targets": [0.9], "levels": [LEVEL]},
    }
    (folder / "witness.py").write_text(WITNESS)
    path = folder / "grid.yaml"
    path.write_text(yaml.safe_dump(data))
    assert run_here(path, folder / "out", folder / "witness.py").failed_cells == 0
    return folder


@pytest.fixture(scope="module")
def tables(out: Path) -> dict[str, pd.DataFrame]:
    """The tables of all artifacts, with the split in the id of the question."""
    found: dict[str, list[pd.DataFrame]] = {}
    for path in sorted((out / "out" / "artifacts").rglob("*.parquet")):
        found.setdefault(path.stem, []).append(pd.read_parquet(path))
    return {name: pd.concat(parts, ignore_index=True) for name, parts in found.items()}


@pytest.fixture(params=["test", "tuning"])
def seen(request: pytest.FixtureRequest, out: Path) -> tuple[str, Mapping[str, Any]]:
    split = {"test": "test", "tuning": "calibration"}[request.param]
    return split, np.load(out / f"{request.param}.npz")


def test_it_sees_the_trajectories_of_its_questions(
    seen: tuple[str, Mapping[str, Any]], tables: dict[str, pd.DataFrame]
) -> None:
    split, pool = seen
    expected = (QUESTIONS, POOL) if split == "test" else (CALIBRATION, 4)
    assert pool["correct"].shape == expected
    rows = tables["trajectories"]
    own = rows[rows["question_id"].str.startswith(f"{split}-")]
    matrix = own.pivot(index="question_id", columns="trajectory", values="correct").sort_index()
    np.testing.assert_array_equal(pool["correct"], matrix.to_numpy(bool))


def test_scores_of_steps_end_with_that_of_the_whole_trajectory(
    seen: tuple[str, Mapping[str, Any]], tables: dict[str, pd.DataFrame]
) -> None:
    split, pool = seen
    rows = tables["rewards"]
    own = rows[rows["question_id"].str.startswith(f"{split}-")]
    for (question, trajectory), group in own.groupby(["question_id", "trajectory"]):
        place = sorted(own["question_id"].unique()).index(question)
        scores = group.sort_values("step")["logit"].to_numpy(np.float64)
        mine = pool["step_scores"][place, trajectory]
        np.testing.assert_array_equal(mine[: len(scores)], scores)
        assert np.isnan(mine[len(scores) :]).all()
        assert pool["scores"][place, trajectory] == scores[-1]


def test_rewards_are_those_of_the_bare_question_at_its_level(
    seen: tuple[str, Mapping[str, Any]], tables: dict[str, pd.DataFrame]
) -> None:
    split, pool = seen
    rows = tables["calibrated_rewards"]
    bare = rows[rows["question_id"].str.startswith(f"{split}-") & (rows["step"] == 0) & (rows["level"] == LEVEL)]
    expected = bare.groupby("question_id")["reward"].first().sort_index()
    np.testing.assert_array_equal(pool["rewards"], expected)


def test_success_rates_are_those_of_its_questions(
    seen: tuple[str, Mapping[str, Any]], tables: dict[str, pd.DataFrame]
) -> None:
    split, pool = seen
    rows = tables["successes"]
    own = rows[rows["question_id"].str.startswith(f"{split}-") & (rows["step"] == 0)]
    sums = own.groupby("question_id")[["successes", "follow_ups"]].sum().sort_index()
    np.testing.assert_allclose(pool["success"], sums["successes"] / sums["follow_ups"])
