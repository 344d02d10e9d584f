"""Venn-Abers prediction is isotonic regression with one more outcome, for both outcomes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from prmcal.registry.calibrators.reward import VennAbers
from prmcal.registry.plugins import calibrators
from tests.registry.create import create_as

ROWS = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 6), st.floats(0, 1)), min_size=1, max_size=15)


def venn_abers() -> VennAbers:
    return create_as(VennAbers, calibrators, "venn-abers")


@given(ROWS)
def test_the_pairs_are_isotonic_fits_with_one_more_outcome(rows: list[tuple[int, int, float]]) -> None:
    reward, n = np.array([each[0] for each in rows]) / 12, np.array([each[1] for each in rows])
    k = np.round(n * np.array([each[2] for each in rows])).astype(np.int64)
    new = np.arange(-1, 26) / 24
    new = new[(new >= 0) & (new <= 1)]
    pairs = venn_abers().fit(reward, k, n).pairs(new)
    for outcome in (0, 1):
        expected = [
            IsotonicRegression()
            .fit(np.append(reward, at), np.append(k / n, outcome), sample_weight=np.append(n, 1))
            .predict([at])[0]
            for at in new
        ]
        np.testing.assert_allclose(pairs[:, outcome], expected, atol=1e-12)


@given(ROWS)
def test_the_reward_lies_between_the_pair_and_rises(rows: list[tuple[int, int, float]]) -> None:
    reward, n = np.array([each[0] for each in rows]) / 12, np.array([each[1] for each in rows])
    k = np.round(n * np.array([each[2] for each in rows])).astype(np.int64)
    fitted, new = venn_abers().fit(reward, k, n), np.linspace(0, 1, 49)
    (failed, succeeded), point = fitted.pairs(new).T, fitted.predict(new)[:, 0]
    assert (failed <= point + 1e-12).all() and (point <= succeeded + 1e-12).all()
    assert (np.diff(point) >= -1e-12).all()
    assert ((point > 0) & (point < 1)).all()


def test_it_agrees_with_the_package() -> None:
    """VennAbers().predict_proba of venn-abers 1.5.4."""
    reward = np.array([0.05, 0.1, 0.2, 0.3, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.97])
    k = np.array([0, 0, 1, 0, 0, 1, 0, 1, 1, 0, 1, 1])
    fitted = venn_abers().fit(reward, k, np.ones(12, dtype=int))
    new = np.array([0.02, 0.25, 0.5, 0.65, 0.99])
    expected = [[0, 1 / 3], [0.25, 0.5], [1 / 3, 2 / 3], [1 / 3, 0.75], [2 / 3, 1]]
    np.testing.assert_allclose(fitted.pairs(new), expected, atol=1e-12)
    np.testing.assert_allclose(fitted.predict(new)[:, 0], [0.25, 0.4, 0.5, 9 / 17, 0.75], atol=1e-12)


def test_much_data_is_isotonic_regression() -> None:
    random = np.random.default_rng(0)
    reward, n = random.uniform(0, 1, 20_000), np.full(20_000, 16)
    k = random.binomial(n, 0.2 + 0.6 * reward)
    new = np.linspace(0.1, 0.9, 99)
    isotonic = calibrators.create("isotonic").fit(reward, k, n).predict(new)
    np.testing.assert_allclose(venn_abers().fit(reward, k, n).predict(new), isotonic, atol=0.01)
