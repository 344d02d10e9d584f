"""Beliefs about the success probability of a question before its first trajectory is drawn."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np
from scipy.special import betainc, betaln

from prmcal.arrays import Bools, Floats
from prmcal.registry.contracts.plugin import ShareOrZero
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Setting
from prmcal.registry.strategies import sequential
from prmcal.registry.strategies.evidence import ScoreEvidence
from prmcal.registry.strategies.orders import Orders, highest_so_far
from prmcal.remembered import remembered

_CELLS = 24
_EDGES: Floats = np.sin(np.linspace(0, np.pi / 2, _CELLS + 1)) ** 2
GRID: Floats = np.sin((np.arange(_CELLS) + 0.5) * np.pi / (2 * _CELLS)) ** 2
"""Success probabilities, each for a cell of [0, 1]. Cells are smaller near 0 and 1."""

_SHARES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
_CONCENTRATIONS = np.geomspace(0.5, 200, 24)
_SIZES = np.geomspace(0.05, 100, 40)
_SMALLEST = 1e-3


@dataclass(frozen=True, eq=False)
class SuccessPrior:
    """The law of the success probability of a question, given the calibrated rewards of the bare question.

    It is a mixture of two laws. The first follows the rewards: a law with their quantiles, which has the same density
    everywhere between two neighbouring levels; if there is one level only, a Beta law around it. The second is the
    Beta law of all calibration questions, which protects from rewards that are wrong.
    """

    overall: Floats
    """The probabilities of the cells for a question of which nothing is known. Of shape (cells,), float64."""
    share: float
    """The weight of `overall` in the mixture, in (0, 1]."""
    concentration: float
    """For one level: the Beta law around the reward r has the parameters concentration x r and concentration x (1 -
    r)."""

    @classmethod
    def fit(cls, rewards: Floats, levels: tuple[float, ...], correct: Bools) -> Self:
        """Choose the share, and for one level the concentration, that make the number of right trajectories likeliest.

        The shares are .02, .05, .1, .2, .4, .7 and 1. The calibrator was fitted to the same questions, so the rewards
        look better than they are, and the share is at least .02. Rewards have the shape (questions, levels), and
        `correct` has (questions, M).
        """
        right, size = correct.sum(axis=1), correct.shape[1]
        likelihood = GRID ** right[:, None] * (1 - GRID) ** (size - right)[:, None]
        overall = _beta_cells(*(np.array([each]) for each in beta_of(correct)))[0]
        read = np.isfinite(rewards).all(axis=1)
        best, found = -np.inf, cls(overall, 1.0, 1.0)
        for concentration in _CONCENTRATIONS if len(levels) == 1 else (1.0,):
            law = _law(rewards[read], levels, concentration)
            own = np.einsum("qc,qc->q", likelihood[read], law)
            other = np.einsum("qc,c->q", likelihood[read], overall)
            for share in _SHARES:
                value = float(np.log((1 - share) * own + share * other).sum())
                if value > best:
                    best, found = value, cls(overall, share, float(concentration))
        return found

    def cells(self, rewards: Floats, levels: tuple[float, ...]) -> Floats:
        """Return the probabilities of the cells for one question, of shape (cells,), with the sum 1.

        The rewards, of shape (levels,), are those of the bare question. With a NaN (too long for the PRM), nothing is
        known of the question.
        """
        if not np.isfinite(rewards).all():
            return self.overall
        law = _law(rewards[None], levels, self.concentration)[0]
        return np.asarray((1 - self.share) * law + self.share * self.overall, dtype=np.float64)


def beta_of(correct: Bools) -> tuple[float, float]:
    """Return a and b of the Beta law of the success probability that makes the numbers of right trajectories likeliest.

    Its mean is the share of right trajectories. Its size a + b is one of 40 values from .05 to 100. `correct` has the
    shape (questions, M).
    """
    right, size = correct.sum(axis=1), correct.shape[1]
    base = (right.sum() + 1) / (correct.size + 2)
    a, b = base * _SIZES[:, None], (1 - base) * _SIZES[:, None]
    likelihood = (betaln(a + right, b + size - right) - betaln(a, b)).sum(axis=1)
    best = float(_SIZES[np.argmax(likelihood)])
    return float(base) * best, float(1 - base) * best


def _law(rewards: Floats, levels: tuple[float, ...], concentration: float) -> Floats:
    """The probabilities of the cells that follow from rewards of shape (questions, levels)."""
    if len(levels) == 1:
        middle = np.clip(rewards[:, 0], _SMALLEST, 1 - _SMALLEST)
        return _beta_cells(concentration * middle, concentration * (1 - middle))
    shares = np.array([0.0, *levels, 1.0])
    # Equal quantiles are a step of the distribution function.
    apart = 1e-9 * np.arange(len(shares))
    below = [
        np.interp(_EDGES, np.maximum.accumulate(np.array([0.0, *row, 1.0])) + apart, shares)
        for row in rewards
    ]
    cumulative = np.array(below).reshape(-1, _CELLS + 1)
    cumulative[:, 0], cumulative[:, -1] = 0.0, 1.0
    return np.diff(cumulative, axis=1)


def _beta_cells(a: Floats, b: Floats) -> Floats:
    """The probabilities of the cells under Beta laws, of shape (laws, cells)."""
    return np.diff(np.asarray(betainc(a[:, None], b[:, None], _EDGES), dtype=np.float64), axis=1)


_PRICES = tuple(-float(each) for each in np.geomspace(0.5, 1e-7, 24))
_DRAWS_TOGETHER = 32
"""Draws after which weights are divided by their sum. Each draw divides a weight by less than 1,000."""


class Beliefs(NamedTuple):
    """Beliefs about a question after 1, 2, ..., N draws, in many orders. All arrays have shape (N, orders).

    `success` is the mean of p, which is the probability that the next trajectory is right. `best` is the probability
    that the best-scored trajectory is right, and `none` the probability that no trajectory is right.
    """

    success: Floats
    best: Floats
    none: Floats


def believe(prior: Floats, log_ratio: Floats, orders: Orders) -> Beliefs:
    """Return what is known after each draw.

    `prior`, of shape (cells,), has the probabilities of the success probabilities in ``GRID``, and `log_ratio`, of
    shape (M,), is log L of each trajectory.
    """
    # Trajectories are numbered by their ratios, so the best one in hand has the highest number.
    ascending = np.argsort(log_ratio)
    numbers, ratio = np.argsort(ascending), log_ratio[ascending]
    # All that is multiplied is divided by max(L, 1), so that products do not overflow.
    scale = np.exp(-np.maximum(ratio, 0.0))
    right = GRID * np.exp(np.minimum(ratio, 0.0))[:, None]
    either = right + (1 - GRID) * scale[:, None]
    chance = right / either
    drawn = numbers.take(orders.trajectories.T)
    highest = highest_so_far(drawn.T).T
    # All of these are divided by the sums of the weights at last.
    success, best, none = (np.empty(drawn.shape) for _ in range(3))
    total, wrong = np.empty(drawn.shape), np.ones(drawn.shape[1])
    weight, factor = np.tile(prior, (drawn.shape[1], 1)), np.empty((drawn.shape[1], len(GRID)))
    sums = np.stack([np.ones(len(GRID)), GRID], axis=1)
    for draw, own in enumerate(drawn):
        # With "clip", `take` needs no buffer.
        weight *= either.take(own, axis=0, out=factor, mode="clip")
        wrong *= scale.take(own)
        none[draw] = wrong
        # The order of additions in `@` depends on the processor, but numbers of draws do not show last digits.
        total[draw], success[draw] = (weight @ sums).T
        np.vecdot(weight, chance.take(highest[draw], axis=0, out=factor, mode="clip"), out=best[draw])
        if (draw + 1) % _DRAWS_TOGETHER == 0:
            weight /= total[draw][:, None]
            wrong /= total[draw]
    none *= np.sum(prior * _all_wrong(orders.draws), axis=1)[:, None]
    for each in (success, best, none):
        each /= total
    return Beliefs(success, best, np.minimum(none, 1.0, out=none))


@remembered
def _all_wrong(most: int) -> Floats:
    """The probability that all of 1, 2, ..., `most` trajectories are wrong, of shape (`most`, cells)."""
    return np.asarray((1 - GRID) ** np.arange(1, most + 1)[:, None], dtype=np.float64)


class Bayesian(sequential.SequentialRule):
    """The base of rules that stop by the belief about a question, and answer with the best-scored trajectory."""

    reads = ("scores", "question_rewards")
    tuned = True
    watched: ClassVar[str]
    """The quantity that it stops by: the "doubt" or the "gain" of :class:`_Lowest`."""

    def tune(self, pool: Pool, setting: Setting) -> None:
        """Fit what scores and rewards say to the calibration questions; see :meth:`prmcal.PoolStrategy.tune`."""
        self.evidence_ = ScoreEvidence.fit(pool.scores, pool.correct)
        self.prior_ = SuccessPrior.fit(pool.question_rewards, pool.levels, pool.correct)

    def follow(self, drawn: sequential.Drawn, points: tuple[float, ...]) -> sequential.Outcome:
        """Stop where the belief says so."""
        prior = self.prior_.cells(drawn.own["question_rewards"], drawn.pool.levels)
        log_ratio = self.evidence_.log_ratio(drawn.own["scores"])
        lowest = _lowest(prior, log_ratio, drawn.orders, self.evidence_)
        return sequential.Outcome(
            sequential.first_reached(getattr(lowest, self.watched), self.bounds(points)),
            drawn.right_if_best(),
        )

    def bounds(self, points: tuple[float, ...]) -> tuple[float, ...]:
        """Return what the watched probability must reach at each point. Both have a minus sign."""
        return points


class SequentialIAS(Bayesian, sequential.TargetedRule):
    """IAS that learns from every sample: stop when at least one of the samples is right with the target probability C.

    Before the first sample this is Proposition 1 of the paper with a law of p in place of one value: at least one of n
    samples is right with probability 1 - E[(1 - p)^n]. The law comes from the calibrated rewards of the bare question
    at all levels. Then every score counts: with a good sample in hand no more are needed, and bad samples do not count
    as tries. A question or a trajectory that is too long for the PRM is one of which nothing is known.
    """

    citation = "Park et al. (2025), NeurIPS, arXiv:2506.09338 (Proposition 1)"
    version = "2"
    watched = "doubt"

    def bounds(self, points: tuple[float, ...]) -> tuple[float, ...]:
        """Return C - 1. A doubt has more digits than a probability near 1."""
        return tuple(point - 1 for point in points)


@dataclass(eq=False)
class MarginalValue(Bayesian):
    """Stop when one more sample is expected to add less to the accuracy than its price.

    If the best-scored trajectory is right with probability c, a sample with the score s, which is right with
    probability r(s), adds max(r(s) - c, 0). Its score has the density p f1(s) + (1 - p) f0(s), where p is the mean of
    the success probability, so the expected gain is

        sum_s max(p f1(s) - c [p f1(s) + (1 - p) f0(s)], 0).

    The sum is over the scores of the calibration questions. A question without hope has a small p after a few samples,
    and does not use up the budget. Beliefs are those of `sequential IAS`.
    """

    watched = "gain"

    budget = ("-price", _PRICES)
    price: ShareOrZero = 0.01
    """The probability of a right answer that one sample must add. In [0, 1)."""


class _Lowest(NamedTuple):
    """The lowest values so far of what can be watched, with a minus sign, each of shape (orders, N).

    `doubt` is the probability that no trajectory is right, and `gain` what one more sample is expected to add.
    """

    doubt: Floats
    gain: Floats


@remembered
def _lowest(prior: Floats, log_ratio: Floats, orders: Orders, evidence: ScoreEvidence) -> _Lowest:
    beliefs = believe(prior, log_ratio, orders)
    found = -beliefs.none, -evidence.gain(beliefs.success, beliefs.best)
    return _Lowest(*(highest_so_far(each.T, out=each.T) for each in found))
