"""Accuracy against budget for many settings at once, and selective answering.

A model that answers selectively says "I don't know" to questions with low calibrated rewards. Questions are answered
in descending order of reward. The coverage c is the share of questions that are answered, and the risk is the share
of wrong answers among them. The area under risk against coverage is the mean risk over all coverages (Geifman and El-
Yaniv, 2017). If rewards are uninformative, it is the risk of answering all questions; it is smaller the better the
rewards order the questions. The area depends only on the order of the rewards and not on their values.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prmcal.arrays import Floats, Ints
from prmcal.db.statistics.bootstrap import Bootstrap, Statistic
from prmcal.db.statistics.budgets import Curve
from prmcal.db.statistics.intervals import IntervalRule, bounded_interval, known_interval, percentile_interval
from prmcal.harness.metrics.league import area_of
from prmcal.registry.strategies.scaling import adaptive_samples

_BLOCK = 2**15


class RiskCoverageArea(Statistic):
    """The area under risk against coverage. Questions with equal rewards are answered in random order.

    All three arguments have the shape (questions,). Questions with higher rewards are answered first. NaN, a question
    that is too long for the PRM, is last. `accuracy` is the probability in [0, 1] that the question is answered
    correctly.
    """

    def __init__(self, rewards: ArrayLike, accuracy: ArrayLike, question_ids: ArrayLike) -> None:
        self.question_ids: NDArray[Any] = np.asarray(question_ids)
        self.rows = len(self.question_ids)
        ordered = _ordered(rewards)
        self.order = np.argsort(-ordered, kind="stable")
        self.risk = 1.0 - np.asarray(accuracy, dtype=np.float64)[self.order]
        # The end of each group of equal rewards.
        self.ends = np.flatnonzero(np.diff(ordered[self.order], append=-2.0))

    def values(self, weights: Floats) -> Floats:
        """Compute the area under each row of `weights`."""
        # A block of the resamples fits the processor's cache.
        blocks = np.array_split(weights, weights.size // _BLOCK + 1)
        return np.concatenate([self._areas(block.T[self.order]) for block in blocks])

    def _areas(self, drawn: Floats) -> Floats:
        """Return the areas of resamples, from how often they have each question: (questions, replicates)."""
        answered = np.cumsum(drawn, axis=0)[self.ends]
        wrong = np.cumsum(drawn * self.risk[:, None], axis=0)[self.ends]
        # Within a group of equal rewards the risk is the integral of (lost + m (c - before)) / c, which is
        # (lost - m before) log(answered / before) + m width. The last terms add up to all wrong answers. The first
        # group has no other term.
        before, lost = answered[:-1], wrong[:-1]
        width = np.diff(answered, axis=0)
        mean = np.diff(wrong, axis=0) / np.where(width > 0, width, 1.0)
        logs = np.log(np.where(answered > 0, answered, 1.0))
        parts = (lost - mean * before) * np.diff(logs, axis=0)
        areas: Floats = (parts.sum(axis=0) + wrong[-1]) / answered[-1]
        return areas


def risk_at(thresholds: ArrayLike, rewards: ArrayLike, accuracy: ArrayLike) -> dict[str, Floats]:
    """Return the coverage and the risk of answering the questions whose rewards are at least a threshold.

    The thresholds, of shape (thresholds,), are in [0, 1]. Rewards, of shape (questions, ...), such as those of each
    level, and accuracy, of shape (questions,), are as for :class:`RiskCoverageArea`.

    The result, of shape (..., thresholds), has coverage and risk, each with the ends of its 95% interval: coverage_low,
    coverage_high, and so on. The risk is that of the answered questions, and so is its interval. It is 0 if no question
    is answered. With fewer than two answered questions it has no interval (NaN).
    """
    answered = _ordered(rewards)[..., None] >= np.asarray(thresholds, dtype=np.float64)
    coverage_low, coverage_high = bounded_interval(answered.astype(np.float64))
    # The questions are the first axis of `answered`, and the last one of its transpose.
    wrong = np.broadcast_to(1.0 - np.asarray(accuracy, dtype=np.float64), answered.T.shape).T
    risk_low, risk_high = bounded_interval(wrong, counted=answered)
    return {
        "coverage": answered.mean(axis=0),
        "coverage_low": coverage_low,
        "coverage_high": coverage_high,
        "risk": np.where(answered, wrong, 0.0).sum(axis=0) / np.maximum(answered.sum(axis=0), 1),
        "risk_low": risk_low,
        "risk_high": risk_high,
    }


def _ordered(rewards: ArrayLike) -> Floats:
    """Return rewards in which NaN is replaced by a value below all others."""
    return np.nan_to_num(np.asarray(rewards, dtype=np.float64), nan=-1.0)


TARGETS = tuple(float(-np.expm1(-x)) for x in (0.125, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0))
"""The eight values of C in the paper's ablation: log(1 - C) from -0.125 to -5."""


