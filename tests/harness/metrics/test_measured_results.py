"""What the measuring jobs write: budgets, their intervals, and the values of single questions, from tables on disk."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from prmcal.db.statistics.bootstrap import Bootstrap
from prmcal.harness.jobs import strategy
from prmcal.harness.jobs.context import Context, Output
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import (
    PluginReference,
    QuestionSlice,
    SearchResultsParameters,
    StrategyParameters,
)
from prmcal.harness.jobs.pools import QuestionAxis, success_rates
from prmcal.harness.storage.store import ArtifactRef, Store
from prmcal.registry.plugins import load_plugin_file
from tests.conftest import PLUGINS

load_plugin_file(PLUGINS / "synthetic.py")
QUESTIONS, POOL = 40, 16
DATA = QuestionSlice(PluginReference("synthetic-questions", "synthetic-questions", {}), "test", range(QUESTIONS))
IDS = [f"test-{number}" for number in range(QUESTIONS)]
RESAMPLING = Bootstrap(200, 3)


def shard(store: Store, parameters: Any, tables: dict[str, dict[str, pd.DataFrame]]) -> Shard[Any]:
    """A shard whose inputs are these tables, by role and name."""
    figures = {"seconds": 0.0, "samples": 0, "generated_tokens": 0, "scored_tokens": 0}
    for role, named in tables.items():
        store.write(ArtifactRef(role, "key"), partial(write, named), figures)
    inputs = {role: (ArtifactRef(role, "key"),) for role in tables}
    return Shard(ArtifactRef(parameters.kind, "own"), parameters, inputs)


def write(tables: dict[str, pd.DataFrame], folder: Path) -> None:
    for name, table in tables.items():
        table.to_parquet(folder / f"{name}.parquet")


def results(output: Output, metric: str) -> pd.DataFrame:
    table = output.tables["results"]
    found = table[table["metric"] == metric]
    return found.set_index(found["question_level"].fillna(0).astype(int))


def searches(generations: np.ndarray, random: np.random.Generator) -> pd.DataFrame:
    order = random.permutation(QUESTIONS)  # Searches are stored in any order.
    return pd.DataFrame(
        {
            "question_id": np.array(IDS)[order],
            "correct": np.ones(QUESTIONS, dtype=bool),
            "any_correct": np.ones(QUESTIONS, dtype=bool),
            "generations": generations[order],
            "generated_tokens": 10 * generations[order],
            "prefill_tokens": np.full(QUESTIONS, 8),
            "scored_tokens": 12 * generations[order],
        }
    )


def searched(store: Store, own: np.ndarray, baseline: np.ndarray) -> Output:
    random = np.random.default_rng(1)
    tables = {
        "search": {"searches": searches(own, random)},
        "fixed": {"searches": searches(baseline, random)},
    }
    return strategy.compute_search_results(
        shard(store, SearchResultsParameters(bootstrap=RESAMPLING, data=DATA), tables), Context(store)
    )


def test_a_search_over_itself_has_exactly_its_own_budget(tmp_path: Path) -> None:
    generations = np.random.default_rng(0).integers(10, 200, QUESTIONS)
    output = searched(Store(tmp_path), generations, generations)
    found = results(output, "budget_ratio")
    assert len(found) == 6
    assert (found[["value", "low", "high"]] == 1).all(axis=None)
    drawn = output.tables["replicates"]
    assert (drawn[drawn["metric"] == "budget_ratio"]["value"] == 1).all()
    accuracy = results(output, "accuracy").loc[0]
    assert 0.9 < accuracy["low"] < accuracy["value"] == accuracy["high"] == 1


def test_the_budget_of_a_search_is_divided_within_questions(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    baseline = random.integers(20, 400, QUESTIONS)
    own = np.maximum(baseline // 2 + random.integers(-4, 5, QUESTIONS), 1)
    output = searched(Store(tmp_path), own, baseline)
    found = results(output, "budget_ratio").loc[0]
    assert found["value"] == pytest.approx(own.sum() / baseline.sum())
    assert found["high"] - found["low"] < 0.05
    by_level = results(output, "budget_ratio").loc[2]
    chosen = np.arange(QUESTIONS) % 5 == 1
    assert by_level["value"] == pytest.approx(own[chosen].sum() / baseline[chosen].sum())
    values = output.tables["question_results"]
    values = values[values["metric"] == "budget_ratio"]["value"]
    assert values.mean() == pytest.approx(found["value"])
    drawn = output.tables["replicates"]
    drawn = drawn[drawn["metric"] == "budget_ratio"]["value"]
    assert drawn.std() == pytest.approx((found["high"] - found["low"]) / 4, rel=0.3)


def answered(store: Store, name: str, targeted: bool = True) -> Output:
    """What a strategy achieves on a pool whose questions have very different rewards."""
    random = np.random.default_rng(4)
    chance = random.beta(1, 1, QUESTIONS)
    places = pd.MultiIndex.from_product([IDS, range(POOL)], names=["question_id", "trajectory"])
    every = places.to_frame(index=False)
    correct = random.random(len(every)) < np.repeat(chance, POOL)
    trajectories = every.assign(
        correct=correct,
        answer=np.where(correct, "1", "0"),
        verdict=np.where(correct, "correct", "incorrect"),
        steps=1,
        tokens=random.integers(20, 60, len(every)),
        prompt_tokens=8,
    )
    rewards = every.assign(step=3, logit=random.normal(size=len(every)), reward=0.5)
    bare = pd.DataFrame({"question_id": IDS, "trajectory": 0, "step": 0, "level": 0.5, "reward": chance})
    target = 0.9 if targeted else None
    parameters = StrategyParameters(
        samples=POOL,
        target=target,
        level=0.5 if targeted else None,
        strategy=PluginReference(name, name, {}),
        bootstrap=RESAMPLING,
        data=DATA,
    )
    tables = {
        "graded": {"trajectories": trajectories},
        "score": {"rewards": rewards, "scored_tokens": every.assign(tokens=50)},
        "calibrated": {"calibrated_rewards": bare},
    }
    return strategy.compute_strategy(shard(store, parameters, tables), Context(store))


def test_a_budget_of_equal_cost_is_as_uncertain_as_the_one_it_equals(tmp_path: Path) -> None:
    names = ("best-of-n + IAS", "fixed n of equal cost")
    ias, equal = (answered(Store(tmp_path / str(place)), name) for place, name in enumerate(names))
    ends = ["value", "low", "high"]
    for metric in ("budget_ratio", "samples"):
        own, expected = results(equal, metric), results(ias, metric).loc[0]
        assert own.loc[0, ends].tolist() == pytest.approx(expected[ends].tolist())
        assert own.loc[0, "low"] < own.loc[0, "value"] < own.loc[0, "high"]
        # Questions of any difficulty get the same budget, which was estimated from all questions.
        assert (own[ends] == own.loc[0, ends]).all(axis=None)
        assert set(own["questions"]) == {QUESTIONS}
    tokens = results(equal, "generated_tokens").loc[0]
    relative = (tokens["high"] - tokens["low"]) / tokens["value"]
    budget = results(equal, "budget_ratio").loc[0]
    assert relative > 0.9 * (budget["high"] - budget["low"]) / budget["value"]


def test_a_fixed_number_of_samples_is_no_estimate(tmp_path: Path) -> None:
    output = answered(Store(tmp_path), "best-of-n", targeted=False)
    for metric, value in (("budget_ratio", 1), ("samples", POOL)):
        assert (results(output, metric)[["value", "low", "high"]] == value).all(axis=None)
    tokens = results(output, "generated_tokens").loc[0]
    assert tokens["low"] < tokens["value"] < tokens["high"]


def test_the_oracle_reads_the_follow_ups_of_the_bare_question_of_all_trajectories() -> None:
    axis = QuestionAxis(np.array(["a", "b", "c"]), np.full(3, np.nan))
    rows = [("b", 0, 0, 3, 8), ("b", 1, 0, 1, 8), ("b", 1, 0, 4, 4), ("a", 0, 0, 8, 8), ("a", 0, 1, 0, 8)]
    table = pd.DataFrame(rows, columns=["question_id", "trajectory", "step", "successes", "follow_ups"])
    np.testing.assert_array_equal(success_rates(table, axis), [1.0, 0.4, np.nan])
