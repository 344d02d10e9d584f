"""The calibration error with and without the noise of its bins, where the truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit
from scipy.stats import norm as normal
from scipy.stats import t as student

from prmcal.db.statistics.bootstrap import Bootstrap, estimate
from prmcal.db.statistics.intervals import absolute_sum_interval, without_noise
from prmcal.registry.contracts.metric import PrefixRows
from tests.measured import statistic, value

QUESTIONS, FOLLOW_UPS = 60, 8


def calibrated(seed: int, shift: float = 0.0) -> PrefixRows:
    """Rewards that are the expectation of p, except for a shift of the log-odds. Questions share a part of p."""
    random = np.random.default_rng(seed)
    question = np.repeat(np.arange(QUESTIONS), 1 + random.binomial(10, random.beta(2, 2, QUESTIONS)))
    expected = np.clip(expit(random.normal(0.5, 1.5, len(question))), 0.02, 0.98)
    spread = np.minimum(expected, 1 - expected)
    p = expected + 0.7 * spread * random.choice([-1, 1], QUESTIONS)[question]
    n = np.full(len(p), FOLLOW_UPS)
    return PrefixRows(expit(logit(expected) + shift), random.binomial(n, p), n, question)


def test_noise_is_no_calibration_error() -> None:
    plain, corrected, covered = [], [], 0
    for seed in range(100):
        bootstrap, rows = Bootstrap(200, seed), calibrated(seed)
        with_noise, found = (
            estimate(statistic(each, rows, bootstrap), bootstrap) for each in ("adaptive_ce", "adaptive_ce_corrected")
        )
        assert with_noise.low <= with_noise.value <= with_noise.high
        assert 0 <= found.low <= found.value <= min(found.high, with_noise.value)
        plain.append(with_noise.value)
        corrected.append(found.value)
        covered += found.low == 0
    assert np.mean(corrected) < 0.5 * np.mean(plain)
    # Of 100; 97.5 are expected, and a plain interval of percentiles would never contain 0.
    assert covered >= 90


def test_a_large_error_stays_and_its_interval_contains_the_truth() -> None:
    rows = [calibrated(seed, shift=2.0) for seed in range(100)]
    truth = np.mean([value("adaptive_ce", each) for each in rows])  # All bins have errors far above the noise.
    bootstrap = Bootstrap(200)
    found = [estimate(statistic("adaptive_ce_corrected", each, bootstrap), bootstrap) for each in rows]
    assert np.mean([each.value for each in found]) == pytest.approx(truth, abs=0.01)
    assert sum(each.low <= truth <= each.high for each in found) >= 87


def test_the_estimate_is_unbiased_far_from_zero_and_nearly_at_zero() -> None:
    random = np.random.default_rng(0)
    for size, bias in ((0.0, 0.234), (1.0, -0.272), (5.0, 0.0)):
        measured = size + random.normal(size=(200_000, 1))
        assert np.mean(without_noise(measured, np.ones(1)) - size) == pytest.approx(bias, abs=0.01)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.sampled_from([-0.2, 0.0, 1e-9, 0.05]), min_size=1, max_size=6),
    st.lists(st.sampled_from([0.0, 1e-12, 0.01, 0.3]), min_size=6, max_size=6),
    st.integers(2, 200),
)
def test_the_ends_are_in_order_for_any_noise(terms: list[float], noise: list[float], questions: int) -> None:
    given = np.array(terms)
    drawn = given + np.random.default_rng(1).normal(size=(100, len(terms))) * noise[: len(terms)]
    low, high = absolute_sum_interval(given, drawn, questions)
    assert 0 <= low <= np.abs(given).sum() * (1 + 1e-9)
    assert low <= high * (1 + 1e-9)
    if not np.ptp(drawn):
        assert low == pytest.approx(high)


@pytest.mark.parametrize("seed", range(6))
def test_the_lower_end_adds_enough_noise_in_a_fortieth_of_all_resamples(seed: int) -> None:
    """Every resample is looked at here, for every step of the search."""
    random = np.random.default_rng(seed)
    terms = random.normal(0, 0.05, 8)
    drawn = terms + random.normal(0, random.uniform(0.001, 0.05, 8), (400, 8))
    low, _ = absolute_sum_interval(terms, drawn, 30)
    size, tail = np.abs(terms), student.ppf(0.025, 29) / normal.ppf(0.025)
    variance = (drawn.std(axis=0) * np.sqrt(30 / 29)) ** 2
    noise = (drawn.mean(axis=0) - drawn) * np.sqrt(30 / 29) * tail

    def reaching(step: float) -> float:
        moved = np.sign(terms) * np.maximum(size - step * variance, 0)
        return float((np.abs(moved + noise).sum(axis=1) >= size.sum() * (1 - 1e-12)).mean())

    steps = np.linspace(0, float((size / variance).max()), 10_001)
    last = max(step for step in steps if reaching(step) >= 0.025)
    expected = np.maximum(size - last * variance, 0).sum()
    assert low == pytest.approx(expected, abs=2 * float((variance * steps[1]).sum()))


def test_one_question_has_no_noise_to_remove() -> None:
    rows = PrefixRows(np.array([0.2, 0.9]), np.array([4, 4]), np.array([8, 8]), np.zeros(2, dtype=int))
    found = estimate(statistic("adaptive_ce_corrected", rows, Bootstrap(10)), Bootstrap(10))
    assert found.value == value("adaptive_ce", rows) and np.isnan(found.low)
