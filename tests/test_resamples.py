"""Sums under the weights of a bootstrap, against exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prmcal.db.statistics.bootstrap import Bootstrap
from prmcal.resamples import weighted_totals


@given(
    st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=20).map(np.array),
    st.integers(0, 2**32 - 1),
)
def test_sums_are_those_of_exact_arithmetic(totals: np.ndarray, seed: int) -> None:
    weights = Bootstrap(10, seed=seed).weights(len(totals))
    largest = Fraction(float(np.abs(totals).max()))
    for row, found in zip(weights.tolist(), weighted_totals(weights, totals).tolist(), strict=True):
        exact = sum(
            (Fraction(weight) * Fraction(total) for weight, total in zip(row, totals.tolist(), strict=True)),
            Fraction(0),
        )
        rounding = abs(exact) / 2**52 + largest / 2**85 + Fraction(1, 2**900)
        assert abs(Fraction(found) - exact) <= rounding


def test_sums_do_not_depend_on_the_order_of_the_questions() -> None:
    random = np.random.default_rng(0)
    totals = random.normal(size=(300, 7)) * np.exp(random.normal(0, 5, 7))
    weights = Bootstrap(200, seed=1).weights(300)
    order = random.permutation(300)
    found = weighted_totals(weights, totals)
    np.testing.assert_array_equal(weighted_totals(weights[:, order], totals[order]), found)
    plain = np.einsum("rq,qk->rk", weights[:, order], totals[order])
    assert not np.array_equal(plain, found), "Plain sums depend on it, so this test could not fail."


@pytest.mark.parametrize("shape", [(), (3,), (2, 4), (0,)])
def test_totals_may_have_any_shape(shape: tuple[int, ...]) -> None:
    totals = np.random.default_rng(2).normal(size=(5, *shape))
    weights = np.array([[1.0, 1, 1, 1, 1], [0, 2, 0, 0, 3]])
    expected = np.stack([totals.sum(axis=0), 2 * totals[1] + 3 * totals[4]])
    np.testing.assert_allclose(weighted_totals(weights, totals), expected, rtol=1e-14)


def test_what_is_not_finite_stays_so() -> None:
    found = weighted_totals(np.ones((1, 2)), np.array([[1.0, np.inf, np.nan], [2.0, 1.0, 1.0]]))
    assert found[0, 0] == 3.0 and not np.isfinite(found[0, 1:]).any()
