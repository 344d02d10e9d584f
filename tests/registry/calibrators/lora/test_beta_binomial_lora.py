"""The calibrator `beta-binomial-lora`: its loss, its start, its fit, and what it saves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from prmcal import PRM, ScoredPrefixes
from prmcal.errors import PluginFailedError
from prmcal.registry.calibrators.beta_binomial import negative_log_likelihood
from prmcal.registry.calibrators.lora.adapter import BetaBinomialLora
from prmcal.registry.calibrators.lora.fitting import beta_binomial_loss
from prmcal.registry.plugins import calibrators, prms
from tests.arrays import Ints
from tests.registry.calibrators.lora.test_lora import QUICK, ThreeClassPRM, labels, scored
from tests.registry.create import create_as

pytestmark = pytest.mark.usefixtures("one_thread")


def create(**arguments: Any) -> BetaBinomialLora:
    return create_as(BetaBinomialLora, calibrators, "beta-binomial-lora", **{**QUICK, **arguments})


@pytest.fixture(scope="module")
def reward_model(reward_folder: Path) -> PRM:
    built: PRM = prms.create("qwen", checkpoint=str(reward_folder), device="cpu")
    return built


@pytest.fixture(scope="module")
def features(reward_model: PRM) -> ScoredPrefixes:
    return scored(reward_model)


@pytest.fixture(scope="module")
def counts(features: ScoredPrefixes) -> tuple[Ints, Ints]:
    return labels(features)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.05]))
def test_the_loss_is_the_likelihood_and_the_penalty_does_not_move_the_mean(seed: int, lam: float) -> None:
    random = np.random.default_rng(seed)
    mean, size, n = random.uniform(0.01, 0.99, 5), random.uniform(0.1, 50, 5), random.integers(1, 17, 5)
    k = random.binomial(n, mean)
    given_mean = torch.tensor(mean, requires_grad=True)
    pairs = torch.tensor(np.stack([k, n], axis=1))
    loss = beta_binomial_loss(given_mean, torch.tensor(size), pairs, lam)
    expected = negative_log_likelihood(mean, size, k, n) + lam * np.abs(mean - k / n) * size
    np.testing.assert_allclose(loss.detach().numpy(), expected, rtol=1e-9, atol=1e-9)
    (gradient,) = torch.autograd.grad(loss.sum(), given_mean)
    (without,) = torch.autograd.grad(
        beta_binomial_loss(given_mean, torch.tensor(size), pairs, 0.0).sum(), given_mean
    )
    assert torch.equal(gradient, without)


@pytest.mark.parametrize("three_classes", [False, True])
def test_before_training_the_mean_is_the_reward_and_the_size_is_the_same_for_all(
    reward_folder: Path, reward_model: PRM, three_classes: bool
) -> None:
    prm = ThreeClassPRM(checkpoint=str(reward_folder), device="cpu") if three_classes else reward_model
    features = scored(prm, questions=2)
    # A learning rate this small changes nothing.
    fitted = create(learning_rate=1e-30, epochs=1).fit(features, *labels(features))
    mean, size = fitted.mean_and_size(features)
    np.testing.assert_allclose(mean, expit(features.logit), atol=1e-5)
    np.testing.assert_allclose(size, size[0], rtol=1e-6)
    if not three_classes:
        np.testing.assert_allclose(size, 4 + 1e-4, rtol=1e-5)


def test_a_fit_lowers_the_loss_and_tells_prefixes_with_a_mistake(
    features: ScoredPrefixes, counts: tuple[Ints, Ints]
) -> None:
    fitted = create(epochs=6, head="full").fit(features, *counts)
    assert fitted.card_["final_loss"] < fitted.card_["first_loss"] - 0.05
    wrong = np.array([any("=42" in step for step in prefix.steps) for prefix in features.prefixes])
    mean, size = fitted.mean_and_size(features)
    assert mean[wrong].mean() < mean[~wrong].mean() - 0.15
    assert np.ptp(size) > 0.01


def test_all_levels_come_from_one_law(features: ScoredPrefixes, counts: tuple[Ints, Ints]) -> None:
    fitted = create().fit(features, *counts)
    asked = fitted.predict_at(features, (0.05, 0.1, 0.5))
    np.testing.assert_array_equal(asked[:, 1:], fitted.predict(features)[:, :2])
    assert (np.diff(asked, axis=1) > 0).all()


def test_saved_and_loaded_predicts_the_same_bits_and_is_not_exported(
    features: ScoredPrefixes, counts: tuple[Ints, Ints], tmp_path: Path
) -> None:
    fitted = create().fit(features, *counts)
    fitted.save(tmp_path / "fit")
    loaded = create().load(tmp_path / "fit")
    assert loaded.predict(features).tobytes() == fitted.predict(features).tobytes()
    with pytest.raises(PluginFailedError, match=r"predicts a Beta distribution.* Choose quantile-lora"):
        fitted.export(features.prm, tmp_path / "exported")
    assert fitted.training_passes == QUICK["epochs"]
