"""Curves of accuracy against cost, with the values of the single questions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from prmcal.db.statistics.bootstrap import Bootstrap
from prmcal.db.statistics.intervals import IntervalRule, bounded_interval
from prmcal.resamples import weighted_totals

__all__ = ["Curve"]


@dataclass(frozen=True, eq=False)
class Curve:
    """Points of accuracy against cost.

    Attributes
    ----------
    costs : ndarray of shape (questions, points), float64
        The cost of each question, counted in samples or in tokens.
    accuracies : ndarray of shape (questions, points), float64
        In [0, 1].
    cost_rule : callable
        The rule for the intervals of the cost.
    """

    costs: NDArray[np.float64]
    accuracies: NDArray[np.float64]
    cost_rule: IntervalRule

    @property
    def questions(self) -> int:
        """The number of questions."""
        return len(self.costs)

    @cached_property
    def cost(self) -> NDArray[np.float64]:
        """The mean cost of each point, of shape (points,)."""
        return np.asarray(self.costs.mean(axis=0), dtype=np.float64)

    @cached_property
    def accuracy(self) -> NDArray[np.float64]:
        """The mean accuracy of each point, of shape (points,)."""
        return np.asarray(self.accuracies.mean(axis=0), dtype=np.float64)

    def intervals(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the 95% intervals of cost and of accuracy, each of shape (points, 2); NaN for a single question."""
        cost, accuracy = self.cost_rule(self.costs), bounded_interval(self.accuracies)
        return np.stack(cost, axis=1), np.stack(accuracy, axis=1)

    def replicates(self, bootstrap: Bootstrap) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return cost and accuracy under the resamples of a bootstrap, each of shape (replicates, points)."""
        weights = bootstrap.weights(self.questions)
        cost, accuracy = (weighted_totals(weights, each) for each in (self.costs, self.accuracies))
        return cost / self.questions, accuracy / self.questions

    def part(self, questions: NDArray[np.bool_]) -> Curve:
        """Return the curve of some of the questions."""
        return Curve(self.costs[questions], self.accuracies[questions], self.cost_rule)

    def joined(self, other: Curve) -> Curve:
        """Return a curve with the points of both, which have the same questions."""
        return Curve(
            np.concatenate([self.costs, other.costs], axis=1),
            np.concatenate([self.accuracies, other.accuracies], axis=1),
            self.cost_rule,
        )
