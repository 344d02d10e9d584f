"""Worlds in which every success probability is known: what is promised must hold over 400 of them.

Averages are given 3 standard errors of the simulation, intervals the 93% to 97% that the project promises.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit, logit

from prmcal.db.statistics.bootstrap import Bootstrap, estimate
from prmcal.registry.calibrators.conformal import Conformal
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.metric import PrefixRows
from prmcal.registry.plugins import calibrators
from tests.measured import statistic
from tests.registry.create import create_as

REPETITIONS = 400
FOLLOW_UPS = 8
LEVEL = 0.1


class World(NamedTuple):
    """Prefixes of some questions."""

    question: NDArray[np.int64]
    probability: NDArray[np.float64]
    reward: NDArray[np.float64]
    successes: NDArray[np.int64]
    terminal: NDArray[np.bool_]

    @property
    def follow_ups(self) -> NDArray[np.int64]:
        return np.full(len(self.question), FOLLOW_UPS)

    @property
    def rows(self) -> PrefixRows:
        return PrefixRows(self.reward, self.successes, self.follow_ups, self.question, self.terminal)


def world(questions: int, seed: int, shift: float = 0.4) -> World:
    """A PRM sees p through noise, part of which is the same in all prefixes of a question.

    Harder questions have more prefixes; every seventh prefix or so is terminal. Above a `shift` of 0 the PRM is
    overconfident.
    """
    random = np.random.default_rng(seed)
    ability = random.normal(0.5, 1.0, questions)
    question = np.repeat(np.arange(questions), 1 + random.binomial(8, expit(-ability)))
    size = len(question)
    log_odds = ability[question] + random.normal(0.0, 0.8, size)
    seen = log_odds + shift + random.normal(0.0, 0.6, questions)[question] + random.normal(0.0, 0.6, size)
    terminal = random.random(size) < 0.15
    probability = expit(log_odds)
    probability = np.where(terminal, random.random(size) < probability, probability)
    return World(question, probability, expit(seen), random.binomial(FOLLOW_UPS, probability), terminal)


def uneven_world(questions: int, seed: int) -> World:
    """In every other question, of 20 prefixes, rewards are p; the rest have 2 prefixes and rewards far too high."""
    random = np.random.default_rng(seed)
    short = random.random(questions) < 0.5
    question = np.repeat(np.arange(questions), np.where(short, 2, 20))
    probability = np.where(short, 0.3, 0.8)[question]
    reward = np.where(short, 0.9, 0.8)[question] + random.normal(0.0, 0.02, len(question))
    successes = random.binomial(FOLLOW_UPS, probability)
    return World(question, probability, reward, successes, np.zeros(len(question), dtype=bool))


def per_question(values: NDArray[np.generic], question: NDArray[np.int64]) -> float:
    """The mean over questions of the mean over their prefixes."""
    counts = np.bincount(question)
    return float(np.mean(np.bincount(question, weights=values.astype(float)) / counts))


def at_least(found: list[float], promised: float) -> bool:
    return bool(np.mean(found) >= promised - 3 * np.std(found) / np.sqrt(len(found)))


def features(calibrator: Calibrator, drawn: World) -> NDArray[np.float64]:
    return logit(drawn.reward) if calibrator.reads == "logit" else drawn.reward


@pytest.mark.parametrize("wrapped", ["uncalibrated", "isotonic"])
def test_conformal_bounds_hold_for_clustered_prefixes(wrapped: str) -> None:
    rates, probabilities = [], []
    calibrator = create_as(Conformal, calibrators, "conformal", calibrator=wrapped, level=LEVEL)
    for repetition in range(REPETITIONS):
        fitted, new = world(100, 2 * repetition), world(60, 2 * repetition + 1)
        calibrator.fit_features(
            features(calibrator, fitted), fitted.successes, fitted.follow_ups, questions=fitted.question
        )
        bound = calibrator.predict_at(features(calibrator, new), [LEVEL])[:, 0]
        rates.append(per_question(new.successes / new.follow_ups >= bound, new.question))
        probabilities.append(per_question(new.probability >= bound, new.question))
    assert at_least(rates, 1 - LEVEL)
    # No more cautious than the K + 1 in place of K makes it, and the steps of eighths.
    assert np.mean(rates) < 1 - LEVEL + 0.03
    assert at_least(probabilities, 1 - LEVEL)


def test_conformal_bounds_need_to_know_which_prefixes_are_of_one_question() -> None:
    together: list[float] = []
    apart: list[float] = []
    calibrator = create_as(Conformal, calibrators, "conformal", calibrator="uncalibrated", level=LEVEL)
    for repetition in range(REPETITIONS):
        fitted, new = uneven_world(60, 2 * repetition), uneven_world(60, 2 * repetition + 1)
        for shares, questions in ((together, fitted.question), (apart, None)):
            calibrator.fit_features(fitted.reward, fitted.successes, fitted.follow_ups, questions=questions)
            bound = calibrator.predict_at(new.reward, [LEVEL])[:, 0]
            shares.append(per_question(new.successes / new.follow_ups >= bound, new.question))
    assert at_least(together, 1 - LEVEL)
    assert not at_least(apart, 1 - LEVEL)


TRUTH = world(200_000, 10**6, shift=-0.8)
TRUE_VALUES = {
    "brier_corrected": float(np.mean((TRUTH.reward - TRUTH.probability) ** 2)),
    "signed_error": float(np.mean(TRUTH.reward - TRUTH.probability)),
    "coverage": per_question(TRUTH.probability >= TRUTH.reward, TRUTH.question),
}


def share_covered(questions: int, names: Sequence[str]) -> dict[str, float]:
    """How often the 95% interval of each metric holds the true value."""
    covered = dict.fromkeys(names, 0)
    for repetition in range(REPETITIONS):
        drawn = world(questions, repetition, shift=-0.8)
        for name in names:
            found = estimate(statistic(name, drawn.rows), Bootstrap(400, seed=repetition))
            covered[name] += found.low <= TRUE_VALUES[name] <= found.high
    return {name: count / REPETITIONS for name, count in covered.items()}


def test_intervals_cover_the_truth() -> None:
    shares = share_covered(100, list(TRUE_VALUES))
    assert all(0.93 <= share < 1 for share in shares.values()), shares
