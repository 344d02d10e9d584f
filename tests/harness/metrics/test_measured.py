"""What a metric may return, and what becomes of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from prmcal.db.statistics.bootstrap import Bootstrap, estimate
from prmcal.errors import PluginFailedError
from prmcal.harness.metrics.measured import statistic_of
from prmcal.registry.contracts.metric import AbsoluteSum, Metric, PrefixRows, QuestionRatio
from tests.measured import row_mean, statistic

BOOTSTRAP = Bootstrap(200)
QUESTIONS = 12
ROWS = PrefixRows(
    np.linspace(0, 1, 3 * QUESTIONS),
    np.random.default_rng(0).integers(0, 9, 3 * QUESTIONS),
    np.full(3 * QUESTIONS, 8),
    np.tile(np.arange(QUESTIONS), 3),
)
ERROR = ROWS.reward - ROWS.success_rate


class Given(Metric):
    """Returns what it is given."""

    def __init__(self, measured: Any) -> None:
        self.measured = measured

    def measure(self, rows: PrefixRows) -> Any:
        return self.measured


def test_the_forms_of_one_mean_agree() -> None:
    sums, counts = ROWS.totals(ERROR), ROWS.counts
    mean = estimate(row_mean(ERROR, ROWS.question), BOOTSTRAP)
    ratio = estimate(statistic(Given(QuestionRatio(sums, counts)), ROWS), BOOTSTRAP)
    array = estimate(statistic(Given(ERROR), ROWS), BOOTSTRAP)
    assert array.value == mean.value and (array.low, array.high) == (mean.low, mean.high)
    assert ratio.value == pytest.approx(mean.value)
    np.testing.assert_allclose(ratio.replicates, mean.replicates)
    assert (ratio.rows, ratio.questions) == (mean.rows, mean.questions)
    assert (ratio.low, ratio.high) == pytest.approx((mean.low, mean.high))


def test_a_ratio_with_bounds_stays_in_them() -> None:
    counts = np.ones(QUESTIONS)
    found = estimate(statistic(Given(QuestionRatio(counts, counts, bounds=(0, 1))), ROWS), BOOTSTRAP)
    assert found.value == found.high == 1 and 0.5 < found.low < 1


def test_a_resample_without_any_count_has_the_overall_value() -> None:
    counts = np.zeros(QUESTIONS)
    counts[0] = 2.0
    ratio = statistic(Given(QuestionRatio(counts / 4, counts)), ROWS)
    weights = np.ones((2, QUESTIONS))
    weights[0, 0] = 0
    assert ratio.values(weights).tolist() == [0.25, 0.25]


def test_a_metric_that_is_not_defined_has_no_statistic() -> None:
    assert statistic_of(Given(None), ROWS, BOOTSTRAP) is None


def test_a_sum_of_absolute_errors_loses_its_noise_if_asked() -> None:
    sums, counts = ROWS.totals(ERROR), ROWS.counts

    def errors(weights: Any) -> Any:
        return ((weights @ sums) / (weights @ counts))[:, None]

    plain = estimate(statistic(Given(AbsoluteSum(errors)), ROWS, BOOTSTRAP), BOOTSTRAP)
    corrected = estimate(statistic(Given(AbsoluteSum(errors, corrected=True)), ROWS, BOOTSTRAP), BOOTSTRAP)
    assert plain.value == pytest.approx(abs(ERROR.mean()))
    assert 0 <= corrected.low <= corrected.value < plain.value


@pytest.mark.parametrize(
    ("measured", "message"),
    [
        (0.5, "Got float"),
        (ERROR[:5], r"Got the shape \(5,\)"),
        (QuestionRatio(np.ones(QUESTIONS), -np.ones(QUESTIONS)), "counts of a QuestionRatio"),
        (QuestionRatio(np.ones(QUESTIONS), np.zeros(QUESTIONS)), "Return None where"),
        (AbsoluteSum(lambda weights: np.zeros((3, 1))), r"Got \(3, 1\)"),
        (AbsoluteSum(lambda weights: weights * np.nan), "finite numbers for every resample"),
        (AbsoluteSum(lambda weights: weights[:, 0]), r"of shape \(resamples, errors\)"),
    ],
)
def test_another_result_is_an_error_that_says_what_to_return(measured: Any, message: str) -> None:
    with pytest.raises(PluginFailedError, match=message):
        estimate(statistic(Given(measured), ROWS), BOOTSTRAP)
