"""What a score says: the probability that its trajectory is right, learned from other questions; and a rule by it."""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from scipy.special import expit, logit

from prmcal.arrays import Bools, Floats
from prmcal.registry.calibrators.logit import fit_logistic
from prmcal.registry.contracts.plugin import Share
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Setting
from prmcal.registry.strategies.sequential import Drawn, Outcome, SequentialRule, first_at_least

_LARGEST_LOG_RATIO = 30.0
_SMALLEST_SPREAD = 1e-9


@dataclass(frozen=True, eq=False)
class ScoreEvidence:
    """The probability that a trajectory is right, given its score: sigmoid(slope x score + offset) (Platt, 1999).

    The slope is not negative, so the best-scored trajectory is the most probable one. If it is 0, scores say nothing.
    """

    slope: float
    offset: float
    base: float
    """The share of right trajectories among those it was fitted to, in (0, 1)."""

    @classmethod
    def fit(cls, scores: Floats, correct: Bools) -> Self:
        """Fit slope and offset by maximum likelihood.

        The labels of r right and w wrong trajectories are (r + 1) / (r + 2) and 1 / (w + 2), as Platt proposes, so that
        scores that separate them perfectly do not give an infinite slope. Scores are log-odds of any shape; NaN, where
        the trajectory was too long for the PRM, is left out. scikit-learn has these labels inside of a
        CalibratedClassifierCV only.
        """
        read = np.isfinite(scores)
        values, graded = scores[read].astype(np.float64), correct[read]
        right = int(graded.sum())
        wrong = len(graded) - right
        base = (right + 1) / (right + wrong + 2)
        slope, offset = _platt(values, np.where(graded, (right + 1) / (right + 2), 1 / (wrong + 2)), base)
        return cls(slope, offset, base)

    def chance(self, scores: Floats) -> Floats:
        """Return the probability that trajectories with these scores are right, if nothing is known of the question.

        NaN stays NaN.
        """
        return np.asarray(expit(self.slope * scores + self.offset), dtype=np.float64)

    def log_ratio(self, scores: Floats) -> Floats:
        """Return log(P(score | right) / P(score | wrong)): the log-odds of `chance` minus those of `base`.

        It is clipped to [-30, 30]. A trajectory that is too long for the PRM (NaN) says nothing: 0.
        """
        ratio = self.slope * scores + (self.offset - float(logit(self.base)))
        return np.clip(np.nan_to_num(ratio, nan=0.0), -_LARGEST_LOG_RATIO, _LARGEST_LOG_RATIO)


def _platt(scores: Floats, labels: Floats, base: float) -> tuple[float, float]:
    """Return slope and offset with the largest likelihood, by Newton's method on standardised scores."""
    level = float(logit(base))
    middle, spread = (float(scores.mean()), float(scores.std())) if len(scores) else (0.0, 0.0)
    if spread < _SMALLEST_SPREAD:
        return 0.0, level
    inputs = np.stack([(scores - middle) / spread, np.ones(len(scores))], axis=1)
    (slope, offset), _ = fit_logistic(inputs, labels, np.ones(len(scores)), np.array([0.0, level]), 0.0)
    if slope <= 0:
        return 0.0, level
    return float(slope / spread), float(offset - slope * middle / spread)


_THRESHOLDS = tuple(float(each) for each in expit(np.linspace(-5, 8, 27)))


@dataclass(eq=False)
class FirstGoodEnough(SequentialRule):
    """Stop at the first trajectory that is right with at least a given probability, and answer with the best-scored.

    The probability is computed from the PRM's score of the whole trajectory by Platt scaling, which is fitted to the
    trajectories of the calibration questions. A trajectory that is too long for the PRM is never good enough. If none
    is good enough, the whole budget N is drawn.
    """

    reads = ("scores",)
    tuned = True
    budget = ("threshold_", _THRESHOLDS)

    threshold: Share | Literal["tuned"] = 0.8
    """The smallest probability that is good enough. "tuned" chooses it by the calibration questions, with as many
    trajectories as they have: the lowest threshold whose accuracy is less than that of the best threshold by one
    standard error of the difference at most. It assumes that what is good enough there is so with N trajectories. In
    (0, 1)."""

    def tune(self, pool: Pool, setting: Setting) -> None:
        """Fit the probability, and choose the threshold if it is tuned; see :meth:`prmcal.PoolStrategy.tune`."""
        self.evidence_ = ScoreEvidence.fit(pool.scores, pool.correct)
        self.threshold_ = self._chosen(pool, setting) if self.threshold == "tuned" else self.threshold

    def _chosen(self, pool: Pool, setting: Setting) -> float:
        results = self._run(pool, Setting(min(setting.samples, pool.size)), _THRESHOLDS)
        best = max(results, key=lambda each: float(each.accuracy.mean())).accuracy
        for threshold, each in zip(_THRESHOLDS, results, strict=True):
            lost = best - each.accuracy
            if lost.mean() <= lost.std() / np.sqrt(len(lost)):
                return threshold
        raise AssertionError("The best threshold loses nothing against itself.")

    def follow(self, drawn: Drawn, points: tuple[float, ...]) -> Outcome:
        """Stop at the first score whose probability is at least the threshold."""
        chances = drawn.orders.of(self.evidence_.chance(drawn.own["scores"]))
        return Outcome(first_at_least(chances, points), drawn.right_if_best())
