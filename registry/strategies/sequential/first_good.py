"""Stop at the first trajectory that is good enough."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.special import expit

from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.ranges import Share
from prmcal.registry.contracts.strategy import Setting
from prmcal.registry.strategies.evidence import ScoreEvidence
from prmcal.registry.strategies.sequential.rule import Drawn, Outcome, SequentialRule, first_at_least

__all__ = ["FirstGoodEnough"]

_THRESHOLDS = tuple(float(each) for each in expit(np.linspace(-5, 8, 27)))


class FirstGoodEnough(SequentialRule):
    """Stop at the first trajectory that is right with at least a given probability, and answer with the best-scored.

    The probability is computed from the PRM's score of the whole trajectory by Platt scaling, which is fitted to the
    trajectories of the calibration questions. A trajectory that is too long for the PRM is never good enough. If none
    is good enough, the whole budget N is drawn.

    Parameters
    ----------
    threshold : float in (0, 1), or "tuned"
        The smallest probability that is good enough. "tuned" chooses it by the calibration questions, with as many
        trajectories as they have: the lowest threshold whose accuracy is less than that of the best threshold by one
        standard error of the difference at most. It assumes that what is good enough there is so with N trajectories.
    """

    reads = ("scores",)
    tuned = True

    def __init__(self, threshold: Share | Literal["tuned"] = 0.8) -> None:
        self.threshold = threshold

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

    def point(self, setting: Setting) -> float:
        """Return the threshold."""
        return self.threshold_

    def curve_points(self, setting: Setting) -> tuple[float, ...]:
        """Return thresholds from .007 to .9997."""
        return _THRESHOLDS

    def follow(self, drawn: Drawn, points: tuple[float, ...]) -> Outcome:
        """Stop at the first score whose probability is at least the threshold."""
        chances = drawn.orders.of(self.evidence_.chance(drawn.own["scores"]))
        return Outcome(first_at_least(chances, points), drawn.right_if_best())
