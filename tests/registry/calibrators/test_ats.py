"""Adaptive temperature scaling predicts the temperature of a prefix from its hidden states."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit

from prmcal.errors import InvalidArgumentsError, PluginFailedError
from prmcal.registry.calibrators.ats import AdaptiveTemperatureScaling
from prmcal.registry.calibrators.logit import Temperature
from prmcal.registry.contracts.calibrator import FitSupport
from prmcal.registry.contracts.data import HiddenStates, ScoringRequest
from prmcal.registry.plugins import calibrators, prms
from tests.arrays import Floats, Ints
from tests.registry.create import create_as

pytestmark = pytest.mark.usefixtures("one_thread")

WIDTH = 12
SMALL: dict[str, Any] = {"width": 16, "heads": 2, "epochs": 4}
"""For tests that do not depend on the quality of the fit."""


def ats(**arguments: Any) -> AdaptiveTemperatureScaling:
    return create_as(AdaptiveTemperatureScaling, calibrators, "ats", **arguments)


def forest(questions: int, seed: int, rows: int = 8, nodes: int = 24) -> HiddenStates:
    """Trees with a trunk of 6 nodes, random states and random leaves. All have the same state at the first node."""
    random = np.random.default_rng(seed)
    parts = []
    for _ in range(questions):
        parents = np.arange(-1, nodes - 1)
        branches = np.arange(6, nodes, 5)
        parents[branches] = random.integers(0, 6, len(branches))
        states = random.normal(size=(nodes, WIDTH)).astype(np.float32)
        states[0] = np.arange(WIDTH)
        leaves = np.append(0, random.integers(1, nodes, rows - 1))
        parts.append(HiddenStates(states, parents, leaves, np.zeros(rows)))
    return HiddenStates.concatenate(parts)


def world(
    questions: int,
    seed: int,
    log_temperature: Callable[[NDArray[np.float32]], Any] = lambda states: np.full(len(states), np.log(3.0)),
    **sizes: int,
) -> tuple[HiddenStates, Ints, Ints]:
    """A PRM whose logit is T(x) times the true logit, where T depends on the state at the leaf."""
    features = forest(questions, seed, **sizes)
    random = np.random.default_rng([seed, 1])
    true = random.normal(0.0, 1.5, len(features))
    logit = true * np.exp(log_temperature(features.states[features.leaves]))
    n = random.integers(4, 13, len(features))
    features = HiddenStates(features.states, features.parents, features.leaves, logit)
    return features, random.binomial(n, expit(true)), n


def linear(states: NDArray[np.float32]) -> NDArray[np.float32]:
    return 0.8 + 0.9 * states[:, 1]


def log_loss(reward: Floats, k: Ints, n: Ints) -> float:
    reward = np.clip(reward, 1e-6, 1 - 1e-6)
    return float(-np.sum(k * np.log(reward) + (n - k) * np.log(1 - reward)) / np.sum(n))


def test_a_temperature_that_the_states_tell_is_found() -> None:
    features, k, n = world(150, 0, linear)
    fitted = ats(width=16, learning_rate=1e-2).fit(features, k, n)
    flat = Temperature(logit=True).fit(features.logit, k, n)
    features, k, n = world(150, 1, linear)
    best = log_loss(expit(features.logit / np.exp(linear(features.states[features.leaves]))), k, n)
    plain = log_loss(flat.predict(features.logit), k, n)
    adaptive = log_loss(fitted.predict(features)[:, 0], k, n)
    assert plain - adaptive > 0.7 * (plain - best) > 0.01


def test_noise_in_the_states_costs_little() -> None:
    features, k, n = world(100, 3)
    fitted = ats(width=16).fit(features, k, n)
    flat = Temperature(logit=True).fit(features.logit, k, n)
    features, k, n = world(100, 4)
    gap = log_loss(fitted.predict(features)[:, 0], k, n) - log_loss(flat.predict(features.logit), k, n)
    assert gap < 0.1 * (log_loss(expit(features.logit), k, n) - log_loss(flat.predict(features.logit), k, n))


def test_a_head_that_does_worse_on_questions_held_out_is_not_kept() -> None:
    features, k, n = world(60, 20)
    fitted = ats(**SMALL, learning_rate=1.0).fit(features, k, n)
    assert fitted.epoch_ == 0
    expected = Temperature(logit=True).fit(features.logit, k, n).temperature_
    np.testing.assert_allclose(fitted.temperatures(features), expected, rtol=1e-6)
    assert ats(**SMALL, learning_rate=1.0, held_out=0).fit(features, k, n).epoch_ == 4


def test_fitted_twice_is_the_same_to_the_bit_and_leaves_random_numbers_alone() -> None:
    import torch

    data = world(30, 7)
    states = torch.get_rng_state(), np.random.get_state(legacy=False)
    first = ats(**SMALL).fit(*data)
    again = ats(**SMALL).fit(*world(9, 8)).fit(*data)
    assert torch.equal(torch.get_rng_state(), states[0])
    np.testing.assert_equal(np.random.get_state(legacy=False), states[1])
    assert again.weights_.tobytes() == first.weights_.tobytes()
    assert again.predict(data[0]).tobytes() == first.predict(data[0]).tobytes()
    other = ats(**SMALL, seed=1).fit(*data)
    assert other.weights_.tobytes() != first.weights_.tobytes()


def test_what_other_prefixes_hold_is_not_fitted_to() -> None:
    features, k, n = world(40, 11)
    some = slice(0, len(features) // 2)
    states = features.states.copy()
    states[len(states) // 2 :] = np.nan
    marred = HiddenStates(states, features.parents, features.leaves, features.logit)
    whole = ats(**SMALL).fit(features[some], k[some], n[some])
    part = ats(**SMALL).fit(marred[some], k[some], n[some])
    assert part.weights_.tobytes() == whole.weights_.tobytes()


def test_a_reward_never_crosses_one_half() -> None:
    features, k, n = world(60, 12, linear)
    rewards = ats().fit(features, n - k, n).predict(features)[:, 0]
    assert np.all((rewards - 0.5) * features.logit >= 0)
    assert np.abs(rewards - 0.5).max() < 0.2  # The PRM is always wrong, so 1/2 is the best.


@pytest.mark.parametrize("questions", [1, 20])
@pytest.mark.parametrize("right", [True, False])
def test_labels_that_are_all_equal_give_finite_rewards(questions: int, right: bool) -> None:
    features, _, n = world(questions, 13)
    features = HiddenStates(features.states, features.parents, features.leaves, np.abs(features.logit))
    fitted = ats().fit(features, n if right else np.zeros_like(n), n)
    temperatures = fitted.temperatures(features)
    assert np.all((temperatures >= 0.01) & (temperatures <= 100))
    assert np.all(temperatures < 1) if right else np.all(temperatures > 1)
    extreme = HiddenStates(features.states, features.parents, features.leaves[:2], np.array([-700.0, 700.0]))
    assert np.isfinite(fitted.predict(extreme)).all()


def test_states_of_a_real_prm_can_be_read(reward_folder: Path) -> None:
    model = prms.create("qwen", checkpoint=str(reward_folder), dtype="float32")
    requests = [
        ScoringRequest(f"What is {number} + 3?", (("one",), ("one", "two"), ("two", f"{number}", "three")))
        for number in range(10)
    ]
    features = HiddenStates.concatenate(model.hidden_states(requests))
    n = np.full(len(features), 4)
    fitted = ats(**SMALL, held_out=0).fit(features, np.arange(len(n)) % 5, n)
    rewards = fitted.predict(features)
    assert rewards.shape == (90, 1) and np.ptp(fitted.temperatures(features)) > 0


def test_progress_is_reported() -> None:
    lines: list[str] = []
    calibrator = ats(**SMALL)
    calibrator.support = FitSupport(report=lines.append)
    calibrator.fit(*world(10, 16))
    assert [line.split(", ")[1] for line in lines] == [f"epoch {epoch} of 4" for epoch in range(1, 5)]
    assert "loss 0." in lines[0] and lines[-1].endswith("0 s left")


def test_predicting_needs_a_fit_and_the_same_prm() -> None:
    features, k, n = world(20, 17)
    calibrator = ats(**SMALL)
    with pytest.raises(PluginFailedError, match=r"'ats' is not fitted\. Call 'fit'"):
        calibrator.predict(features)
    calibrator.fit(features, k, n)
    wider = np.concatenate([features.states, features.states], axis=1)
    with pytest.raises(PluginFailedError, match=r"width 12, and these have width 24.*Fit the calibrator to this PRM"):
        calibrator.predict(HiddenStates(wider, features.parents, features.leaves, features.logit))


def test_a_loss_that_is_no_number_says_what_to_do() -> None:
    with pytest.raises(PluginFailedError, match=r"became NaN in epoch . of 4\. Lower the learning rate \(1e\+30\)"):
        ats(**SMALL, learning_rate=1e30).fit(*world(10, 18))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f, k, n: (f.logit, k, n), "must be HiddenStates. Got ndarray"),
        (lambda f, k, n: (f[:0], k[:0], n[:0]), "no prefixes to fit to"),
        (lambda f, k, n: (f, n + 1, n), "0 <= k <= n"),
        (lambda f, k, n: (f, k[:-1], n), "one entry per prefix"),
        (
            lambda f, k, n: (HiddenStates(f.states * np.nan, f.parents, f.leaves, f.logit), k, n),
            "hidden state",
        ),
        (
            lambda f, k, n: (HiddenStates(f.states, f.parents, f.leaves, f.logit * np.inf), k, n),
            "must be finite",
        ),
    ],
)
def test_bad_calibration_data_is_refused(
    change: Callable[[HiddenStates, Ints, Ints], tuple[Any, Ints, Ints]], message: str
) -> None:
    with pytest.raises(ValueError, match=message), np.errstate(invalid="ignore"):
        ats(**SMALL).fit(*change(*world(3, 19)))


def test_a_width_that_the_heads_do_not_divide_is_refused() -> None:
    with pytest.raises(InvalidArgumentsError, match=r"must be a multiple of twice the 'heads', 8\. Got 20"):
        ats(width=20, heads=4)
