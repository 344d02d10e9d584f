"""What a choice reaches on the test questions of one data set, compared with the plain choices. Nothing is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prmcal.db.overview.types import Quantity
from prmcal.db.statistics.equal_cost import against_fixed
from prmcal.db.statistics.intervals import bounded_interval, known_interval, skewed_interval
from prmcal.harness.jobs.context import plugin_guard
from prmcal.harness.jobs.measurement.pools import pool_of, tables_from
from prmcal.harness.jobs.measurement.strategy import check_answered
from prmcal.harness.jobs.measurement.trajectories import GradedTrajectories, scores_of_whole
from prmcal.harness.recommending.calibration import quantity
from prmcal.harness.recommending.candidates import FIXED, Candidate
from prmcal.harness.recommending.folds import KnownPools
from prmcal.harness.recommending.types import Choice, Tested
from prmcal.registry.contracts.strategy import Answered, Setting
from prmcal.registry.strategies.exact import best_of_each

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Answers", "TestPool", "answers_of", "difference", "tested"]


@dataclass(frozen=True, eq=False)
class TestPool:
    """The trajectories of the test questions of one data set by one LLM.

    Attributes
    ----------
    dataset : str
    trajectories : GradedTrajectories
    scores : DataFrame
        The scores of the PRM of the choice, or of that which best-of-n is compared with.
    rewards : DataFrame or None
        The calibrated rewards, if the choice reads any.
    """

    __test__ = False  # It is no test of pytest.

    dataset: str
    trajectories: GradedTrajectories
    scores: pd.DataFrame
    rewards: pd.DataFrame | None = None


@dataclass(frozen=True, eq=False)
class Answers:
    """The results of a choice for each test question."""

    pool: TestPool
    answered: Answered

    @property
    def accuracy(self) -> NDArray[np.float64]:
        """The probability of a right answer, of shape (questions,)."""
        return np.minimum(self.answered.accuracy, 1.0)


def answers_of(choice: Choice, candidate: Candidate, pool: TestPool, known: KnownPools) -> Answers:
    """Run a choice on test questions. A strategy that is tuned is tuned by the calibration questions of the run."""
    strategy, setting = candidate.build(), Setting(choice.samples, choice.target)

    def table(role: str, name: str) -> pd.DataFrame:
        found = pool.scores if role == "score" else pool.rewards
        assert found is not None
        return found

    with plugin_guard("strategy", candidate.name, "answer"):
        if strategy.tuned:
            strategy.tune(known.tuning(strategy.reads, choice.level), setting)
        judged = pool_of(pool.trajectories, tables_from(table), strategy.reads, choice.level)
        answered = strategy.answer(judged, setting)
        check_answered(answered, strategy, judged.questions, setting)
    return Answers(pool, answered)


def tested(choice: Choice, candidate: Candidate, found: Answers, recommended: Answers | None) -> Tested:
    """Return the means of a choice over the test questions, and its paired differences.

    Parameters
    ----------
    choice : Choice
    candidate : Candidate
    found : Answers
    recommended : Answers or None
        The answers of the recommended choice to the same questions; None if it is this choice.
    """
    pool, answered, accuracy = found.pool, found.answered, found.accuracy
    trajectories = pool.trajectories
    most = trajectories.correct.shape[1]
    samples = answered.samples
    tokens = samples * trajectories.tokens.mean(axis=1)
    to_fixed = None
    if candidate.reference.plugin != FIXED:
        table = best_of_each(scores_of_whole(pool.scores, most), trajectories.correct, most)
        values = against_fixed(accuracy[:, None], samples[:, None], table)[:, 0]
        to_fixed = quantity(values, skewed_interval)
    return Tested(
        dataset=pool.dataset,
        questions=len(accuracy),
        accuracy=quantity(accuracy, bounded_interval),
        samples=quantity(
            samples,
            known_interval if answered.fixed else partial(bounded_interval, upper=float(choice.samples)),
        ),
        tokens=quantity(tokens, skewed_interval) if tokens.any() else None,
        to_fixed=to_fixed,
        to_pass_at_1=difference(accuracy, trajectories.correct.mean(axis=1)),
        to_recommended=None if recommended is None else difference(accuracy, recommended.accuracy),
    )


def difference(first: NDArray[np.float64], second: NDArray[np.float64]) -> Quantity:
    """Return the mean of the differences between values of the same questions, with its interval."""
    return quantity(np.asarray(first - second, dtype=np.float64), skewed_interval)
