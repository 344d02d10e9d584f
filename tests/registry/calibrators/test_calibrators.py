from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike
from scipy.special import expit, logit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from prmcal.errors import DataError, PluginFailedError
from prmcal.registry.calibrators.logit import Temperature
from prmcal.registry.calibrators.reward import Histogram
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.plugins import calibrators
from tests.arrays import Floats, Ints
from tests.registry.create import create_as

ALL: list[tuple[str, dict[str, Any]]] = [
    ("uncalibrated", {}),
    ("temperature", {}),
    ("temperature", {"loss": "brier"}),
    ("isotonic", {}),
    ("histogram", {}),
    ("histogram", {"bins": 15, "strategy": "quantile"}),
    ("platt", {}),
    ("beta", {}),
]
LEARNING = ALL[1:]


def ids(value: str | dict[str, Any]) -> str:
    return value if isinstance(value, str) else "-".join(map(str, value.values()))


def overconfident(size: int, seed: int, scale: float = 3.0) -> tuple[Floats, Ints, Ints]:
    """Logits that are `scale` times too large, and k successes of 2 to 16 follow-ups."""
    generator = np.random.default_rng(seed)
    true = generator.normal(0.0, 1.0, size)
    n = generator.integers(2, 17, size)
    return scale * true, generator.binomial(n, expit(true)), n


def features(calibrator: Calibrator, logits: Floats) -> Floats:
    return logits if calibrator.reads == "logit" else expit(logits)


def log_loss(reward: Floats, k: Ints, n: Ints) -> float:
    reward = np.clip(reward, 1e-6, 1 - 1e-6)
    return float(-np.sum(k * np.log(reward) + (n - k) * np.log(1 - reward)) / np.sum(n))


@pytest.mark.parametrize(("name", "arguments"), LEARNING, ids=ids)
def test_overconfident_scores_are_repaired_on_new_prefixes(name: str, arguments: dict[str, Any]) -> None:
    calibrator = calibrators.create(name, **arguments)
    logits, k, n = overconfident(3000, 0)
    calibrator.fit_features(features(calibrator, logits), k, n)
    logits, k, n = overconfident(3000, 1)
    before = log_loss(expit(logits), k, n)
    after = log_loss(calibrator.predict_at(features(calibrator, logits), [0.5])[:, 0], k, n)
    best = log_loss(expit(logits / 3), k, n)
    assert before - after > 0.95 * (before - best)


@pytest.mark.parametrize(("name", "arguments"), ALL, ids=ids)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_data_gives_rewards_in_range(name: str, arguments: dict[str, Any], data: st.DataObject) -> None:
    calibrator = calibrators.create(name, **arguments)
    size = data.draw(st.integers(1, 12))
    logits = np.array(
        data.draw(st.lists(st.sampled_from([-90.0, -2.0, 0.0, 1e-9, 0.5, 40.0]), min_size=size, max_size=size))
    )
    n = np.array(data.draw(st.lists(st.integers(1, 8), min_size=size, max_size=size)))
    kind = data.draw(st.sampled_from(["all right", "all wrong", "any"]))
    draw_k = {"all right": lambda m: m, "all wrong": lambda m: 0}.get(kind, lambda m: data.draw(st.integers(0, m)))
    k = np.array([draw_k(int(m)) for m in n])
    calibrator.fit_features(features(calibrator, logits), k, n)
    predicted = calibrator.predict_at(features(calibrator, np.append(logits, [-700.0, 700.0, 0.1])), [0.5])
    assert predicted.shape == (size + 3, 1)
    assert ((predicted >= 0) & (predicted <= 1)).all()


