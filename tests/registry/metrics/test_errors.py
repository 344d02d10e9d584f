"""The squared and the smooth calibration error, where the truth is known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.stats import norm

from prmcal.db.statistics.bootstrap import Bootstrap, estimate
from prmcal.registry.contracts.metric import PrefixRows
from prmcal.registry.metrics.bins import equal_width
from prmcal.registry.metrics.smooth_ce import _fixed_point as fixed_point
from prmcal.registry.metrics.smooth_ce import _high_quantile as high_quantile
from prmcal.registry.plugins import metrics
from tests.measured import statistic, value
from tests.registry.metrics.worlds import any_rows, clustered


def pairs_of_questions(rows: PrefixRows, bins: int) -> float | None:
    """The squared error by all pairs of prefixes of different questions."""
    index, error = equal_width(rows.reward, bins), rows.reward - rows.success_rate
    squares, shares = [], []
    for each in range(bins):
        own = np.flatnonzero(index == each)
        products = [
            error[i] * error[j]
            for i, j in itertools.permutations(own, 2)
            if rows.question_index[i] != rows.question_index[j]
        ]
        if products:
            squares.append(np.mean(products))
            shares.append(len(own))
    return float(np.average(squares, weights=shares)) if squares else None


@settings(max_examples=80, deadline=None)
@given(any_rows(15))
def test_the_squared_error_is_the_mean_over_pairs_of_different_questions(rows: PrefixRows) -> None:
    expected = pairs_of_questions(rows, 4)
    if expected is None:
        assert metrics.create("squared_ce", bins=4).measure(rows) is None
    else:
        assert value("squared_ce", rows, bins=4) == pytest.approx(expected, abs=1e-12)


def test_a_question_that_is_drawn_twice_is_no_pair() -> None:
    rows = PrefixRows(np.array([0.2, 0.2, 0.2]), np.array([8, 0, 4]), np.full(3, 8), np.arange(3))
    found = statistic("squared_ce", rows, bins=1).values(np.array([[2.0, 1.0, 0.0]]))[0]
    assert found == pytest.approx((0.2 - 1.0) * 0.2)
    assert statistic("squared_ce", rows, bins=1).values(np.array([[3.0, 0.0, 0.0]]))[0] == 0


def test_noise_adds_nothing_to_the_squared_error_and_much_to_that_of_means() -> None:
    """Also the noise that prefixes of one question share, and for success rates instead of labels."""
    found, plain = [], []
    for seed in range(300):
        rows, _ = clustered(60, seed)
        index, error = equal_width(rows.reward, 10), rows.reward - rows.success_rate
        sums, counts = (
            np.bincount(index, weights=each, minlength=10) for each in (error, np.ones(len(error)))
        )
        plain.append(float((sums**2 / np.maximum(counts, 1)).sum() / len(error)))
        found.append(value("squared_ce", rows))
    standard_error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found)) < 3.5 * standard_error
    assert np.mean(plain) > 10 * standard_error
    assert min(found) < 0  # It is not clipped.


def test_intervals_of_a_real_squared_error_contain_it() -> None:
    truth = value("squared_ce", clustered(20_000, 10**6, shift=1.0)[0])
    covered = 0
    for seed in range(100):
        found = estimate(statistic("squared_ce", clustered(100, seed, shift=1.0)[0]), Bootstrap(200, seed))
        covered += found.low <= truth <= found.high
    assert covered >= 87


def smoothed_error(rows: PrefixRows, scale: float) -> float:
    """The integral of the smoothed residuals by the kernel itself, with reflections at 0 and 1."""
    t = (np.arange(2000) + 0.5) / 2000
    images = [rows.reward + shift for shift in (-2, 0, 2)] + [-rows.reward + shift for shift in (-2, 0, 2)]
    kernel = sum(norm.pdf(t[:, None], each[None, :], scale) for each in images)
    residuals = np.einsum("tr,r->t", kernel, rows.reward - rows.success_rate) / len(rows.reward)
    return float(np.abs(residuals).mean())


@pytest.mark.parametrize("shift", [0.3, 1.0, -2.0])
def test_the_smooth_error_is_the_fixed_point_of_the_kernel(shift: float) -> None:
    rows, _ = clustered(60, 5, shift=shift)
    found = value("smooth_ce", rows)
    assert found == pytest.approx(smoothed_error(rows, found), abs=0.002)


def test_the_smooth_error_of_equal_rewards_is_their_bias() -> None:
    """A single reward is smoothed as a whole, so the integral is the mean error at every scale."""
    rows = PrefixRows(np.full(8, 0.4), np.full(8, 6), np.full(8, 8), np.arange(8))
    assert value("smooth_ce", rows) == pytest.approx(0.35, abs=1e-5)
    perfect = PrefixRows(np.array([0.25, 0.75]), np.array([2, 6]), np.array([8, 8]), np.arange(2))
    assert value("smooth_ce", perfect) == pytest.approx(0, abs=1e-5)


def test_a_calibrated_predictor_is_above_its_null_in_a_twentieth_of_cases() -> None:
    above = 0
    for seed in range(200):
        rows, _ = clustered(40, seed, spread=0.0)
        above += value("smooth_ce", rows) > value("smooth_ce_null", rows)
    assert 1 <= above <= 22


@pytest.mark.parametrize("factor", [0.0, 0.2, 1.0, 5.0])
def test_a_quantile_is_that_of_all_rows_also_if_the_first_ones_are_unlike_the_others(factor: float) -> None:
    series = np.random.default_rng(3).normal(size=(400, 256)) / np.arange(1, 257) / 100
    series[:150] *= factor
    for level in (0.9, 0.95, 0.99):
        assert high_quantile(series, level) == pytest.approx(
            np.quantile(fixed_point(series), level), abs=1e-5
        )


def test_an_error_is_above_the_null_which_is_known_without_uncertainty() -> None:
    rows, _ = clustered(60, 6, shift=1.0)
    null = estimate(statistic("smooth_ce_null", rows), Bootstrap(50))
    assert null.low == null.value == null.high and (null.replicates == null.value).all()
    found = estimate(statistic("smooth_ce", rows), Bootstrap(200))
    assert null.value < found.low < found.value < found.high
