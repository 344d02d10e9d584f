"""The score of the law of k: it finds the true quantiles of p where the pinball loss does not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, betabinom, binom

from prmcal.registry.contracts.metric import PrefixRows
from prmcal.registry.metrics.laws import implied_law
from tests.arrays import Floats
from tests.measured import value

LEVELS = (0.1, 0.5, 0.9)
SHARES = st.floats(0, 1).map(lambda share: round(share, 6))  # SciPy overflows for the smallest numbers.


@settings(max_examples=60, deadline=None)
@given(st.lists(SHARES, min_size=3, max_size=3).map(sorted), st.integers(1, 20))
def test_the_law_is_the_mixture_of_the_quantile_function(quantiles: list[float], follow_ups: int) -> None:
    law = implied_law(np.array([quantiles]), LEVELS, follow_ups)[0]
    assert law.sum() == pytest.approx(1) and law.min() >= -1e-12
    u = (np.arange(20_000) + 0.5) / 20_000
    p = np.interp(u, [0, *LEVELS, 1], [0, *quantiles, 1])
    expected = binom.pmf(np.arange(follow_ups + 1), follow_ups, p[:, None]).mean(axis=0)
    np.testing.assert_allclose(law, expected, atol=2e-4)


def test_a_point_estimate_is_a_binomial_law() -> None:
    law = implied_law(np.array([[0.3], [1.0]]), (0.5,), 8)
    np.testing.assert_allclose(law, binom.pmf(np.arange(9), 8, [[0.3], [1.0]]), atol=1e-12)


def test_uniform_quantiles_make_every_count_as_likely() -> None:
    np.testing.assert_allclose(implied_law(np.array([LEVELS]), LEVELS, 8), np.full((1, 9), 1 / 9), atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(SHARES, st.integers(0, 4)), min_size=1, max_size=6))
def test_the_score_is_the_sum_over_counts(prefixes: list[tuple[float, int]]) -> None:
    reward, k = np.array([r for r, _ in prefixes]), np.array([k for _, k in prefixes])
    rows = PrefixRows(reward, k, np.full(len(k), 4), np.arange(len(k)))
    expected = [np.mean([(binom.cdf(j, 4, r) - (own <= j)) ** 2 for j in range(4)]) for r, own in prefixes]
    assert value("law_score", rows) == pytest.approx(np.mean(expected), abs=1e-9)


def pinball(quantile: float, level: float, y: Floats) -> float:
    return float(np.mean(np.where(y >= quantile, level * (y - quantile), (1 - level) * (quantile - y))))


def test_the_true_quantiles_win_where_the_pinball_loss_prefers_those_of_the_success_rate() -> None:
    random, n = np.random.default_rng(0), 8
    p = random.beta(2, 3, 100_000)
    k = random.binomial(n, p)
    of_p, of_rate = beta.ppf(LEVELS, 2, 3), betabinom.ppf(LEVELS, n, 2, 3) / n

    def scored(quantiles: Floats) -> float:
        repeated = np.tile(quantiles, (len(k), 1))
        full, terminal = np.full(len(k), n), np.zeros(len(k), dtype=bool)
        return value(
            "law_score", PrefixRows(repeated[:, 1], k, full, np.arange(len(k)), terminal, LEVELS, repeated)
        )

    assert scored(of_p) < scored(of_rate) - 5e-4
    for level, true, other in zip(LEVELS, of_p, of_rate, strict=True):
        assert pinball(true, level, k / n) > pinball(other, level, k / n)
    point = PrefixRows(np.full(len(k), of_p[1]), k, np.full(len(k), n), np.arange(len(k)))
    assert value("law_score", point) > scored(of_p) + 0.005


def test_prefixes_with_other_numbers_of_follow_ups_count_the_same() -> None:
    both = PrefixRows(np.array([0.5, 0.5]), np.array([1, 3]), np.array([2, 4]), np.arange(2))
    alone = [
        PrefixRows(np.array([0.5]), np.array([k]), np.array([n]), np.arange(1)) for k, n in ((1, 2), (3, 4))
    ]
    assert value("law_score", both) == pytest.approx(np.mean([value("law_score", each) for each in alone]))


@pytest.mark.parametrize("quantile", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("follow_ups", [1, 8, 1000, 1500])
def test_a_point_estimate_implies_the_binomial_distribution(quantile: float, follow_ups: int) -> None:
    law = implied_law(np.array([[quantile]]), (0.5,), follow_ups)[0]
    expected = binom.pmf(np.arange(follow_ups + 1), follow_ups, quantile)
    np.testing.assert_allclose(law, expected, rtol=1e-10, atol=1e-15)
