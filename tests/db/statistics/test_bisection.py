"""Bisection that tests a condition seldom ends where plain bisection ends."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from prmcal.db.statistics.bisection import bisected

LOW, HIGH = -300.0, 12.0


def plain(ends: NDArray[np.float64], halvings: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    low, high = np.full(len(ends), LOW), np.full(len(ends), HIGH)
    for _ in range(halvings):
        middle = (low + high) / 2
        holds = middle <= ends
        low, high = np.where(holds, middle, low), np.where(holds, high, middle)
    return low, high


@given(
    st.lists(st.tuples(st.floats(LOW, HIGH), st.floats(LOW, HIGH) | st.none()), min_size=1, max_size=6),
    st.integers(1, 50),
    st.sampled_from([1e-12, 1e-3, 50.0]),
)
def test_it_ends_where_plain_bisection_ends_for_any_guess(
    given_ends: list[tuple[float, float | None]], halvings: int, accuracy: float
) -> None:
    ends = np.array([end for end, _ in given_ends])
    guess = np.array([end if other is None else other for end, other in given_ends])
    found = bisected(lambda points: points <= ends, LOW, HIGH, halvings, guess, accuracy)
    np.testing.assert_array_equal(found, plain(ends, halvings))


def test_a_good_guess_spares_the_tests() -> None:
    tests = 0

    def holds(points: NDArray[np.float64]) -> NDArray[np.bool_]:
        nonlocal tests
        tests += 1
        return points <= np.pi

    bisected(holds, LOW, HIGH, 42, np.array([np.pi + 1e-12]), 2e-11)
    assert tests < 6
