"""The choice on calibration questions is honest: nothing that is fitted sees the questions that judge it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from prmcal.harness.jobs.parameters import PluginReference
from prmcal.harness.jobs.pools import GradedTrajectories
from prmcal.harness.recommending.measured import (
    FOLDS,
    Candidate,
    FoldRewards,
    KnownPools,
    Measured,
    folds_of,
    measured,
    results_of,
)
from prmcal.harness.recommending.recommend import ordered, reaches
from prmcal.harness.recommending.types import Choice, Wanted
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Answered, PoolStrategy, Setting

QUESTIONS, TRAJECTORIES = 40, 3
PLACE = Choice("llm", "", TRAJECTORIES, prm="prm")


class Memory(PoolStrategy):
    """Draw one trajectory, and answer right where tuning has shown the same answer to be right: pure memory."""

    tuned = True
    reads = ("scores",)

    def tune(self, pool: Pool, setting: Setting) -> None:
        self.seen_ = {tuple(row) for row, right in zip(pool.answers, pool.correct, strict=True) if right[0]}
        self.share_ = float(pool.correct.mean())

    def answer(self, pool: Pool, setting: Setting) -> Answered:
        known = np.array([tuple(row) in self.seen_ for row in pool.answers])
        return Answered(np.where(known, 1.0, 0.5 * self.share_), np.ones(pool.questions), fixed=True)

    def sweep(self, pool: Pool, setting: Setting) -> tuple[Answered, ...]:
        return (self.answer(pool, setting),)


class Remembering(Candidate):
    """A candidate that is built without the registry."""

    def build(self) -> PoolStrategy:
        return Memory()


MEMORY = Remembering(PluginReference("memory", "memory", {}), Memory(), True)


def trajectories(correct: NDArray[np.bool_]) -> GradedTrajectories:
    shape = correct.shape
    return GradedTrajectories(
        np.array([f"q{number:02}" for number in range(len(correct))]),
        np.full(len(correct), np.nan),
        correct,
        np.arange(correct.size).reshape(shape),
        np.ones(shape, np.int64),
        np.ones(shape),
        np.ones(len(correct)),
    )


def scores_of(graded: GradedTrajectories) -> pd.DataFrame:
    questions, drawn = graded.correct.shape
    return pd.DataFrame(
        {
            "question_id": np.repeat(graded.question_ids, drawn),
            "trajectory": np.tile(np.arange(drawn), questions),
            "step": 1,
            "logit": np.random.default_rng(1).normal(size=questions * drawn),
        }
    )


def pools(correct: NDArray[np.bool_], rewards: FoldRewards | None = None) -> KnownPools:
    graded = trajectories(correct)
    return KnownPools(graded, graded, folds_of(len(correct)), scores_of(graded), rewards)


def accuracy_of(correct: NDArray[np.bool_]) -> NDArray[np.float64]:
    found = measured(MEMORY, PLACE, pools(correct), TRAJECTORIES, None, None)
    return next(iter(found)).accuracy


@pytest.fixture
def correct() -> NDArray[np.bool_]:
    return np.random.default_rng(0).random((QUESTIONS, TRAJECTORIES)) < 0.5


def test_every_question_has_one_fold_of_about_the_same_size() -> None:
    for questions in (2, 3, 40, 41):
        sizes = np.bincount(folds_of(questions))
        assert len(sizes) == min(FOLDS, questions)
        assert sizes.max() - sizes.min() <= 1


def test_a_strategy_that_remembers_grades_gains_nothing(correct: NDArray[np.bool_]) -> None:
    strategy = Memory()
    own = pools(correct)
    strategy.tune(own.tuning(("scores",), None), Setting(TRAJECTORIES))
    in_sample = strategy.answer(own.judged(("scores",), None), Setting(TRAJECTORIES)).accuracy
    assert in_sample.max() == 1.0
    assert accuracy_of(correct).max() <= 0.5


def test_the_grades_of_a_fold_do_not_change_what_is_tuned_for_it(correct: NDArray[np.bool_]) -> None:
    folds = folds_of(QUESTIONS)
    before = accuracy_of(correct)
    for fold in range(FOLDS):
        own = folds == fold
        changed = correct.copy()
        changed[own] = True
        after = accuracy_of(changed)
        np.testing.assert_array_equal(after[own], before[own])
        assert (after[~own] != before[~own]).any()


def test_each_question_is_judged_by_rewards_without_its_fold(correct: NDArray[np.bool_]) -> None:
    graded = trajectories(correct)

    def rewards(value: float) -> pd.DataFrame:
        return pd.DataFrame(
            {
                "question_id": graded.question_ids,
                "trajectory": 0,
                "step": 0,
                "level": 0.5,
                "reward": value,
            }
        )

    without = tuple(rewards(fold / 10) for fold in range(FOLDS))
    own = pools(correct, FoldRewards(without, rewards(0.9)))
    np.testing.assert_allclose(own.judged(("rewards",), 0.5).rewards, folds_of(QUESTIONS) / 10)
    tuning = own.tuning(("rewards",), 0.5, 3)
    assert tuning.questions == np.count_nonzero(folds_of(QUESTIONS) != 3)
    np.testing.assert_allclose(tuning.rewards, 0.3)
    np.testing.assert_allclose(own.tuning(("rewards",), 0.5).rewards, 0.9)


def choice(accuracy: Sequence[float] | NDArray[np.float64], samples: float, name: str = "") -> Measured:
    values = np.asarray(accuracy, dtype=np.float64)
    used = np.full(len(values), samples)
    return Measured(Choice("llm", name, 9, fixed=True), MEMORY, values, used, 10 * used)


def test_the_best_of_choices_without_skill_is_as_good_as_any_on_other_questions() -> None:
    """It looks better where it was chosen, and is right as often as the others elsewhere."""
    random = np.random.default_rng(5)
    chosen_by, elsewhere = [], []
    for _ in range(300):
        known = (random.random((20, 40)) < 0.5).astype(float)
        found = ordered([choice(row, 1.0, f"{n}") for n, row in enumerate(known)], Wanted("samples", 1))
        test = (random.random((20, 40)) < 0.5).astype(float)
        chosen_by.append(found[0].accuracy.mean())
        elsewhere.append(test[int(found[0].choice.strategy)].mean())
    error = 0.5 / np.sqrt(300 * 40)
    assert np.mean(chosen_by) > 0.6
    assert abs(np.mean(elsewhere) - 0.5) < 4 * error


def test_choices_beyond_the_budget_are_left_out_and_equal_ones_are_cheap() -> None:
    few, many, dear = (
        choice([1, 0, 1, 1], 2, "few"),
        choice([1, 1, 0, 1], 3, "many"),
        choice([1, 1, 1, 1], 5, "dear"),
    )
    names = partial(map, lambda each: each.choice.strategy)
    assert list(names(ordered([many, few, dear], Wanted("samples", 4)))) == ["few", "many"]
    assert list(names(ordered([many, few, dear], Wanted("tokens", 29)))) == ["few"]


def test_an_accuracy_is_reached_with_a_margin_before_it_is_cheap() -> None:
    lucky = choice([1] * 10 + [0] * 2, 1, "lucky")
    safe = choice([1] * 12, 4, "safe")
    short = choice([1] * 6 + [0] * 6, 1, "short")
    wanted = Wanted("accuracy", 0.8)
    assert [each.choice.strategy for each in ordered([short, lucky, safe], wanted)] == [
        "safe",
        "lucky",
        "short",
    ]
    assert reaches(lucky, wanted) and not reaches(short, wanted)
    assert results_of(safe, True).accuracy.low < 1.0
