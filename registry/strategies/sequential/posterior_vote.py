"""Scores and votes together: the probability that each answer is right, by Bayes' rule."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, gammaln

from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Setting
from prmcal.registry.strategies.choices import right_of_answers
from prmcal.registry.strategies.sequential.evidence import ScoreEvidence
from prmcal.registry.strategies.sequential.prior import beta_of
from prmcal.registry.strategies.sequential.rule import Drawn, Outcome, TargetedRule, first_at_least

__all__ = ["PosteriorVote", "diversity_of"]


class PosteriorVote(TargetedRule):
    """Answer with the most probable answer, given all scores and votes, and stop when its probability reaches C.

    A question has a success probability p with the law Beta(a, b). A trajectory is right with probability p. Right ones
    have the same answer. Wrong ones agree by chance: a wrong answer is equal to an answer that j of the w wrong ones
    before have with probability j / (theta + w), and new otherwise (Ewens' sampling formula). Scores of right and of
    wrong trajectories have densities with the ratio L. So after t draws, of which v have an answer, the odds that an
    answer with n votes is right, against no answer being right, are

        B(a + n, b + t - n) / B(a, b + t) x theta^(v) / (theta (n - 1)! theta^(v - n)) x L,

    where B is the Beta function and x^(k) = x (x + 1) ... (x + k - 1). L is that of the best score of the answer only:
    equal answers are often reached in the same way, so their scores are not independent. Answers with equal odds are
    equally likely to be given. a, b, theta and L come from the calibration questions. A trajectory that is too long for
    the PRM has L = 1. If no trajectory has an answer, none is given, and the question counts as wrong.
    """

    reads = ("scores",)
    tuned = True

    def tune(self, pool: Pool, setting: Setting) -> None:
        """Fit a, b, theta and L to the calibration questions; see :meth:`prmcal.PoolStrategy.tune`."""
        self.evidence_ = ScoreEvidence.fit(pool.scores, pool.correct)
        self.successes_ = beta_of(pool.correct)
        self.diversity_ = diversity_of(pool.answers, pool.correct)

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
        agreed = gammaln(self.diversity_ + np.arange(draws + 1))
        for draw in range(draws):
            votes_now = drawn.answers[:, draw] >= 0
            own = rows[votes_now], drawn.answers[votes_now, draw]
            votes[own] += 1
            best[own] = np.maximum(best[own], log_ratio[votes_now, draw])
            voting += votes_now
            log_odds = best + self._prior_odds(draw + 1)[votes]
            log_odds += agreed[voting][:, None] - agreed[voting[:, None] - votes]
            highest = log_odds.max(axis=1)
            top = np.maximum(highest, 0.0)
            total = np.exp(log_odds - top[:, None]).sum(axis=1) + np.exp(-top)
            sure[:, draw] = np.exp(highest - top) / total
            # Equal odds can differ in their last digits.
            first = (log_odds >= highest[:, None] - 1e-9) & (votes > 0)
            right[:, draw] = np.einsum("oa,a->o", first, share) / np.maximum(first.sum(axis=1), 1)
        return Outcome(first_at_least(sure, points), right)

    def _prior_odds(self, drawn: int) -> NDArray[np.float64]:
        """The part of the log-odds that depends on the votes 0, 1, ..., t of an answer, after t draws."""
        a, b = self.successes_
        n = np.arange(1, drawn + 1)
        found = betaln(a + n, b + drawn - n) - betaln(a, b + drawn) - np.log(self.diversity_) - gammaln(n)
        return np.append(-np.inf, found)


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
