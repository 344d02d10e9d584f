from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from prmcal.registry.strategies.best_of import best_of_n, pass_at_n
from tests.arrays import Bools, Floats

SCORES = st.sampled_from([0.0, 0.25, 0.5, 1.0, -np.inf, np.nan])


@st.composite
def pools(draw: st.DrawFn) -> tuple[Floats, Bools]:
    shape = (draw(st.integers(1, 3)), draw(st.integers(1, 7)))
    return draw(arrays(np.float64, shape, elements=SCORES)), draw(arrays(np.bool_, shape))


def enumerate_best_of_n(scores: Floats, correct: Bools, n: int) -> float:
    """Enumerate every subset of n samples. Tied best ones are equally likely, and NaN is the worst score."""
    totals = []
    for subset in combinations(range(len(scores)), n):
        read = [i for i in subset if not np.isnan(scores[i])]
        best = [i for i in read if scores[i] == max(scores[j] for j in read)] or list(subset)
        totals.append(np.mean([correct[i] for i in best]))
    return float(np.mean(totals))


@settings(max_examples=80, deadline=None)
@given(pools())
def test_equal_to_enumerating_every_subset(pool: tuple[Floats, Bools]) -> None:
    scores, correct = pool
    size = scores.shape[1]
    counts = np.arange(1, size + 1)
    best, passed = best_of_n(scores, correct, counts), pass_at_n(correct, counts)
    for question in range(len(scores)):
        for n in counts:
            expected = enumerate_best_of_n(scores[question], correct[question], n)
            assert best[question, n - 1] == pytest.approx(expected, abs=1e-14)
            expected = float(np.mean([any(subset) for subset in combinations(correct[question], n)]))
            assert passed[question, n - 1] == pytest.approx(expected, abs=1e-14)


def test_only_the_order_of_the_scores_counts() -> None:
    generator = np.random.default_rng(1)
    logit, correct = generator.normal(size=(5, 64)).astype(np.float32), generator.random((5, 64)) < 0.4
    reward = 1 / (1 + np.exp(-logit.astype(np.float64)))
    counts = [1, 8, 64]
    np.testing.assert_array_equal(best_of_n(logit, correct, counts), best_of_n(reward, correct, counts))


def test_large_pools_are_exact() -> None:
    size, right = 4096, 7
    correct = np.arange(size) < right
    counts = np.array([1, 2, 64, 1000, 4089, 4090, 4096])
    exact = [1 - float(comb(size - right, int(n)) / comb(size, int(n))) if n < 2000 else None for n in counts]
    passed = pass_at_n(correct[None], counts)[0]
    for value, n, expected in zip(passed, counts, exact, strict=True):
        if expected is None:
            expected = 1 - comb(size - right, int(n)) * 10**30 // comb(size, int(n)) / 10**30
        assert value == pytest.approx(expected, rel=1e-12)
    # Right samples with the lowest ranks win only if no others are drawn.
    worst = best_of_n(np.where(correct, 0.0, 1.0)[None], correct[None], np.array([1, 4089, 4090]))[0]
    assert worst[0] == pytest.approx(right / size, rel=1e-13) and worst[1] < 1e-20 and worst[2] == 0


def test_samples_that_were_not_read_rank_below_all() -> None:
    scores = np.array([[np.nan, -np.inf, np.nan]])
    assert best_of_n(scores, [[True, False, True]], [3]) == 0
    assert best_of_n(scores, [[False, True, False]], [2])[0, 0] == pytest.approx(2 / 3)
