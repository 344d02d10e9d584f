"""Spline calibration adds the slope of the smoothed cumulative error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import CubicSpline

from prmcal.errors import InvalidArgumentsError
from prmcal.registry.calibrators.reward import SplineCalibration
from prmcal.registry.plugins import calibrators
from tests.registry.create import create_as


def spline(**arguments: Any) -> SplineCalibration:
    return create_as(SplineCalibration, calibrators, "spline", **arguments)


def test_without_ties_it_is_the_fit_of_the_paper() -> None:
    """The slope at t = i/N of the natural spline with knots at 0, .2, ..., 1 through (i/N, cumulative error)."""
    random = np.random.default_rng(0)
    size = 2000
    reward = np.sort(random.uniform(0.2, 0.8, size))
    n = np.full(size, 8)
    k = random.binomial(n, reward**2)
    shares = np.arange(1, size + 1) / size
    cumulative = np.cumsum(k / n - reward) / size
    basis = CubicSpline(np.linspace(0, 1, 6), np.eye(6), bc_type="natural")
    values = np.linalg.lstsq(basis(shares), cumulative, rcond=None)[0]
    slope = CubicSpline(np.linspace(0, 1, 6), values, bc_type="natural")(shares, 1)
    found = spline().fit(reward, k, n).predict(reward)[:, 0]
    np.testing.assert_allclose(found, reward + slope, atol=2e-3)


@pytest.mark.parametrize("knots", [2, 5])
def test_an_error_that_is_a_spline_is_removed_exactly(knots: int) -> None:
    """Equal steps of t, and labels without noise: n is so large that k/n is the success probability."""
    size, many = 400, 10**12
    curve = CubicSpline(np.linspace(0, 1, knots), [0.0, -0.03, -0.01, 0.02, 0.01][-knots:], bc_type="natural")
    reward = np.linspace(0.35, 0.65, size)
    true = reward + np.diff(curve(np.arange(size + 1) / size)) * size
    n = np.full(size, many)
    fitted = spline(knots=knots).fit(reward, np.round(true * many).astype(np.int64), n)
    assert ((true > 0) & (true < 1)).all()
    np.testing.assert_allclose(fitted.predict(reward)[:, 0], true, atol=1e-8)


def test_an_order_that_is_wrong_is_corrected() -> None:
    random = np.random.default_rng(1)
    reward, n = random.uniform(0, 1, 5000), np.full(5000, 8)
    k = random.binomial(n, 0.8 - 0.6 * reward)
    found = spline().fit(reward, k, n).predict(np.array([0.1, 0.5, 0.9]))[:, 0]
    np.testing.assert_allclose(found, [0.74, 0.5, 0.26], atol=0.04)


@given(st.lists(st.integers(0, 8), min_size=1, max_size=30), st.floats(0, 1))
def test_one_reward_gets_the_pooled_success_rate(k: list[int], reward: float) -> None:
    n = np.full(len(k), 8)
    fitted = spline().fit(np.full(len(k), reward), np.array(k), n)
    np.testing.assert_allclose(fitted.predict(np.array([0.0, reward, 1.0])), sum(k) / n.sum(), atol=1e-9)


def test_less_than_two_knots_are_refused() -> None:
    with pytest.raises(
        InvalidArgumentsError, match=r"'knots' parameter of the .* greater than or equal to 2. Got 1"
    ):
        spline(knots=1)
