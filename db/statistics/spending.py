"""Curves of accuracy against cost, with bootstrap replicates of both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prmcal.db.statistics.bootstrap import Bootstrap, percentile_interval, weighted_totals

__all__ = ["Curve", "curve_of"]


@dataclass(frozen=True, eq=False)
class Curve:
    """Points of accuracy against cost.

    Attributes
    ----------
    cost, accuracy : ndarray of shape (points,), float64
        Means over questions. The cost is counted in samples or in tokens.
    cost_replicates, accuracy_replicates : ndarray of shape (replicates, points), float64
        The same means over the same resamples of the questions.
    questions : int
        Number of questions.
    """

    cost: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    cost_replicates: NDArray[np.float64]
    accuracy_replicates: NDArray[np.float64]
    questions: int

    def intervals(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the 95% intervals of cost and of accuracy, each of shape (points, 2); NaN for a single question."""
        found = [
            np.array([self.interval(column) for column in replicates.T]).reshape(-1, 2)
            for replicates in (self.cost_replicates, self.accuracy_replicates)
        ]
        return found[0], found[1]

    def interval(self, replicates: NDArray[np.float64]) -> tuple[float, float]:
        """Return the 95% interval of a quantity from its replicates, of shape (replicates,)."""
        if not replicates.size:
            return float("nan"), float("nan")
        return percentile_interval(replicates, self.questions)

    def joined(self, other: Curve) -> Curve:
        """Return a curve with the points of both. They must have the same questions and resamples."""
        return Curve(
            np.append(self.cost, other.cost),
            np.append(self.accuracy, other.accuracy),
            np.concatenate([self.cost_replicates, other.cost_replicates], axis=1),
            np.concatenate([self.accuracy_replicates, other.accuracy_replicates], axis=1),
            self.questions,
        )


def curve_of(cost: NDArray[np.float64], accuracy: NDArray[np.float64], bootstrap: Bootstrap) -> Curve:
    """Make a curve from the values of single questions.

    Parameters
    ----------
    cost, accuracy : ndarray of shape (questions, points), float64
    bootstrap : Bootstrap
        How the questions are resampled.
    """
    questions, points = cost.shape
    both = np.concatenate([cost, accuracy], axis=1)
    weights = bootstrap.weights(questions) if questions > 1 else np.empty((0, 1))
    drawn = weighted_totals(weights, both) / questions
    return Curve(
        both[:, :points].mean(axis=0),
        both[:, points:].mean(axis=0),
        drawn[:, :points],
        drawn[:, points:],
        questions,
    )
