"""Heads on hidden states learn the distribution of the success probability, at any level."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from prmcal.errors import InvalidArgumentsError, PluginFailedError
from prmcal.registry.calibrators.beta_binomial import BetaBinomial
from prmcal.registry.calibrators.ensemble import Ensemble
from prmcal.registry.calibrators.heads import HeadCalibrator, folds, held_out_rows
from prmcal.registry.contracts.data import HiddenStates
from prmcal.registry.plugins import calibrators
from tests.arrays import Floats, Ints
from tests.registry.create import create_as

WIDTH = 6
ALL = ["beta-binomial", "ensemble", "monotone-quantile"]
SMALL: dict[str, dict[str, Any]] = {
    "beta-binomial": {"lam": 0.0, "decay": 1e-3},
    "ensemble": {"heads": 4, "width": 16, "epochs": 2},
    "monotone-quantile": {"width": 8, "epochs": 2},
}
"""For tests that do not depend on the quality of the fit."""


def head(name: str, **arguments: Any) -> HeadCalibrator:
    return create_as(HeadCalibrator, calibrators, name, **arguments)


def small(name: str) -> HeadCalibrator:
    return head(name, **SMALL[name])


def world(
    rows: int, seed: int, size: float = 3.0, width: int = WIDTH
) -> tuple[HiddenStates, Ints, Ints, Ints, Floats, Floats]:
    """States, k of n, questions, the success probabilities p, and the means of their Beta distributions."""
    random = np.random.default_rng(seed)
    states = random.normal(0.0, 1.0, (rows, width)).astype(np.float32)
    logit = random.normal(0.0, 1.5, rows)
    mean = expit(0.6 * logit - 0.5 + 1.2 * states[:, 0])
    p = random.beta(size * mean, size * (1 - mean))
    n = np.full(rows, 8)
    features = HiddenStates(states, np.full(rows, -1), np.arange(rows), logit)
    return features, random.binomial(n, p), n, np.arange(rows) // 4, p, mean


@pytest.mark.parametrize(("name", "left"), [("beta-binomial", 0.1), ("ensemble", 0.3), ("monotone-quantile", 0.1)])
def test_the_state_tells_the_mean_of_new_prefixes(name: str, left: float) -> None:
    """Of the PRM's squared error, this share is left. The LayerNorm of the ensemble hides how far out a state is."""
    features, k, n, questions, _, _ = world(3000, 0, width=60)
    fitted = head(name).fit(features, k, n, questions=questions)
    features, _, _, _, _, mean = world(1000, 1, width=60)
    grid = (np.arange(40) + 0.5) / 40
    found = fitted.predict_at(features, grid.tolist()).mean(1)
    assert np.mean((found - mean) ** 2) < left * np.mean((expit(features.logit) - mean) ** 2)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("beta-binomial", {}), ("monotone-quantile", {}), ("ensemble", {"spread": "mixture"})],
)
def test_a_quantile_is_below_the_success_probability_as_often_as_it_says(name: str, arguments: dict[str, Any]) -> None:
    features, k, n, questions, _, _ = world(3000, 2)
    fitted = head(name, **arguments).fit(features, k, n, questions=questions)
    features, _, _, _, p, _ = world(2000, 3)
    levels = (0.1, 0.3, 0.5, 0.9)
    below = (p[:, None] <= fitted.predict_at(features, levels)).mean(0)
    np.testing.assert_allclose(below, levels, atol=0.05)


def test_the_pinball_loss_learns_rates_which_spread_more_than_probabilities() -> None:
    features, k, n, questions, p, _ = world(1000, 4, size=20.0)
    quantiles = {
        loss: head("monotone-quantile", loss=loss).fit(features, k, n, questions=questions).predict(features)
        for loss in ("likelihood", "pinball")
    }
    spread = {loss: float(np.mean(each[:, 2] - each[:, 0])) for loss, each in quantiles.items()}
    assert spread["pinball"] > 1.3 * spread["likelihood"]
    assert np.mean(p < quantiles["likelihood"][:, 0]) == pytest.approx(0.1, abs=0.04)


def test_a_conservative_ensemble_predicts_less_and_weights_need_held_out_questions() -> None:
    features, k, n, questions, _, _ = world(400, 7)
    plain, careful, equal = (
        create_as(Ensemble, calibrators, "ensemble", **{**SMALL["ensemble"], **changes}).fit(
            features, k, n, questions=questions
        )
        for changes in ({}, {"conservative": 0.05}, {"held_out": 0.0})
    )
    averages = [
        (means * weights).sum(1)
        for means, weights in (each._means_and_weights(each.read(features)) for each in (careful, plain))
    ]
    assert (averages[0] < averages[1]).all()
    _, weights = equal._means_and_weights(equal.read(features))
    np.testing.assert_allclose(weights, 0.25)
    _, weights = plain._means_and_weights(plain.read(features))
    assert np.abs(weights - 0.25).max() > 1e-4


