"""Rules that stop at the first score that is good enough, or where answers agree, and the chance behind a score."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import betainc, expit, logit

from prmcal.arrays import Bools, Floats, Ints
from prmcal.registry.calibrators.logit import fit_logistic
from prmcal.registry.contracts.plugin import Count, Share
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Allowance
from prmcal.registry.strategies.sequential import Drawn, Outcome, SequentialRule, first_at_least
from prmcal.remembered import remembered

_SMALLEST_SPREAD = 1e-9
_THRESHOLDS = tuple(float(threshold) for threshold in expit(np.linspace(-5, 8, 27)))
_CONFIDENCES = tuple(float(1 - error) for error in np.geomspace(0.6, 1e-12, 24))


@dataclass(frozen=True, eq=False)
class ScoreEvidence:
    """The probability that a trajectory is right, given its score: sigmoid(slope x score + offset) (Platt, 1999).

    The slope is not negative, so the best-scored trajectory is the most probable one. If it is 0, scores do not matter.
    """

    slope: float
    offset: float

    @classmethod
    def fit(cls, scores: Floats, correct: Bools) -> Self:
        """Fit slope and offset by maximum likelihood, with Newton's method on standardised scores.

        The labels of r right and w wrong trajectories are (r + 1) / (r + 2) and 1 / (w + 2), as Platt proposes, so that
        scores that separate them perfectly do not give an infinite slope. Scores are log-odds of any shape; NaN
        (trajectories that are too long for the PRM) is left out. scikit-learn has these labels inside of a
        CalibratedClassifierCV only.
        """
        is_scored = np.isfinite(scores)
        values, is_right = scores[is_scored].astype(np.float64), correct[is_scored]
        right_count = int(is_right.sum())
        wrong_count = len(is_right) - right_count
        level = float(logit((right_count + 1) / (right_count + wrong_count + 2)))
        middle, spread = (float(values.mean()), float(values.std())) if len(values) else (0.0, 0.0)
        if spread < _SMALLEST_SPREAD:
            return cls(0.0, level)
        inputs = np.stack([(values - middle) / spread, np.ones(len(values))], axis=1)
        labels = np.where(is_right, (right_count + 1) / (right_count + 2), 1 / (wrong_count + 2))
        (slope, offset), _ = fit_logistic(inputs, labels, np.ones(len(values)), np.array([0.0, level]), 0.0)
        if slope <= 0:
            return cls(0.0, level)
        return cls(float(slope / spread), float(offset - slope * middle / spread))

    def chance(self, scores: Floats) -> Floats:
        """Return the probability that trajectories with these scores are right. NaN stays NaN."""
        return np.asarray(expit(self.slope * scores + self.offset), dtype=np.float64)


@dataclass(eq=False)
class FirstGoodEnough(SequentialRule):
    """Stop at the first trajectory that is right with at least a given probability, and answer with the best-scored.

    The probability is computed from the PRM's score of the whole trajectory by Platt scaling, which is fitted to the
    trajectories of the calibration questions. A trajectory that is too long for the PRM is never good enough. If no
    trajectory is good enough, the whole budget N is drawn.
    """

    reads = ("scores",)
    tuned = True
    budget = ("threshold", _THRESHOLDS)

    threshold: Share = 0.8
    """The smallest probability that is good enough, in (0, 1)."""

    def tune(self, pool: Pool, allowance: Allowance) -> None:
        """Fit the probability; see :meth:`prmcal.PoolStrategy.tune`."""
        self.evidence_ = ScoreEvidence.fit(pool.scores, pool.correct)

    def follow(self, drawn: Drawn, points: tuple[float, ...]) -> Outcome:
        """Stop at the first score whose probability is at least the threshold."""
        chances = self.evidence_.chance(drawn.in_pool["scores"])[drawn.orders]
        return Outcome(first_at_least(chances, points), drawn.right_if_best())


@dataclass(eq=False)
class AdaptiveConsistency(SequentialRule):
    """Stop when the leading answer is the majority of the two leading ones with a given confidence.

    After each sample, v1 and v2 are the votes of the leader and of the runner-up. Stop when P(X > 1/2) is at least the
    confidence, where X ~ Beta(v1 + 1, v2 + 1). Answer with the most frequent answer. Trajectories without an
    answer are drawn, but do not vote.
    """

    citation = "Aggarwal et al. (2023), EMNLP, arXiv:2305.11860"

    budget = ("confidence", _CONFIDENCES)
    confidence: Share = 0.95
    """The confidence, in (0, 1)."""

    def follow(self, drawn: Drawn, points: tuple[float, ...]) -> Outcome:
        """Stop when the leader is far enough ahead."""
        votes = drawn.votes()
        # A doubt has more digits than a probability near 1.
        doubt = _doubt(drawn.orders.shape[1])[votes.first, votes.second]
        return Outcome(first_at_least(-doubt, tuple(point - 1 for point in points)), votes.right)


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

    def curve_points(self, allowance: Allowance) -> tuple[float, ...]:
        """Return windows of 1 to N samples."""
        sizes = np.unique(np.rint(np.geomspace(1, allowance.samples, 24)))
        return tuple(float(size) for size in sizes)

    def follow(self, drawn: Drawn, points: tuple[float, ...]) -> Outcome:
        """Stop after a window that agrees."""
        stops = [_after_agreement(drawn.answers, int(point)) for point in points]
        return Outcome(np.stack(stops), drawn.votes().right)


@remembered
def _doubt(maximum: int) -> Floats:
    """P(X <= 1/2) for 0, 1, ..., `maximum` votes v1 and v2."""
    votes = np.arange(maximum + 1)
    return np.asarray(betainc(votes[:, None] + 1, votes + 1, 0.5), dtype=np.float64)


def _after_agreement(answers: Ints, window: int) -> Ints:
    """The number of draws of each order, of shape (orders,), with one size of the window."""
    orders, draws = answers.shape
    if window > draws:
        return np.full(orders, draws)
    windows = answers[:, : draws // window * window].reshape(orders, -1, window)
    agree = (windows == windows[..., :1]).all(axis=2) & (windows[..., 0] >= 0)
    return np.where(agree.any(axis=1), (agree.argmax(axis=1) + 1) * window, draws)
