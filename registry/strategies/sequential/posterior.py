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
from prmcal.registry.strategies.choices import right_if_best
from prmcal.registry.strategies.evidence import ScoreEvidence
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


@dataclass(frozen=True, eq=False)
class Belief:
    """What is known after 1, 2, ..., N draws. All arrays have shape (orders, N), and their values are in [0, 1].

    Attributes
    ----------
    success : ndarray of float64
        The mean of the success probability p, which is the probability that the next trajectory is right.
    best : ndarray of float64
        Probability that the best-scored trajectory is right.
    some : ndarray of float64
        Probability that at least one trajectory is right.
    """

    success: NDArray[np.float64]
    best: NDArray[np.float64]
    some: NDArray[np.float64]


def believe(prior: NDArray[np.float64], log_ratio: NDArray[np.float64]) -> Belief:
    """Compute what is known after each draw.

    Parameters
    ----------
    prior : ndarray of shape (cells,), float64
        The probabilities of the success probabilities in ``GRID``.
    log_ratio : ndarray of shape (orders, N), float64
        log L of each trajectory.
    """
    ratio = np.exp(log_ratio)
    highest = np.maximum.accumulate(ratio, axis=1)
    weight = np.tile(prior, (len(ratio), 1))
    success, best, some = (np.empty(ratio.shape) for _ in range(3))
    likelihood = np.zeros(len(ratio))
    for draw in range(ratio.shape[1]):
        weight *= 1 - GRID + GRID * ratio[:, draw, None]
        total = weight.sum(axis=1)
        weight /= total[:, None]
        likelihood += np.log(total)
        none = np.log(np.sum(prior * (1 - GRID) ** (draw + 1))) - likelihood
        some[:, draw] = np.clip(-np.expm1(none), 0.0, 1.0)
        right = GRID * highest[:, draw, None]
        success[:, draw] = np.einsum("oc,c->o", weight, GRID)
        best[:, draw] = np.einsum("oc,oc->o", weight, right / (right + 1 - GRID))
    return Belief(success, best, some)


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
        prior = self.prior_.cells(drawn.values["question_rewards"], drawn.levels)
        belief = believe(prior, self.evidence_.log_ratio(drawn.values["scores"]))
        right = right_if_best(drawn.values["scores"], drawn.correct)
        return Outcome(self.stops(belief, points), right)

    @abstractmethod
    def stops(self, belief: Belief, points: tuple[float, ...]) -> NDArray[np.int64]:
        """Return the number of trajectories that are drawn, of shape (points, orders)."""


class SequentialIAS(Bayesian, TargetedRule):
    """IAS that learns from every sample: stop when at least one of the samples is right with the target probability C.

    Before the first sample this is Proposition 1 of the paper with a law of p in place of one value: at least one of n
    samples is right with probability 1 - E[(1 - p)^n]. The law comes from the calibrated rewards of the bare question
    at all levels. Then every score counts: with a good sample in hand no more are needed, and bad samples do not count
    as tries. A question or a trajectory that is too long for the PRM is one of which nothing is known.
    """

    citation = "Park et al. (2025), NeurIPS, arXiv:2506.09338 (Proposition 1)"

    def stops(self, belief: Belief, points: tuple[float, ...]) -> NDArray[np.int64]:
        """Stop when at least one of the samples is right with probability C."""
        return first_at_least(belief.some, points)


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

    def stops(self, belief: Belief, points: tuple[float, ...]) -> NDArray[np.int64]:
        """Stop when the expected gain is below the price."""
        return first_at_least(-self.evidence_.gain(belief.success, belief.best), points)
