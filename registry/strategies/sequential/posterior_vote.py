"""Scores and votes together: the probability that each answer is right, by Bayes' rule."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, gammaln

from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Setting
from prmcal.registry.strategies.choices import numbered, right_of_answers
from prmcal.registry.strategies.evidence import ScoreEvidence
from prmcal.registry.strategies.sequential.prior import beta_of
from prmcal.registry.strategies.sequential.rule import Drawn, Outcome, TargetedRule, first_at_least

__all__ = ["PosteriorVote", "diversity_of"]

_AGREEMENTS = (0.0, 0.25, 0.5, 0.75, 1.0)


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

    def tune(self, pool: Pool, setting: Setting) -> None:
        """Fit a, b, theta, L and g to the calibration questions; see :meth:`prmcal.PoolStrategy.tune`."""
        self.fit_laws(pool)
        self.agreement_ = max(_AGREEMENTS, key=lambda agreement: self._likelihood(pool, agreement))

    def fit_laws(self, pool: Pool) -> None:
        """Fit a, b, theta and L, but not g."""
        self.evidence_ = ScoreEvidence.fit(pool.scores, pool.correct)
        self.successes_ = beta_of(pool.correct)
        self.diversity_ = diversity_of(pool.answers, pool.correct)

    def chances(self, scores: NDArray[np.float64], answers: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the probability that each answer of one question is right.

        Parameters
        ----------
        scores : ndarray of shape (drawn,), float64
            NaN for a trajectory that is too long for the PRM.
        answers : ndarray of shape (drawn,), int64
            From 0 upwards; -1 for a trajectory without an answer.

        Returns
        -------
        ndarray of shape (answers,), float64
            In [0, 1]. What is missing to 1 is the probability that none is right.
        """
        best = np.full(max(int(answers.max()) + 1, 1), -np.inf)
        votes = np.zeros(len(best), np.int64)
        voting = answers >= 0
        np.add.at(votes, answers[voting], 1)
        np.maximum.at(best, answers[voting], self.evidence_.log_ratio(scores)[voting])
        cast = np.array([np.count_nonzero(voting)])
        odds = self._log_odds(best[None], votes[None], len(answers), cast, self.agreement_)[0]
        return np.asarray(np.exp(odds - np.logaddexp.reduce(np.append(odds, 0.0))), dtype=np.float64)

    def _likelihood(self, pool: Pool, agreement: float) -> float:
        """The logarithm of the probability of what is right, given all trajectories of the calibration questions."""
        log_ratio = self.evidence_.log_ratio(pool.scores)
        total = 0.0
        for question in range(pool.questions):
            answers = numbered(pool.answers[question])
            own = answers[:, None] == np.arange(max(int(answers.max()) + 1, 1))
            best = np.where(own, log_ratio[question][:, None], -np.inf).max(axis=0)
            voting = np.array([np.count_nonzero(answers >= 0)])
            odds = self._log_odds(best[None], own.sum(axis=0)[None], pool.size, voting, agreement)[0]
            right = (own & pool.correct[question][:, None]).any(axis=0)
            every = np.logaddexp.reduce(np.append(odds, 0.0))
            total += float((np.logaddexp.reduce(odds[right]) if right.any() else 0.0) - every)
        return total

    def follow(self, drawn: Drawn, points: tuple[float, ...]) -> Outcome:
        """Stop when the most probable answer is right with probability C."""
        log_ratio = self.evidence_.log_ratio(drawn.values["scores"])
        share = right_of_answers(drawn.answers, drawn.correct)
        orders, draws = log_ratio.shape
        rows = np.arange(orders)
        votes = np.zeros((orders, len(share)), np.int64)
        best = np.full((orders, len(share)), -np.inf)
        voting = np.zeros(orders, np.int64)
        sure, right = np.zeros(log_ratio.shape), np.zeros(log_ratio.shape)
        for draw in range(draws):
            votes_now = drawn.answers[:, draw] >= 0
            own = rows[votes_now], drawn.answers[votes_now, draw]
            votes[own] += 1
            best[own] = np.maximum(best[own], log_ratio[votes_now, draw])
            voting += votes_now
            log_odds = self._log_odds(best, votes, draw + 1, voting, self.agreement_)
            highest = log_odds.max(axis=1)
            top = np.maximum(highest, 0.0)
            total = np.exp(log_odds - top[:, None]).sum(axis=1) + np.exp(-top)
            sure[:, draw] = np.exp(highest - top) / total
            # Equal odds can differ in their last digits.
            first = (log_odds >= highest[:, None] - 1e-9) & (votes > 0)
            right[:, draw] = np.einsum("oa,a->o", first, share) / np.maximum(first.sum(axis=1), 1)
        return Outcome(first_at_least(sure, points), right)

    def _log_odds(
        self,
        best: NDArray[np.float64],
        votes: NDArray[np.int64],
        drawn: int,
        voting: NDArray[np.int64],
        agreement: float,
    ) -> NDArray[np.float64]:
        """The log-odds of each answer, of shape (orders, answers); -inf without a vote. `voting` is v of each order."""
        table = _log_votes(*self.successes_, self.diversity_, drawn, agreement)
        return best + table[voting[:, None], votes]


@lru_cache(maxsize=1024)
def _log_votes(a: float, b: float, theta: float, drawn: int, agreement: float) -> NDArray[np.float64]:
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


def diversity_of(answers: NDArray[np.int64], correct: NDArray[np.bool_]) -> float:
    """Return theta, which says how rarely wrong answers agree: two of them are equal with probability 1 / (1 + theta).

    It is estimated from all pairs of wrong answers of the same question, with one equal and one different pair added.

    Parameters
    ----------
    answers : ndarray of shape (questions, M), int64
        -1 for a trajectory without an answer, which is left out.
    correct : ndarray of shape (questions, M), bool

    Returns
    -------
    float
        Above 0.
    """
    wrong = ~correct & (answers >= 0)
    pair = wrong[:, :, None] & wrong[:, None, :] & ~np.eye(answers.shape[1], dtype=np.bool_)
    equal = (pair & (answers[:, :, None] == answers[:, None, :])).sum() / 2
    different = pair.sum() / 2 - equal
    return float((different + 1) / (equal + 1))
