"""What the trajectories in hand say of a question, by Bayes' rule, and rules that stop by it.

A trajectory of a question with success probability p is right with probability p. A right one has a score s with the
density f1(s), a wrong one with f0(s). From the calibration questions the ratio L(s) = f1(s) / f0(s) is known. So after
the scores s_1, ..., s_t, with a prior w_0 of p,

    w_t(p) ~ w_0(p) prod_i [p L(s_i) + 1 - p],
    P(trajectory i is right) = sum_p w_t(p) p L(s_i) / (p L(s_i) + 1 - p),
    P(none of t is right) = sum_p w_0(p) (1 - p)^t / sum_p w_0(p) prod_i [p L(s_i) + 1 - p].
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.ranges import ShareOrZero
from prmcal.registry.contracts.strategy import Setting
from prmcal.registry.strategies.evidence import ScoreEvidence
from prmcal.registry.strategies.orders import Orders
from prmcal.registry.strategies.remembered import remembered
from prmcal.registry.strategies.sequential.prior import GRID, SuccessPrior
from prmcal.registry.strategies.sequential.rule import (
    Drawn,
    Outcome,
    SequentialRule,
    TargetedRule,
    first_at_least,
)

__all__ = ["Bayesian", "Belief", "MarginalValue", "SequentialIAS", "believe"]

_PRICES = tuple(float(each) for each in np.geomspace(0.5, 1e-7, 24))
_DRAWS_TOGETHER = 32
"""Draws after which weights are divided by their sum. Each draw divides a weight by less than 1,000."""


@dataclass(frozen=True, eq=False)
class Belief:
    """What is known after 1, 2, ..., N draws. All arrays have shape (orders, N), and their values are in [0, 1].

    Attributes
    ----------
    success : ndarray of float64
        The mean of the success probability p, which is the probability that the next trajectory is right.
    best : ndarray of float64
        Probability that the best-scored trajectory is right.
    none : ndarray of float64
        Probability that no trajectory is right.
    """

    success: NDArray[np.float64]
    best: NDArray[np.float64]
    none: NDArray[np.float64]


@remembered
def believe(prior: NDArray[np.float64], log_ratio: NDArray[np.float64], orders: Orders) -> Belief:
    """Compute what is known after each draw.

    Parameters
    ----------
    prior : ndarray of shape (cells,), float64
        The probabilities of the success probabilities in ``GRID``.
    log_ratio : ndarray of shape (M,), float64
        log L of each trajectory.
    orders : Orders
    """
    # Trajectories are numbered by their ratios, so the best one in hand has the highest number.
    ascending = np.argsort(log_ratio)
    draws = np.argsort(ascending)[orders.trajectories.T]
    ratio = log_ratio[ascending]
    # All that is multiplied is divided by max(L, 1), so that products do not overflow.
    scale = np.exp(-np.maximum(ratio, 0.0))
    right = GRID * np.exp(np.minimum(ratio, 0.0))[:, None]
    either = right + (1 - GRID) * scale[:, None]
    chance, every = right / either, np.ones(len(GRID))
    weight, wrong, highest = np.tile(prior, (draws.shape[1], 1)), np.ones(draws.shape[1]), draws[0]
    total, success, best, none = (np.empty(draws.shape) for _ in range(4))
    for draw, drawn in enumerate(draws):
        weight *= either.take(drawn, axis=0)
        wrong *= scale[drawn]
        highest = np.maximum(highest, drawn)
        # The order of additions in `@` depends on the processor, but numbers of draws do not show last digits.
        total[draw], success[draw], none[draw] = weight @ every, weight @ GRID, wrong
        best[draw] = np.einsum("oc,oc->o", weight, chance.take(highest, axis=0))
        if (draw + 1) % _DRAWS_TOGETHER == 0:
            weight /= total[draw, :, None]
            wrong /= total[draw]
    numbers = np.arange(1, len(draws) + 1)[:, None]
    none *= np.sum(prior * (1 - GRID) ** numbers, axis=1, keepdims=True)
    return Belief((success / total).T, (best / total).T, np.clip(none / total, 0.0, 1.0).T)


class Bayesian(SequentialRule):
    """The base of rules that stop by the belief about a question, and answer with the best-scored trajectory."""

    reads = ("scores", "question_rewards")
    tuned = True

    def tune(self, pool: Pool, setting: Setting) -> None:
        """Fit what scores and rewards say to the calibration questions; see :meth:`prmcal.PoolStrategy.tune`."""
        self.evidence_ = ScoreEvidence.fit(pool.scores, pool.correct)
        self.prior_ = SuccessPrior.fit(pool.question_rewards, pool.levels, pool.correct)

    def follow(self, drawn: Drawn, points: tuple[float, ...]) -> Outcome:
        """Stop where the belief says so."""
        prior = self.prior_.cells(drawn.own["question_rewards"], drawn.levels)
        log_ratio = self.evidence_.log_ratio(drawn.own["scores"])
        stops = self.stops(prior, log_ratio, drawn.orders, points)
        return Outcome(stops, drawn.right_if_best())

    @abstractmethod
    def stops(
        self,
        prior: NDArray[np.float64],
        log_ratio: NDArray[np.float64],
        orders: Orders,
        points: tuple[float, ...],
    ) -> NDArray[np.int64]:
        """Return the numbers of draws, of shape (points, orders); see :func:`believe`."""


class SequentialIAS(Bayesian, TargetedRule):
    """IAS that learns from every sample: stop when at least one of the samples is right with the target probability C.

    Before the first sample this is Proposition 1 of the paper with a law of p in place of one value: at least one of n
    samples is right with probability 1 - E[(1 - p)^n]. The law comes from the calibrated rewards of the bare question
    at all levels. Then every score counts: with a good sample in hand no more are needed, and bad samples do not count
    as tries. A question or a trajectory that is too long for the PRM is one of which nothing is known.
    """

    citation = "Park et al. (2025), NeurIPS, arXiv:2506.09338 (Proposition 1)"
    version = "2"

    def stops(
        self,
        prior: NDArray[np.float64],
        log_ratio: NDArray[np.float64],
        orders: Orders,
        points: tuple[float, ...],
    ) -> NDArray[np.int64]:
        """Stop when none of the samples is right with probability 1 - C at most. It has more digits than C near 1."""
        none = believe(prior, log_ratio, orders).none
        return first_at_least(-none, tuple(point - 1 for point in points))


class MarginalValue(Bayesian):
    """Stop when one more sample is expected to add less to the accuracy than its price.

    If the best-scored trajectory is right with probability c, a sample with the score s, which is right with
    probability r(s), adds max(r(s) - c, 0). Its score has the density p f1(s) + (1 - p) f0(s), where p is the mean of
    the success probability, so the expected gain is

        sum_s max(p f1(s) - c [p f1(s) + (1 - p) f0(s)], 0).

    The sum is over the scores of the calibration questions. A question without hope has a small p after a few samples,
    and does not use up the budget. Beliefs are those of `sequential IAS`.

    Parameters
    ----------
    price : float in [0, 1)
        The probability of a right answer that one sample must add.
    """

    def __init__(self, price: ShareOrZero = 0.01) -> None:
        self.price = price

    def point(self, setting: Setting) -> float:
        """Return the price, with a minus sign: curves ascend with the budget."""
        return -self.price

    def curve_points(self, setting: Setting) -> tuple[float, ...]:
        """Return prices from .5 to 1e-7."""
        return tuple(-price for price in _PRICES)

    def stops(
        self,
        prior: NDArray[np.float64],
        log_ratio: NDArray[np.float64],
        orders: Orders,
        points: tuple[float, ...],
    ) -> NDArray[np.int64]:
        """Stop when the expected gain of one more sample is the price at most."""
        return first_at_least(-_gains(prior, log_ratio, orders, self.evidence_), points)


@remembered
def _gains(
    prior: NDArray[np.float64], log_ratio: NDArray[np.float64], orders: Orders, evidence: ScoreEvidence
) -> NDArray[np.float64]:
    """The expected gain of one more sample after each draw, of shape (orders, N)."""
    belief = believe(prior, log_ratio, orders)
    return evidence.gain(belief.success.T, belief.best.T).T
