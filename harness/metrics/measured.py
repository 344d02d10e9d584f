"""Statistics, with intervals and for comparisons, from the results of metrics; and two tables of bins.

The tables are the reliability diagram and the histogram of signed errors.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prmcal.arrays import Floats
from prmcal.db.statistics import intervals
from prmcal.db.statistics.bootstrap import Bootstrap, Ratio, Statistic, counted_once
from prmcal.errors import FaultyPluginError
from prmcal.registry.contracts.metric import AbsoluteSum, Metric, PrefixRows, QuestionRatio
from prmcal.registry.metrics.bins import bin_edges, bin_index
from prmcal.resamples import weighted_totals

if TYPE_CHECKING:
    import pandas as pd

Weighted = Callable[[Floats], Floats]
"""A function of weights of shape (resamples, questions)."""


def reliability_bins(rows: PrefixRows, bins: int = 10) -> "pd.DataFrame":
    """Return rewards and measured success rates in equal-width bins over [0, 1]: the table of the reliability diagram.

    There is one row for each bin, with its number and edges (`bin`, `lower`, `upper`), its rows (`count`), the means of
    r and of y = k/n (`mean_reward`, `mean_success`; NaN in an empty bin), and the 95% interval of the latter over the
    questions in the bin (`low`, `high`; NaN with fewer than two). A bin contains its lower edge, and the last bin also
    contains 1. scikit-learn's calibration_curve puts an edge into the bin below it, and has no intervals.
    """
    edges = bin_edges(bins)
    questions = len(rows.question_ids)
    cell = rows.question_index * bins + bin_index(rows.reward, edges)

    def totals(quantity: Floats) -> Floats:
        sums = np.bincount(cell, weights=quantity, minlength=questions * bins)
        return np.asarray(sums, dtype=np.float64).reshape(questions, bins)

    counts = totals(np.ones(len(rows.reward)))
    successes = totals(rows.success_rate)
    count = counts.sum(axis=0)
    low, high = np.full(bins, np.nan), np.full(bins, np.nan)
    for index in np.flatnonzero(count):
        present = counts[:, index] > 0
        low[index], high[index] = Ratio(
            successes[present, index], counts[present, index], rows.question_ids[present], intervals.bounded_interval
        ).interval()
    filled = np.where(count > 0, count, np.nan)
    mean_reward, mean_success = (sums.sum(axis=0) / filled for sums in (totals(rows.reward), successes))
    return _bins_table(edges, count, mean_reward=mean_reward, mean_success=mean_success, low=low, high=high)


def signed_error_bins(rows: PrefixRows, bins: int = 20) -> "pd.DataFrame":
    """Return the histogram of r - y over [-1, 1], with the columns of :func:`reliability_bins` up to `count`.

    Errors above 0 are overestimates.
    """
    edges = bin_edges(bins, -1.0, 1.0)
    return _bins_table(edges, np.bincount(bin_index(rows.reward - rows.success_rate, edges), minlength=bins))


def _bins_table(edges: Floats, count: NDArray[Any], **columns: NDArray[Any]) -> "pd.DataFrame":
    import pandas as pd  # Metrics of arrays need none, and it takes half of their import.

    numbers, counts = np.arange(len(count), dtype=np.int32), count.astype(np.int32)
    return pd.DataFrame({"bin": numbers, "lower": edges[:-1], "upper": edges[1:], "count": counts, **columns})


def statistic_of(metric: Metric, rows: PrefixRows, bootstrap: Bootstrap) -> Statistic | None:
    """Measure a metric. Return None if it is not defined for the rows.

    For a metric that is measured at each level, the rows are for one level. `bootstrap` resamples the questions, to
    measure the noise of an :class:`AbsoluteSum`. Raises a FaultyPluginError if the metric returns something outside its
    contract. The message names the rule.
    """
    values = metric.measure(rows)
    if values is None:
        return None
    if isinstance(values, AbsoluteSum):
        errors = _checked(values.errors)
        return _CorrectedSum(errors, rows, bootstrap) if values.corrected else _AbsoluteSum(errors, rows)
    if isinstance(values, QuestionRatio):
        return _QuestionRatio(values, rows)
    if not isinstance(values, np.ndarray) or values.shape != rows.reward.shape:
        got = f"the shape {values.shape}" if isinstance(values, np.ndarray) else type(values).__name__
        raise FaultyPluginError(
            f"it must return an array with one value per prefix, of shape {rows.reward.shape}, or a QuestionRatio, "
            f"AbsoluteSum or None. Got {got}."
        )
    rule = intervals.skewed_interval if metric.usual is None else intervals.cautious_within(*metric.usual)
    mean = Ratio(rows.totals(values.astype(np.float64)), rows.counts, rows.question_ids, rule)
    mean.rows = len(values)
    return mean


def _widened(rule: intervals.IntervalRule, factor: float, values: Floats) -> intervals.Ends:
    """Return the ends of the interval of values whose distances from their mean are multiplied by a factor."""
    mean = values.mean(axis=0)
    return rule(mean + factor * (values - mean))


class _QuestionRatio(Ratio):
    """A ratio of sums over questions, perhaps in a known range."""

    def __init__(self, ratio: QuestionRatio, rows: PrefixRows) -> None:
        if np.any(np.asarray(ratio.counts) < 0) or not np.sum(ratio.counts) > 0:
            raise FaultyPluginError(
                "the counts of a QuestionRatio must not be negative, and one must be positive. Return None where "
                "nothing can be measured."
            )
        self._bounds = ratio.bounds or (-np.inf, np.inf)
        low, high = self._bounds
        rule = intervals.skewed_interval
        if ratio.bounds is not None:
            rule = partial(intervals.bounded_interval, lower=low, upper=high)
        if ratio.widening > 1:
            rule = partial(_widened, rule, ratio.widening)
        super().__init__(ratio.sums, ratio.counts, rows.question_ids, rule)
        self.rows = len(rows.reward)

    def values(self, weights: Floats) -> Floats:
        """Compute the ratio under each row of `weights`. A resample without any count gets the overall ratio."""
        counts = weighted_totals(weights, self._counts)
        overall = np.full(len(weights), self._sums.sum() / self._counts.sum())
        ratios = np.divide(weighted_totals(weights, self._sums), counts, out=overall, where=counts > 0)
        return np.asarray(np.clip(ratios, *self._bounds))


def _checked(function: Weighted) -> Weighted:
    """Let a function of weights raise FaultyPluginError unless it returns finite errors of each resample."""

    def checked(weights: Floats) -> Floats:
        errors = function(weights)
        if not isinstance(errors, np.ndarray) or errors.ndim != 2 or len(errors) != len(weights):
            got = getattr(errors, "shape", type(errors).__name__)
            raise FaultyPluginError(
                f"for weights of shape {weights.shape} it must return an array of shape (resamples, errors). Got {got}."
            )
        if not np.isfinite(errors).all():
            raise FaultyPluginError("it must return finite numbers for every resample of the questions.")
        return errors

    return checked


class _AbsoluteSum(Statistic):
    """A sum of absolute errors. The interval is for other questions, equally many.

    Noise increases it, and both the value and the interval include the noise.
    """

    def __init__(self, errors: Weighted, rows: PrefixRows) -> None:
        self.question_ids, self.rows, self._errors = rows.question_ids, len(rows.reward), errors

    def values(self, weights: Floats) -> Floats:
        return np.asarray(np.abs(self._errors(weights)).sum(axis=1), dtype=np.float64)

    def interval(self, replicates: Floats) -> tuple[float, float]:
        return intervals.centred_interval(self.value(), replicates, len(self.question_ids))


class _CorrectedSum(Statistic):
    """A noise-corrected sum of absolute errors: an estimate of the sum over all questions without their noise.

    The noise of each error is measured by resampling questions, so it includes the noise of the follow-ups. See
    :mod:`prmcal.db.statistics.intervals` for the estimate, its bias and its interval.
    """

    def __init__(self, errors: Weighted, rows: PrefixRows, bootstrap: Bootstrap) -> None:
        self.question_ids, self.rows = rows.question_ids, len(rows.reward)
        self._errors = errors
        questions = len(self.question_ids)
        self._resampled_errors = errors(bootstrap.weights(questions) if questions > 1 else counted_once(1))
        # The bootstrap variance of n questions is too small by the factor (n - 1) / n.
        self._noise = self._resampled_errors.std(axis=0) * np.sqrt(questions / max(questions - 1, 1))

    def values(self, weights: Floats) -> Floats:
        """Compute the corrected sum under each row of `weights`. It can be below 0, for tests of two cells."""
        return intervals.without_noise(self._errors(weights), self._noise)

    def value(self) -> float:
        """Compute the corrected sum with every question counted once: a value below 0 becomes 0."""
        return max(super().value(), 0.0)

    def interval(self, replicates: Floats) -> tuple[float, float]:
        """Return the ends of the 95% interval of the sum over all questions, which contains the value."""
        questions, value = len(self.question_ids), self.value()
        errors = self._errors(counted_once(questions))[0]
        low, high = intervals.absolute_sum_interval(errors, self._resampled_errors, questions)
        return min(low, value), max(high, value)
