"""One score for a trajectory from the scores of all of its steps."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit

from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Choice, PoolStrategy, Setting

__all__ = ["Aggregate", "RanksByScore", "aggregated"]

Aggregate = Literal["last", "min", "product", "mean", "sum-logit"]


def aggregated(
    step_scores: NDArray[np.float64], scores: NDArray[np.float64], aggregate: Aggregate
) -> NDArray[np.float64]:
    """Return one score for each trajectory.

    Let r_1, ..., r_T be the rewards of the steps, and l_1, ..., l_T their log-odds. The reward of the trajectory is

    - last: r_T, the score of the whole trajectory;
    - min: the smallest r_t;
    - product: r_1 x ... x r_T;
    - mean: (r_1 + ... + r_T) / T;
    - sum-logit: the reward with the log-odds l_1 + ... + l_T.

    The bare question (t = 0) does not count. With one step, all are equal. Which one suits a PRM depends on what its
    scores mean (Zhang et al., 2025, arXiv:2501.07301, table 13): the product suits probabilities that a step is
    correct. A reward that is a success probability already contains what comes after, and for it the last one is
    right. Product and sum-logit depend on the number of steps.

    Parameters
    ----------
    step_scores : ndarray of shape (..., T + 1), float64
        Log-odds after t steps. NaN after the last step of a trajectory.
    scores : ndarray of shape (...), float64
        Log-odds of the whole trajectory. NaN if it is too long for the PRM, also if its first steps are not.
    aggregate : "last", "min", "product", "mean" or "sum-logit"

    Returns
    -------
    ndarray of shape (...), float64
        Log-odds. NaN where `scores` is. A trajectory without steps has its score.
    """
    if aggregate == "last":
        return scores
    steps = step_scores[..., 1:]
    there = ~np.isnan(steps)
    right, wrong = log_expit(steps), log_expit(-steps)
    if aggregate == "min":
        found = np.where(there, steps, np.inf).min(axis=-1, initial=np.inf)
    elif aggregate == "product":
        logs = np.where(there, right, 0.0).sum(axis=-1)
        with np.errstate(divide="ignore"):
            found = logs - np.log(-np.expm1(logs))
    elif aggregate == "mean":
        with np.errstate(invalid="ignore"):  # There may be no step.
            found = _log_sum(right, there) - _log_sum(wrong, there)
    else:
        found = np.where(there, steps, 0.0).sum(axis=-1)
    found = np.where(there.sum(axis=-1) > 1, found, np.where(there.any(axis=-1), _only(steps, there), scores))
    return np.where(np.isnan(scores), np.nan, found)


class RanksByScore(PoolStrategy):
    """The base of strategies that rank whole trajectories by their scores.

    Parameters
    ----------
    aggregate : "last", "min", "product", "mean" or "sum-logit"
        How the scores of the steps become one score: that of the last step, which is that of the whole trajectory, the
        smallest one, the product or the mean of the rewards, or the sum of the log-odds.
    """

    def __init__(self, aggregate: Aggregate = "last") -> None:
        self.aggregate: Aggregate = aggregate
        if aggregate != "last":
            self.reads = (*type(self).reads, "step_scores")

    def identity(self) -> dict[str, Any]:
        """Return what decides its output. An `aggregate` of "last" is not named, since once there was no other."""
        known = super().identity()
        if self.aggregate == "last":
            known["arguments"].pop("aggregate", None)
        return known

    def choose(self, pool: Pool, setting: Setting) -> Choice:
        """Return the best-scored trajectory; see :meth:`prmcal.PoolStrategy.choose`."""
        scores = self.scores_of(pool)[0]
        return Choice(int(np.argmax(np.where(np.isnan(scores), -np.inf, scores))))

    def scores_of(self, pool: Pool) -> NDArray[np.float64]:
        """Return the scores by which trajectories are ranked, log-odds of shape (questions, M)."""
        if self.aggregate == "last":
            return pool.scores
        return aggregated(pool.step_scores, pool.scores, self.aggregate)


def _log_sum(logs: NDArray[np.float64], there: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The logarithm of the sum of exp(logs) over the steps that are there."""
    return np.asarray(
        np.logaddexp.reduce(np.where(there, logs, -np.inf), axis=-1, initial=-np.inf), np.float64
    )


def _only(steps: NDArray[np.float64], there: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The score of the only step, without rounding."""
    return np.asarray(np.where(there, steps, 0.0).sum(axis=-1), dtype=np.float64)
