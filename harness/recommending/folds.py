"""Rewards and pools of the calibration questions, without the questions on which they are judged.

Calibrators and tuned strategies were fitted to the calibration questions, so they look too good on them. The questions
are divided into parts (folds). For each part, everything is fitted again to the other parts, in the way in which the
run fits it to all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prmcal.harness.jobs.calibrators import (
    PREFIX,
    calibration_rows,
    features_of,
    fit_to,
    predicted_rewards,
    scored_prefixes,
)
from prmcal.harness.jobs.context import Context
from prmcal.harness.jobs.job import Job
from prmcal.harness.jobs.parameters import FitParameters
from prmcal.harness.jobs.plugin_calls import plugin_guard
from prmcal.harness.jobs.pools import GradedTrajectories, pool_of, tables_from
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.pool import Pool

if TYPE_CHECKING:
    import pandas as pd


FOLDS = 5
"""The number of parts, unless there are fewer questions."""


def folds_of(questions: int) -> NDArray[np.int64]:
    """Return the fold of each question, of shape (questions,): 0 to 4, in a random order that never changes."""
    order = np.random.default_rng(0).permutation(questions)
    return np.asarray(order % min(FOLDS, questions), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class FoldRewards:
    """Calibrated rewards of the calibration questions, as tables with one row for each prefix and level.

    Attributes
    ----------
    without : tuple of DataFrame
        For each fold, the rewards of a calibrator that was fitted to the other folds, of all questions.
    whole : DataFrame
        The rewards of the run's own calibrator, which was fitted to all questions.
    """

    without: tuple[pd.DataFrame, ...]
    whole: pd.DataFrame


def rewards_by_fold(
    context: Context,
    fit: Job[FitParameters],
    scores: pd.DataFrame,
    ids: NDArray[Any],
    folds: NDArray[np.int64],
    levels: Sequence[float],
) -> FoldRewards:
    """Fit a calibrator again without each fold, and predict rewards.

    Parameters
    ----------
    context : Context
    fit : Job
        The job that fitted the calibrator in the run. It must be finished.
    scores : DataFrame
        The scores of all trajectories, also of those to which the calibrator was not fitted.
    ids : ndarray of shape (questions,)
    folds : ndarray of shape (questions,), int64
        The fold of each question.
    levels : sequence of float
        Levels that the run asks for besides those of the calibrator.
    """
    shard = fit.shards[0]
    name = shard.parameters.calibrator.name
    with plugin_guard("calibrator", name, "load"):
        own = context.calibrator(shard.parameters.calibrator)
        own.load(context.store.folder(shard.ref.kind, shard.ref.key))
    rows = scored_prefixes(context, shard)
    if own.reads in ("reward", "logit"):  # Hidden states are known of the measured trajectories only.
        rows = scores[~scores["over_long"]].sort_values(PREFIX, ignore_index=True)
    known = calibration_rows(shard, context)
    fold_of = dict(zip(ids, folds, strict=True))
    fold_of_row = known["question_id"].map(fold_of).to_numpy()

    def predicted(calibrator: Calibrator) -> pd.DataFrame:
        with plugin_guard("calibrator", name, "predict"):
            return predicted_rewards(calibrator, features_of(context, shard, calibrator, rows), rows, levels)

    without = []
    for fold in np.unique(folds):
        again = context.calibrator(shard.parameters.calibrator)
        with plugin_guard("calibrator", name, "fit"):
            fit_to(again, shard, context, known[fold_of_row != fold].reset_index(drop=True))
        without.append(predicted(again))
    return FoldRewards(tuple(without), predicted(own))


class KnownPools:
    """The pools of the calibration questions for one LLM, one PRM and one calibrator, if any.

    Parameters
    ----------
    trajectories : GradedTrajectories
        All trajectories of the calibration questions, on which strategies are judged.
    own : GradedTrajectories
        Those of the run, by which strategies are tuned. They are the first ones of `trajectories`.
    folds : ndarray of shape (questions,), int64
    scores : DataFrame or None
        The PRM's scores of all trajectories.
    rewards : FoldRewards or None
    """

    def __init__(
        self,
        trajectories: GradedTrajectories,
        own: GradedTrajectories,
        folds: NDArray[np.int64],
        scores: pd.DataFrame | None = None,
        rewards: FoldRewards | None = None,
    ) -> None:
        self.trajectories, self.own, self.folds = trajectories, own, folds
        self._scores, self._rewards = scores, rewards

    def judged(self, reads: Sequence[str], level: float | None) -> Pool:
        """Return all questions. The rewards of each were predicted without its own fold."""
        return self._pool(
            self.trajectories, reads, level, None if self._rewards is None else self._left_out()
        )

    def tuning(self, reads: Sequence[str], level: float | None, fold: int | None = None) -> Pool:
        """Return the questions by which a strategy is tuned that is judged on a fold; all questions for None.

        As in a run, their rewards come from a calibrator that was fitted to the same questions.
        """
        rewards = self._rewards and (self._rewards.whole if fold is None else self._rewards.without[fold])
        pool = self._pool(self.own, reads, level, rewards)
        return pool if fold is None else pool.drawn(self.folds != fold, slice(None))

    def _pool(
        self,
        trajectories: GradedTrajectories,
        reads: Sequence[str],
        level: float | None,
        rewards: pd.DataFrame | None,
    ) -> Pool:
        def table(role: str, name: str) -> pd.DataFrame:
            found = self._scores if role == "score" else rewards
            assert found is not None, f"a strategy without a PRM reads {role}"
            return found

        return pool_of(trajectories, tables_from(table), reads, level)

    def _left_out(self) -> pd.DataFrame:
        import pandas as pd

        assert self._rewards is not None
        parts = []
        for fold, rewards in enumerate(self._rewards.without):
            own = self.trajectories.question_ids[self.folds == fold]
            parts.append(rewards[rewards["question_id"].isin(own)])
        return pd.concat(parts, ignore_index=True)
