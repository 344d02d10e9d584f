"""The distributions that heads predict: Beta distributions, mixtures of them, weighted points and monotone networks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, betabinom

from prmcal.registry.calibrators.beta_regression import beta_quantiles, negative_log_likelihood
from prmcal.registry.calibrators.ensemble import beta_mixture_quantiles, weighted_quantiles
from prmcal.registry.calibrators.networks import INTERVALS, MonotoneNetwork

SEEDS = st.integers(0, 2**32 - 1)
LEVELS = [0.02, 0.1, 0.25, 0.5, 0.9, 0.99]


@given(SEEDS, st.floats(1e-3, 100))
def test_the_likelihood_is_that_of_the_beta_binomial_distribution(seed: int, size: float) -> None:
    random = np.random.default_rng(seed)
    mean, n = random.uniform(0.01, 0.99, 6), random.integers(1, 17, 6)
    k = random.binomial(n, mean)
    found = negative_log_likelihood(mean, np.full(6, size), k, n)
    without = betabinom.logpmf(k, n, mean * size + 1e-6, (1 - mean) * size + 1e-6)
    choose = betabinom.logpmf(k, n, 1, 1) + negative_log_likelihood(np.full(6, 0.5), np.full(6, 2.0), k, n)
    np.testing.assert_allclose(-found + choose, without, atol=1e-4)


@given(SEEDS)
def test_quantiles_of_a_beta_distribution(seed: int) -> None:
    random = np.random.default_rng(seed)
    mean, size = random.uniform(0.05, 0.95, 5), random.uniform(0.5, 50, 5)
    expected = beta.ppf(np.array(LEVELS)[None], (mean * size)[:, None], ((1 - mean) * size)[:, None])
    np.testing.assert_allclose(beta_quantiles(mean, size, LEVELS), expected, atol=1e-4)


@pytest.mark.parametrize("size", [1e-4, 1e-2, 1.0, 1e3, 1e6])
def test_quantiles_at_the_ends_of_the_scale_are_ordered_numbers_in_range(size: float) -> None:
    mean = np.array([0.0, 1e-300, 1e-9, 0.3, 0.7, 1 - 1e-12, 1.0])
    found = beta_quantiles(mean, np.full(7, size), LEVELS)
    assert np.isfinite(found).all() and ((found >= 0) & (found <= 1)).all()
    assert (np.diff(found, axis=1) >= 0).all() and (np.diff(found, axis=0) >= -1e-12).all()


def test_quantiles_next_to_zero_do_not_cross() -> None:
    # SciPy computes 2e-308, 2e-308 and then 0.
    found = beta_quantiles(np.array([1e-4]), np.array([1.4773776525985127]), (0.1, 0.5, 0.9))
    assert (np.diff(found, axis=1) >= 0).all()


@given(SEEDS, st.integers(1, 8))
def test_weighted_quantiles_rise_within_the_points(seed: int, points: int) -> None:
    random = np.random.default_rng(seed)
    values, weights = random.random((4, points)), random.dirichlet(np.ones(points), 4)
    found = weighted_quantiles(values, weights, LEVELS)
    assert (np.diff(found, axis=1) >= 0).all()
    assert (found >= values.min(1, keepdims=True)).all() and (found <= values.max(1, keepdims=True)).all()
    # A point of weight w is the same as two points of weight w/2, up to the interpolation between the two.
    order = random.permutation(points)
    np.testing.assert_array_equal(weighted_quantiles(values[:, order], weights[:, order], LEVELS), found)


@given(SEEDS, st.floats(3, 100))
def test_the_share_of_a_mixture_below_its_quantile_is_the_level(seed: int, size: float) -> None:
    random = np.random.default_rng(seed)
    means, weights = random.uniform(0.1, 0.9, (3, 4)), random.dirichlet(np.ones(4), 3)
    found = beta_mixture_quantiles(means, weights, size, LEVELS)
    below = beta.cdf(found[:, :, None], (means * size)[:, None], ((1 - means) * size)[:, None])
    np.testing.assert_allclose((below * weights[:, None]).sum(2), np.tile(LEVELS, (3, 1)), atol=1e-3)
    one = beta_mixture_quantiles(means[:, :1], np.ones((3, 1)), size, LEVELS)
    np.testing.assert_allclose(one, beta_quantiles(means[:, 0], np.full(3, size), LEVELS), atol=1e-6)


@given(SEEDS)
def test_a_monotone_network_rises_for_all_weights_and_inputs(seed: int) -> None:
    torch.manual_seed(seed)
    network = MonotoneNetwork(3, 5)
    with torch.no_grad():
        for weights in network.parameters():
            weights.copy_(3 * torch.randn_like(weights))
        knots = network(10 * torch.randn(7, 3))
    assert knots.shape == (7, INTERVALS + 1)
    assert (knots.diff(dim=1) >= 0).all()
