"""Votes: rules that stop when the answers of samples agree, and scores and votes together by Bayes' rule.

The rules look at answers only, and need no PRM.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaln, gammaln

from prmcal.arrays import Bools, Floats, Ints
from prmcal.registry.contracts.plugin import Count, Share
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Setting
from prmcal.registry.strategies.evidence import ScoreEvidence
from prmcal.registry.strategies.orders import Orders, highest_so_far, sum_so_far
from prmcal.registry.strategies.sequential import Drawn, Outcome, SequentialRule, TargetedRule, first_reached
from prmcal.registry.strategies.votes import numbered, places_of, right_of_answers
from prmcal.remembered import remembered

_AGREEMENTS = (0.0, 0.25, 0.5, 0.75, 1.0)
_NEGLIGIBLE = -700.0
"""A logarithm that adds nothing to a sum of at least 1. The exponential function is slow below it."""
_DRAWS_TOGETHER = 8
"""Draws whose probabilities are computed together. What is needed for them stays in the cache of the processor."""
_NONE = -1e6
"""The logarithm of no evidence at all. It is finite, so that differences of two are."""


class PosteriorVote(TargetedRule):
    """Answer with the most probable answer, given all scores and votes, and stop when its probability reaches C.

    A question has a success probability p with the law Beta(a, b). A trajectory is right with probability p. Right ones
    have the same answer. Wrong ones agree by chance: a wrong answer is equal to an answer that j of the w wrong ones
    before have with probability j / (theta + w), and new otherwise (Ewens' sampling formula). Scores of right and of
    wrong trajectories have densities with the ratio L. So after t draws, of which v have an answer, the odds that an
    answer with n votes is right, against no answer being right, are V(n) L with

        V(n) = B(a + n, b + t - n) / B(a, b + t) x theta^(v) / (theta (n - 1)! theta^(v - n)),

    where B is the Beta function and x^(k) = x (x + 1) ... (x + k - 1). Equal answers are often reached in the same way,
    so they are not independent. Therefore L is that of the best score of the answer only, and further votes count less:
    V(n) is replaced by V(1) (V(n) / V(1))^g. g is 0, .25, .5, .75 or 1, the one for which the right answers of the
    calibration questions are likeliest, given all of their trajectories. They also give a, b, theta and L. Answers with
    equal odds are equally likely to be given. A trajectory that is too long for the PRM has L = 1. If no trajectory has
    an answer, none is given, and the question counts as wrong.
    """

    reads = ("scores",)
    tuned = True
    version = "2"

    def tune(self, pool: Pool, setting: Setting) -> None:
        """Fit a, b, theta, L and g to the calibration questions; see :meth:`prmcal.PoolStrategy.tune`."""
        self.fit_laws(pool)
        log_ratio = self.evidence_.log_ratio(pool.scores)
        self.agreement_ = _likeliest_agreement(log_ratio, pool.answers, pool.correct, self._laws())

    def fit_laws(self, pool: Pool) -> None:
        """Fit a, b, theta and L, but not g."""
        self.evidence_ = ScoreEvidence.fit(pool.scores, pool.correct)
        self.successes_ = beta_of(pool.correct)
        self.diversity_ = diversity_of(pool.answers, pool.correct)

    def chances(self, scores: Floats, answers: Ints) -> Floats:
        """Return the probability that each answer of one question is right, in [0, 1], of shape (answers,).

        Scores and answers have the shape (drawn,). A score is NaN for a trajectory that is too long for the PRM.
        Answers count from 0 upwards; -1 is for a trajectory without an answer. What is missing to 1 is the probability
        that none is right.
        """
        best = np.full(max(int(answers.max()) + 1, 1), -np.inf)
        votes = np.zeros(len(best), np.int64)
        voting = answers >= 0
        np.add.at(votes, answers[voting], 1)
        np.maximum.at(best, answers[voting], self.evidence_.log_ratio(scores)[voting])
        odds = self._laws(self.agreement_).log_odds(best, votes, len(answers), int(np.count_nonzero(voting)))
        return np.asarray(np.exp(odds - np.logaddexp.reduce(np.append(odds, 0.0))), dtype=np.float64)

    def follow(self, drawn: Drawn, points: tuple[float, ...]) -> Outcome:
        """Stop when the most probable answer is right with probability C."""
        log_ratio = self.evidence_.log_ratio(drawn.own["scores"])
        answers = numbered(drawn.pool.answers[drawn.question])
        share = right_of_answers(answers, drawn.pool.correct[drawn.question])
        doubt, right = _most_probable(log_ratio, answers, share, self._laws(self.agreement_), drawn.orders)
        # A doubt has more digits than a probability near 1.
        return Outcome(first_reached(doubt, tuple(point - 1 for point in points)), right)

    def _laws(self, agreement: float = 1.0) -> "_Laws":
        return _Laws(*self.successes_, self.diversity_, agreement)


@dataclass(frozen=True)
class _Laws:
    """The shares of trajectories that are right and that agree: a, b, theta and g."""

    a: float
    b: float
    theta: float
    agreement: float

    def log_odds(self, best: Floats, votes: NDArray[Any], drawn: int, voting: NDArray[Any] | int) -> Floats:
        """Return the log-odds of each answer, of the shape of `best` and `votes`; -inf without a vote.

        `best` is the highest log L of each answer, and `voting` is v, for each entry of the last axis or for all.
        """
        table = _log_votes(self.a, self.b, self.theta, drawn, self.agreement)
        found: Floats = table.take(votes + voting * len(table))
        found += best
        return found


@remembered
def _likeliest_agreement(log_ratio: Floats, answers: Ints, correct: Bools, laws: _Laws) -> float:
    """The g for which the right answers of questions are likeliest, given all of their trajectories.

    `log_ratio`, `answers` and `correct` have shape (questions, M). g of `laws` does not matter.
    """
    candidates = [replace(laws, agreement=each) for each in _AGREEMENTS]
    likelihood = np.zeros(len(candidates))
    for ratio, named, graded in zip(log_ratio, map(numbered, answers), correct, strict=True):
        own = named[:, None] == np.arange(max(int(named.max()) + 1, 1))
        best = np.where(own, ratio[:, None], -np.inf).max(axis=0)
        votes, voting = own.sum(axis=0), int(np.count_nonzero(named >= 0))
        odds = np.stack([each.log_odds(best, votes, len(named), voting) for each in candidates])
        every = np.logaddexp(np.logaddexp.reduce(odds, axis=1), 0.0)
        right = (own & graded[:, None]).any(axis=0)
        likelihood += (np.logaddexp.reduce(odds[:, right], axis=1) if right.any() else 0.0) - every
    return _AGREEMENTS[int(np.argmax(likelihood))]


@remembered
def _most_probable(
    log_ratio: Floats, answers: Ints, share: Floats, laws: _Laws, orders: Orders
) -> tuple[Floats, Floats]:
    """The doubt about the most probable answer, and the share of right ones in it, of shape (orders, N).

    The doubt is the lowest probability so far that it is wrong, with a minus sign. `log_ratio` and `answers` have shape
    (M,), and `share` has shape (answers,).
    """
    columns, most = orders.shape
    graded = np.flatnonzero(share)
    # Places in a table of votes are computed in the type of the counts. Small ones are fastest.
    voting = sum_so_far(orders.of((answers >= 0).astype(np.min_scalar_type((most + 1) ** 2)))).T
    doubt, right = np.empty((most, columns)), np.empty((most, columns))
    for some, log_odds in _log_odds(log_ratio, answers, voting, laws, orders):
        highest = log_odds.max(axis=1)
        log_odds -= highest[:, None]
        # Equal odds can differ in their last digits.
        first = log_odds >= -1e-9
        leading = first.sum(axis=1)
        np.divide(share[graded] @ first.take(graded, axis=1), leading, out=right[some])
        terms = np.exp(np.maximum(log_odds, _NEGLIGIBLE))
        # The winner's odds, which are 1 now, are left out of the sum, so that small doubts keep their digits.
        np.putmask(terms, first, 0.0)
        other = np.exp(np.minimum(-highest, -_NEGLIGIBLE)) + terms.sum(axis=1) + (leading - 1.0)
        np.divide(other, -1.0 - other, out=doubt[some])
    right *= voting > 0
    return highest_so_far(doubt.T, out=doubt.T), right.T


def _log_odds(
    log_ratio: Floats, answers: Ints, voting: NDArray[Any], laws: _Laws, orders: Orders
) -> Iterator[tuple[slice, Floats]]:
    """Yield some draws, and the log-odds of the answers after each of them; below -1e5 without a vote.

    They have the shape (draws, answers, orders), and are overwritten by the next ones. `voting` is v, of shape
    (N, orders).
    """
    votes = np.zeros((max(int(answers.max()), 0) + 2, voting.shape[1]), voting.dtype)
    best = np.full(votes.shape, _NONE)
    room = np.empty((_DRAWS_TOGETHER, len(votes) - 1, votes.shape[1]))
    draws = zip(orders.of(log_ratio).T, places_of(answers, orders), voting, strict=True)
    for draw, (ratio, place, cast) in enumerate(draws):
        votes.ravel()[place] += 1
        best.ravel()[place] = np.maximum(best.take(place), ratio)
        filled = draw % _DRAWS_TOGETHER + 1
        # The last row is that of trajectories without an answer.
        room[filled - 1] = laws.log_odds(best[:-1], votes[:-1], draw + 1, cast)
        if filled == len(room) or draw + 1 == len(voting):
            yield slice(draw + 1 - filled, draw + 1), room[:filled]


@lru_cache(maxsize=1024)
def _log_votes(a: float, b: float, theta: float, drawn: int, agreement: float) -> Floats:
    """The logarithm of V(1) (V(n) / V(1))^g after t draws, at [v, n], for n from 1 to v."""
    n = np.arange(1, drawn + 1)
    beta = betaln(a + n, b + drawn - n) - betaln(a, b + drawn) - np.log(theta) - gammaln(n)
    rising = gammaln(theta + np.arange(drawn + 1))
    table = np.zeros((drawn + 1, drawn + 1))
    for v in range(1, drawn + 1):
        full = beta[:v] + rising[v] - rising[v - np.arange(1, v + 1)]
        table[v, 1 : v + 1] = (1 - agreement) * full[0] + agreement * full
    table.flags.writeable = False
    return table


_SIZES = np.geomspace(0.05, 100, 40)


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


def diversity_of(answers: Ints, correct: Bools) -> float:
    """Return theta, which says how rarely wrong answers agree: two of them are equal with probability 1 / (1 + theta).

    It is above 0, and is estimated from all pairs of wrong answers of the same question, with one equal and one
    different pair added. Both arguments have the shape (questions, M). A trajectory without an answer, -1, is left out.
    """
    wrong = ~correct & (answers >= 0)
    pair = wrong[:, :, None] & wrong[:, None, :] & ~np.eye(answers.shape[1], dtype=np.bool_)
    equal = (pair & (answers[:, :, None] == answers[:, None, :])).sum() / 2
    different = pair.sum() / 2 - equal
    return float((different + 1) / (equal + 1))


_CONFIDENCES = tuple(float(1 - error) for error in np.geomspace(0.6, 1e-12, 24))


@dataclass(eq=False)
class AdaptiveConsistency(SequentialRule):
    """Stop when the leading answer is the majority of the two leading ones with a given confidence.

    After each sample, v1 and v2 are the votes of the leader and of the runner-up. Stop when P(X > 1/2) is at least the
    confidence, where X has the law Beta(v1 + 1, v2 + 1). Answer with the most frequent answer. Trajectories without an
    answer are drawn, but do not vote.
    """

    citation = "Aggarwal et al. (2023), EMNLP, arXiv:2305.11860"

    budget = ("confidence", _CONFIDENCES)
    confidence: Share = 0.95
    """The confidence, in (0, 1)."""

    def follow(self, drawn: Drawn, points: tuple[float, ...]) -> Outcome:
        """Stop when the leader is far enough ahead."""
        votes = drawn.votes()
        sure = -_doubt(drawn.orders.draws)[votes.first, votes.second]
        highest = highest_so_far(sure, out=sure)
        return Outcome(first_reached(highest, tuple(point - 1 for point in points)), votes.right)


@dataclass(eq=False)
class EarlyStoppingSelfConsistency(SequentialRule):
    """Draw samples in windows of equal size, and stop after a window in which all answers are equal.

    Answer with the most frequent answer of all samples. A window with a trajectory without an answer does not agree.
    If N is not a multiple of the window, the last samples are an incomplete window, after which the budget is spent.
    """

    citation = "Li et al. (2024), ICLR, arXiv:2401.10480"

    budget = ("window", ())
    window: Count = 5
    """The number of samples in a window. At least 1."""

    def curve_points(self, setting: Setting) -> tuple[float, ...]:
        """Return windows of 1 to N samples."""
        sizes = np.unique(np.rint(np.geomspace(1, setting.samples, 24)))
        return tuple(float(size) for size in sizes)

    def follow(self, drawn: Drawn, points: tuple[float, ...]) -> Outcome:
        """Stop after a window that agrees."""
        stops = [_after_agreement(drawn.answers, int(point)) for point in points]
        return Outcome(np.stack(stops), drawn.votes().right)


@remembered
def _doubt(most: int) -> Floats:
    """P(X <= 1/2) for 0, 1, ..., `most` votes v1 and v2."""
    votes = np.arange(most + 1)
    return np.asarray(betainc(votes[:, None] + 1, votes + 1, 0.5), dtype=np.float64)


def _after_agreement(answers: NDArray[np.signedinteger], window: int) -> Ints:
    """The number of draws of each order, of shape (orders,), with one size of the window."""
    orders, draws = answers.shape
    if window > draws:
        return np.full(orders, draws, dtype=np.int64)
    windows = answers[:, : draws // window * window].reshape(orders, -1, window)
    agree = (windows == windows[..., :1]).all(axis=2) & (windows[..., 0] >= 0)
    return np.asarray(np.where(agree.any(axis=1), (agree.argmax(axis=1) + 1) * window, draws), dtype=np.int64)