@pytest.mark.parametrize(("name", "arguments"), LEARNING, ids=ids)
def test_follow_ups_are_the_weights(name: str, arguments: dict[str, Any]) -> None:
    """k of n has the same effect as n prefixes with the same score and one follow-up each."""
    calibrator = calibrators.create(name, **arguments)
    logits, k, n = overconfident(200, 8)
    new = features(calibrator, np.linspace(-8, 8, 101))
    counted = calibrator.fit_features(features(calibrator, logits), k, n).predict_at(new, [0.5])
    single = np.concatenate([np.arange(m) < successes for successes, m in zip(k, n, strict=True)]).astype(int)
    calibrator.fit_features(features(calibrator, np.repeat(logits, n)), single, np.ones(n.sum(), dtype=int))
    np.testing.assert_allclose(calibrator.predict_at(new, [0.5]), counted, atol=1e-9)


@pytest.mark.parametrize(("name", "arguments"), ALL, ids=ids)
@pytest.mark.parametrize(
    ("feature", "k", "n", "message"),
    [
        ([], [], [], "no prefixes to fit to"),
        ([0.5, np.nan], [1, 1], [2, 2], "must be finite"),
        ([0.5, 0.5], [1], [2], "one entry per prefix"),
        ([[0.5]], [[1]], [[2]], "must have shape"),
        ([0.5], [3], [2], "0 <= k <= n"),
        ([0.5], [0], [0], "n >= 1"),
    ],
)
def test_bad_calibration_data_is_refused(
    name: str, arguments: dict[str, Any], feature: ArrayLike, k: ArrayLike, n: ArrayLike, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        calibrators.create(name, **arguments).fit_features(np.array(feature), np.array(k), np.array(n))


@pytest.mark.parametrize(("name", "arguments"), LEARNING, ids=ids)
def test_predicting_needs_a_fit_and_finite_scores(name: str, arguments: dict[str, Any]) -> None:
    calibrator = calibrators.create(name, **arguments)
    with pytest.raises(PluginFailedError, match=f"'{name}' is not fitted. Call 'fit' or 'load' first"):
        calibrator.predict_at(np.array([0.5]), [0.5])
    calibrator.fit_features(np.array([0.2, 0.8]), np.array([1, 2]), np.array([2, 2]))
    with pytest.raises(ValueError, match="must be finite"):
        calibrator.predict_at(np.array([0.5, np.nan]), [0.5])


def test_what_another_calibrator_has_saved_is_not_loaded(tmp_path: Path) -> None:
    calibrators.create("isotonic").fit_features(np.array([0.2, 0.8]), np.array([1, 2]), np.array([2, 2])).save(tmp_path)
    with pytest.raises(DataError, match="contains the calibrator 'isotonic', not 'temperature'"):
        calibrators.create("temperature").load(tmp_path)


def test_uncalibrated_is_the_reward_itself() -> None:
    reward = np.array([0.0, 0.3, 1.0])
    np.testing.assert_array_equal(calibrators.create("uncalibrated").predict_at(reward, [0.5]), reward[:, None])
    with pytest.raises(ValueError, match=r"Each reward must be in \[0, 1\]"):
        calibrators.create("uncalibrated").predict_at(np.array([1.5]), [0.5])


def test_temperature_is_the_most_likely_one() -> None:
    logits, k, n = overconfident(2000, 9)
    fitted = create_as(Temperature, calibrators, "temperature").fit_features(logits, k, n).temperature_
    assert fitted == pytest.approx(3, rel=0.05)
    # The slope of logistic regression without intercept and penalty is 1/T.
    twice = np.concatenate([logits, logits])[:, None]
    labels = np.repeat([1, 0], len(k))
    slope = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10).fit(
        twice, labels, sample_weight=np.concatenate([k, n - k])
    )
    assert fitted == pytest.approx(1 / slope.coef_[0, 0], rel=1e-5)


def brier_score(temperature: float, logits: Floats, k: Ints, n: Ints) -> float:
    return float(np.sum(n * (expit(logits / temperature) - k / n) ** 2) / n.sum())


