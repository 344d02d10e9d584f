"""Heads on hidden states that say nothing end near the success rate of all prefixes, also with 40 questions."""

from __future__ import annotations

from copy import copy
from functools import cache

import numpy as np
import pytest
from scipy.special import expit, logit

from prmcal.registry.calibrators.heads import HeadCalibrator
from prmcal.registry.contracts.data import HiddenStates
from prmcal.registry.plugins import calibrators
from tests.arrays import Floats, Ints
from tests.registry.create import create_as

HEADS = ["beta-binomial", "ensemble", "monotone-quantile"]
QUESTIONS, OTHERS, PREFIXES, WIDTH = 40, 200, 6, 32
SEEDS = {"beta-binomial": 1, "ensemble": 4, "monotone-quantile": 4}
"""A fit of the first takes longest, and its share hardly moves."""


def world(questions: int, seed: int, told: bool) -> tuple[HiddenStates, Ints, Ints, Ints, Floats]:
    """Prefixes of questions of which most are hopeless: states, k of n, questions and success probabilities.

    Neither states nor logits say anything, unless `told`. The states of one question are alike, so that they can be
    learned by heart.
    """
    random = np.random.default_rng([seed, questions])
    question = np.repeat(np.arange(questions), PREFIXES)
    rows = len(question)
    own = logit(np.clip(random.beta(0.5, 2.0, questions), 1e-3, 1 - 1e-3))
    p = expit(own[question] + 0.7 * random.normal(size=rows))
    states = 0.8 * random.normal(size=(questions, WIDTH))[question] + 0.6 * random.normal(size=(rows, WIDTH))
    log_odds = random.normal(1.0, 1.5, rows)
    if told:
        states[:, :8] = 0.4 * logit(p)[:, None] + 0.4 * random.normal(size=(rows, 8))
    n = np.full(rows, 8)
    features = HiddenStates(states.astype(np.float32), np.full(rows, -1), np.arange(rows), log_odds)
    return features, random.binomial(n, p), n, question, p


@cache
def measured(name: str, seed: int, told: bool) -> tuple[HeadCalibrator, Floats, Floats, Floats, HiddenStates]:
    """The fitted head, and the levels, success probabilities and the constant of other questions."""
    features, k, n, questions, _ = world(QUESTIONS, seed, told)
    fitted = create_as(HeadCalibrator, calibrators, name).fit(features, k, n, questions=questions)
    others, _, _, _, p = world(OTHERS, seed, told)
    return fitted, fitted.predict(others), p, np.full(len(p), k.sum() / n.sum()), others


@pytest.mark.parametrize("name", HEADS)
def test_a_head_that_is_told_nothing_is_as_good_as_a_constant(name: str) -> None:
    biases, losses, below = [], [], []
    for seed in range(SEEDS[name]):
        _, levels, p, constant, _ = measured(name, seed, told=False)
        biases.append(np.mean(levels[:, 1] - constant))
        losses.append(np.mean((levels[:, 1] - p) ** 2 - (constant - p) ** 2))
        below.append(np.mean(p <= levels[:, 2]))
    assert abs(np.mean(biases)) < 0.03
    assert np.mean(losses) < 0.003  # The variance of p is .05.
    assert np.mean(below) > 0.7  # It still has the spread of p, which one number has not.


@pytest.mark.parametrize("name", HEADS)
def test_a_head_that_is_told_much_is_left_as_it_is(name: str) -> None:
    fitted, rewards, p, constant, others = measured(name, 0, told=True)
    rewards = rewards[:, 1]
    alone, quantiles = fitted.mean_and_quantiles(fitted.read(others), (0.5,))
    alone_loss = min(np.mean((each - p) ** 2) for each in (alone, quantiles[:, 0]))
    assert np.mean((rewards - p) ** 2) - alone_loss < 0.002
    assert np.mean((constant - p) ** 2 - (rewards - p) ** 2) > 0.01


@pytest.mark.parametrize("name", HEADS)
def test_the_reward_at_one_half_is_the_mean_and_levels_stay_in_order(name: str) -> None:
    fitted, _, _, _, others = measured(name, 0, told=True)
    levels = [0.001, 0.1, 0.4, 0.5, 0.6, 0.9, 0.999]
    found = fitted.predict_at(others, levels)
    assert (np.diff(found, axis=1) >= 0).all()
    np.testing.assert_array_equal(found[:, 3], fitted.predict(others)[:, 1])
    fitted = copy(fitted)
    fitted.share_ = 1.0
    alone, quantiles = fitted.mean_and_quantiles(fitted.read(others), levels)
    found = fitted.predict_at(others, levels)
    np.testing.assert_array_equal(found[:, 3], alone)
    between = (quantiles[:, 2] <= alone) & (alone <= quantiles[:, 4])
    assert between.any()
    np.testing.assert_array_equal(found[between][:, [0, 1, 2, 4, 5, 6]], quantiles[between][:, [0, 1, 2, 4, 5, 6]])


def test_without_other_questions_a_head_is_not_used() -> None:
    features, k, n, questions, _ = world(QUESTIONS, 0, told=True)
    fitted = create_as(HeadCalibrator, calibrators, "monotone-quantile").fit(features, k, n, questions=questions * 0)
    assert fitted.share_ == 0
    turned = HiddenStates(-features.states, features.parents, features.leaves, features.logit)
    np.testing.assert_array_equal(fitted.predict(turned), fitted.predict(features))
