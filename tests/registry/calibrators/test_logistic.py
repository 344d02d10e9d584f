"""Platt scaling and beta calibration are the most likely maps of their families."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from prmcal.registry.calibrators.logit import Beta, Platt
from tests.arrays import Floats, Ints

PAIRS = st.lists(st.tuples(st.floats(-30, 30), st.integers(0, 4)), min_size=1, max_size=20)
SHIFTS = (-0.3, -1e-2, 1e-2, 0.3)


def platt() -> Platt:
    return Platt(logit=True)


def beta() -> Beta:
    return Beta(logit=True)


def likelihood(log_odds: Floats, k: Ints, n: Ints) -> float:
    return float(-np.sum(k * np.logaddexp(0, -log_odds) + (n - k) * np.logaddexp(0, log_odds)))


def pulled(log_odds: Floats, k: Ints, n: Ints, away: Sequence[float]) -> float:
    """Return what a fit makes largest: the likelihood, less the weak pull towards the map that changes nothing."""
    return likelihood(log_odds, k, n) - 1e-6 * float(np.sum(np.square(away)))


def counts(size: int, seed: int, slope: float, offset: float) -> tuple[Floats, Ints, Ints]:
    random = np.random.default_rng(seed)
    logits = random.normal(0.0, 2.0, size)
    n = random.integers(1, 17, size)
    return logits, random.binomial(n, expit(slope * logits + offset)), n


def twice(inputs: Floats, k: Ints, n: Ints) -> LogisticRegression:
    """Logistic regression of scikit-learn, which takes one label for each row."""
    regression = LogisticRegression(C=np.inf, tol=1e-12, max_iter=10_000, fit_intercept=False)
    return regression.fit(
        np.concatenate([inputs, inputs]), np.repeat([1, 0], len(k)), sample_weight=np.concatenate([k, n - k])
    )


def test_platt_is_logistic_regression_and_finds_slope_and_offset() -> None:
    logits, k, n = counts(4000, 0, 0.4, -1.3)
    fitted = platt().fit(logits, k, n)
    assert (fitted.slope_, fitted.offset_) == pytest.approx((0.4, -1.3), abs=0.05)
    peer = twice(np.stack([logits, np.ones_like(logits)], axis=1), k, n)
    np.testing.assert_allclose([fitted.slope_, fitted.offset_], peer.coef_[0], rtol=1e-5)


@given(PAIRS)
def test_no_slope_above_0_and_offset_is_likelier(rows: list[tuple[float, int]]) -> None:
    logits, k = (np.array(each) for each in zip(*rows, strict=True))
    n = np.full(len(k), 4)
    fitted = platt().fit(logits, k, n)

    def at(slope: float, offset: float) -> float:
        return pulled(slope * logits + offset, k, n, (slope - 1, offset))

    found = at(fitted.slope_, fitted.offset_)
    for slope in (0.0, *SHIFTS):
        for offset in SHIFTS:
            assert at(max(fitted.slope_ + slope, 0.0), fitted.offset_ + offset) <= found + 1e-6


def test_reversed_scores_give_a_constant() -> None:
    logits, k, n = counts(2000, 1, -0.5, 0.2)
    curve, fitted = platt().fit(logits, k, n), beta().fit(logits, k, n)
    assert (curve.slope_, fitted.a_, fitted.b_) == (0.0, 0.0, 0.0)
    for each in (curve, fitted):
        np.testing.assert_allclose(each.predict(np.array([-9.0, 9.0])), k.sum() / n.sum(), rtol=1e-6)


@pytest.mark.parametrize("right", [0, 8])
@pytest.mark.parametrize("calibrator", [platt, beta])
def test_equal_labels_keep_the_order_of_the_scores(calibrator: Any, right: int) -> None:
    logits = np.random.default_rng(right).normal(2, 2, 60)
    fitted = calibrator().fit(logits, np.full(60, right), np.full(60, 8))
    rewards = fitted.predict(np.linspace(-50, 20, 15))
    assert (np.diff(rewards) >= 0).all()
    assert rewards[-1 if right else 0] == pytest.approx(right / 8, abs=1e-3)


@pytest.mark.parametrize("a", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("b", [0.0, 1.0])
def test_beta_finds_the_map_of_its_family(a: float, b: float) -> None:
    random = np.random.default_rng(2)
    reward = random.uniform(0.01, 0.99, 4000)
    n = np.full(4000, 16)
    true = expit(a * np.log(reward) - b * np.log(1 - reward) - 0.2)
    fitted = beta().fit(logit(reward), random.binomial(n, true), n)
    assert (fitted.a_, fitted.b_) == pytest.approx((a, b), abs=0.06)
    np.testing.assert_allclose(fitted.predict(logit(reward)), true, atol=0.02)


def test_beta_agrees_with_betacal() -> None:
    """Beta('abm') of betacal 1.1.0, which stops early: its a is .9453 where the likeliest is .9450."""
    reward = np.array([0.05, 0.1, 0.2, 0.3, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.97])
    k = np.array([0, 0, 1, 0, 0, 1, 0, 1, 1, 0, 1, 1])
    fitted = beta().fit(logit(reward), k, np.ones(12, dtype=int))
    new = fitted.predict(logit(np.array([0.02, 0.25, 0.5, 0.65, 0.99])))
    np.testing.assert_allclose(new, [0.034847, 0.303569, 0.495419, 0.590887, 0.894772], atol=2e-4)


@given(PAIRS)
@example([(0.0, 0), (0.0, 0), (0.0, 0), (1 / 256, 4)])
@example(
    [(-1.0, 0), (-1.0, 1), (-1.0, 4)]
)  # Equal logits leave a valley, in which the optimiser stops 1.1e-6 too early.
def test_no_map_with_weights_from_0_is_likelier(rows: list[tuple[float, int]]) -> None:
    logits, k = (np.array(each) for each in zip(*rows, strict=True))
    n = np.full(len(k), 4)
    fitted = beta().fit(logits, k, n)
    assert fitted.a_ >= 0 and fitted.b_ >= 0
    assert (np.diff(fitted.predict(np.linspace(-40, 40, 99))) >= 0).all()
    rises, falls = -np.logaddexp(0, -logits), np.logaddexp(0, logits)

    def at(a: float, b: float, c: float) -> float:
        return pulled(a * rises + b * falls + c, k, n, (a - 1, b - 1, c))

    found = at(fitted.a_, fitted.b_, fitted.c_)
    for a in (0.0, *SHIFTS):
        for b in (0.0, *SHIFTS):
            for c in SHIFTS:
                other = at(max(fitted.a_ + a, 0), max(fitted.b_ + b, 0), fitted.c_ + c)
                assert other <= found + 1e-5


def test_rewards_that_round_to_0_and_1_are_told_apart() -> None:
    logits = np.array([-60.0, -45.0, 45.0, 60.0])
    fitted = beta().fit(logits, np.array([0, 2, 6, 8]), np.full(4, 8))
    assert (np.diff(fitted.predict(logits)) > 0.05).all()