def fixed_curve(table: Floats, counts: Sequence[int] | Ints) -> Curve:
    """Return the curve of best-of-n with the same n for every question, with a point for each n in [1, N].

    `table` is ``best_of_each(scores, correct, N)``, of shape (questions, N).
    """
    samples = np.tile(np.asarray(counts, dtype=np.int64), (len(table), 1))
    return _curve(table, samples, known_interval)


def adaptive_curve(table: Floats, rewards: ArrayLike, targets: Sequence[float]) -> Curve:
    """Return the curve of best-of-n + IAS, with a point for every target probability C in (0, 1).

    `table` is ``best_of_each(scores, correct, N)``, of shape (questions, N), which is the same for all calibrators and
    levels. `rewards` are the calibrated rewards of the bare questions: of shape (questions,) for one setting (a
    calibrator and a level), or (settings, questions) for several. The points of the first setting are in the order of
    `targets`, then come those of the next setting.
    """
    settings = np.atleast_2d(np.asarray(rewards, dtype=np.float64)).T
    questions, most = table.shape
    samples = adaptive_samples(settings[..., None], targets, most)
    return _curve(table, samples.reshape(questions, -1), partial(bounded_interval, upper=float(most)))


def area_under(ends: Curve, points: Curve, maximum: int, bootstrap: Bootstrap) -> tuple[float, float, float]:
    """Return the area under the curve through `points` and its two `ends`, and its 95% interval.

    `ends` is ``fixed_curve(table, [1, N])``, and `points` has those of one setting, in any order. A single question has
    no interval (NaN). Raises a ValueError if N is below 2, because there is no range of budgets.
    """
    if maximum < 2:
        raise ValueError(f"An area needs budgets from 1 to N with N of at least 2. Got N = {maximum}.")
    curve = ends.joined(points)
    (value,) = _areas(curve.cost[None], curve.accuracy[None], maximum)
    if curve.questions < 2:
        return float(value), float("nan"), float("nan")
    replicates = _areas(*curve.replicates(bootstrap), maximum)
    return float(value), *percentile_interval(replicates, curve.questions)


def _curve(table: Floats, samples: NDArray[Any], cost_rule: IntervalRule) -> Curve:
    accuracy = np.take_along_axis(table, samples - 1, axis=1)
    return Curve(samples.astype(np.float64), accuracy, cost_rule)


def _areas(samples: Floats, accuracy: Floats, maximum: int) -> Floats:
    """Return the areas of curves with points in any order: (curves, points) gives (curves,)."""
    # Sort by cost, and by accuracy if costs are equal, so that the value does not depend on the given order.
    order = np.lexsort((accuracy, samples), axis=-1)
    cost = np.take_along_axis(samples, order, axis=-1)
    gain = np.take_along_axis(accuracy, order, axis=-1)
    return area_of(cost, gain, maximum)