def test_penalties_are_chosen_by_held_out_questions_and_can_be_given() -> None:
    # With one question for all rows, there is nothing to hold out.
    features, k, n, questions, _, _ = world(200, 8)
    alone = create_as(BetaBinomial, calibrators, "beta-binomial").fit(features, k, n, questions=questions * 0)
    assert (alone.decay_, alone.lam_) == (1.0, 0.05)
    given = create_as(BetaBinomial, calibrators, "beta-binomial", lam=0.2, decay=0.3)
    given.fit(features, k, n, questions=questions)
    assert (given.decay_, given.lam_) == (0.3, 0.2)
    # States that say nothing get a large penalty, states that say much a small one.
    features, k, n, questions, _, _ = world(800, 9)
    told = create_as(BetaBinomial, calibrators, "beta-binomial").fit(features, k, n, questions=questions)
    order = np.random.default_rng(0).permutation(len(k))
    noise = HiddenStates(features.states[order], features.parents, features.leaves, features.logit)
    untold = create_as(BetaBinomial, calibrators, "beta-binomial").fit(noise, k, n, questions=questions)
    assert told.decay_ < untold.decay_


@pytest.mark.parametrize("name", ALL)
def test_a_fit_has_the_same_bits_with_any_number_of_threads(name: str, tmp_path: Path) -> None:
    features, k, n, questions, _, _ = world(300, 11, width=40)
    before, saved = torch.get_num_threads(), []
    try:
        for threads in (1, 4):
            torch.set_num_threads(threads)
            fitted = head(name, **SMALL[name], components=8).fit(features, k, n, questions=questions)
            fitted.save(tmp_path / str(threads))
            saved.append((tmp_path / str(threads) / "calibrator.safetensors").read_bytes())
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert saved[0] == saved[1]


@pytest.mark.parametrize("name", ALL)
def test_the_callers_random_numbers_are_left_alone(name: str) -> None:
    features, k, n, questions, _, _ = world(40, 12)
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    small(name).fit(features, k, n, questions=questions).predict(features)
    assert torch.rand(1) == expected


@pytest.mark.parametrize("name", ALL)
def test_wide_states_are_projected_and_nothing_is_lost_of_few_directions(name: str) -> None:
    features, k, n, questions, _, _ = world(300, 13)
    turned = np.linalg.qr(np.random.default_rng(0).normal(size=(50, 50)))[0][:WIDTH].astype(np.float32)
    wide = HiddenStates(features.states @ turned, features.parents, features.leaves, features.logit)
    fitted = head(name, **SMALL[name], components=WIDTH).fit(wide, k, n, questions=questions)
    assert fitted.read(wide).shape == (300, 1 + WIDTH)
    # The projection keeps the variance of all standardised states.
    standard = (wide.states - wide.states.mean(0)) / wide.states.std(0)
    kept = fitted.read(wide)[:, 1:]
    assert kept.var(0).mean() == pytest.approx(1, rel=0.05)
    ratio = np.linalg.norm(kept, axis=1) / np.linalg.norm(standard, axis=1)
    np.testing.assert_allclose(ratio, ratio.mean(), rtol=1e-3)


@pytest.mark.parametrize("name", ALL)
def test_states_of_another_prm_and_broken_ones_are_refused(name: str) -> None:
    features, k, n, questions, _, _ = world(40, 14)
    fitted = small(name).fit(features, k, n, questions=questions)
    with pytest.raises(PluginFailedError, match=f"'{name}' was fitted to hidden states of width 6, and these have"):
        fitted.predict(world(5, 15, width=7)[0])
    broken = world(5, 16)[0]
    broken.states[2, 1] = np.nan
    with pytest.raises(ValueError, match="Each hidden state must be finite"):
        fitted.predict(broken)
    with pytest.raises(ValueError, match="'questions' must have one entry per prefix: 40"):
        small(name).fit(features, k, n, questions=questions[:5])
    with pytest.raises(InvalidArgumentsError, match="'components' parameter"):
        head(name, components=0)


def test_a_learning_rate_that_is_too_high_is_told() -> None:
    features, k, n, questions, _, _ = world(40, 17)
    for name in ("ensemble", "monotone-quantile"):
        with pytest.raises(
            PluginFailedError, match=r"became NaN in epoch \d of 2\. Lower the learning rate \(1e\+30\)"
        ):
            head(name, **SMALL[name], learning_rate=1e30).fit(features, k, n, questions=questions)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.floats(0, 0.99), st.integers(0, 99))
def test_questions_are_held_out_whole(numbers: list[int], share: float, seed: int) -> None:
    questions = np.array(numbers)
    held_out = held_out_rows(questions, share, seed)
    assert not set(questions[held_out]) & set(questions[~held_out])
    assert len(set(questions[held_out])) == int(share * len(set(numbers)))
    parts = folds(questions, 4, seed)
    assert (np.sum(parts, axis=0) == 1).all() and all(part.any() for part in parts)
    assert all(not set(questions[part]) & set(questions[~part]) for part in parts)