@given(seed=st.integers(0, 10_000), size=st.integers(1, 30), scale=st.floats(0.01, 100))
def test_no_temperature_has_a_lower_brier_score(seed: int, size: int, scale: float) -> None:
    generator = np.random.default_rng(seed)
    logits, n = scale * generator.normal(0.0, 1.0, size), generator.integers(1, 9, size)
    k = generator.integers(0, n + 1)  # Without relation to the logits: the score can have several minima.
    brier = create_as(Temperature, calibrators, "temperature", loss="brier").fit_features(logits, k, n)
    likely = create_as(Temperature, calibrators, "temperature").fit_features(logits, k, n)
    found = brier_score(brier.temperature_, logits, k, n)
    for other in (*np.geomspace(0.01, 100, 99), likely.temperature_):
        assert found <= brier_score(other, logits, k, n) + 1e-5


@pytest.mark.parametrize("loss", ["likelihood", "brier"])
@pytest.mark.parametrize(
    ("logits", "k", "expected"),
    [
        ([1.0, 2.0], [4, 4], 0.01),
        ([1.0, 2.0], [0, 0], 100),
        ([-1.0, 1.0], [4, 0], 100),
        ([0.0, 0.0], [1, 3], 1),
    ],
)
def test_temperature_stays_in_its_range_where_there_is_no_best_one(
    logits: list[float], k: list[int], expected: float, loss: str
) -> None:
    calibrator = create_as(Temperature, calibrators, "temperature", loss=loss).fit_features(
        np.array(logits), np.array(k), np.array([4, 4])
    )
    assert calibrator.temperature_ == pytest.approx(expected)


def test_isotonic_is_that_of_scikit_learn_and_rises() -> None:
    logits, k, n = overconfident(400, 10)
    reward = np.round(expit(logits), 2)  # ties
    calibrator = calibrators.create("isotonic").fit_features(reward, k, n)
    peer = IsotonicRegression(out_of_bounds="clip").fit(reward, k / n, sample_weight=n)
    grid = np.linspace(0, 1, 501)
    np.testing.assert_allclose(calibrator.predict_at(grid, [0.5])[:, 0], peer.predict(grid), atol=1e-12)
    assert (np.diff(calibrator.predict_at(grid, [0.5])[:, 0]) >= 0).all()


def test_histogram_pools_follow_ups_and_fills_empty_bins_between_their_neighbours() -> None:
    calibrator = create_as(Histogram, calibrators, "histogram", bins=5)
    calibrator.fit_features(np.array([0.25, 0.3, 1.0]), np.array([1, 6, 4]), np.array([2, 8, 4]))
    np.testing.assert_allclose(calibrator.edges_, [0, 0.2, 0.4, 0.6, 0.8, 1])
    np.testing.assert_allclose(calibrator.success_rates_, [0.7, 0.7, 0.8, 0.9, 1.0])
    np.testing.assert_allclose(calibrator.predict_at(np.array([0.0, 0.2, 0.4, 1.0]), [0.5])[:, 0], [0.7, 0.7, 0.8, 1.0])


def test_quantile_bins_hold_equal_numbers_of_follow_ups() -> None:
    generator = np.random.default_rng(0)
    reward = generator.beta(8, 1, 4000)
    n = generator.integers(1, 9, 4000)
    calibrator = create_as(Histogram, calibrators, "histogram", bins=4, strategy="quantile").fit_features(
        reward, n // 2, n
    )
    shares = np.histogram(reward, calibrator.edges_, weights=n)[0] / n.sum()
    np.testing.assert_allclose(shares, 0.25, atol=0.002)
    # Prefixes with equal rewards are in one bin, so there are fewer bins.
    tied = np.append(np.full(90, logit(0.9)), 0.1)
    calibrator.fit_features(np.clip(tied, 0, 1), np.ones(91, dtype=int), np.full(91, 2))
    assert len(calibrator.success_rates_) < 4 and (np.diff(calibrator.edges_) > 0).all()
