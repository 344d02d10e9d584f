"""How far estimates of adaptive calibration errors lie from the truth, and how often their intervals contain it.

python -m benchmarks.simulations.calibration_errors [WORLDS]

Each simulation draws worlds (300 by default) in which the success probabilities are known. The true error is that of
400,000 questions without noise of the follow-ups.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtr
from scipy.stats import beta

from benchmarks.simulations.interval_coverage import BOOTSTRAP, measured
from prmcal.db.statistics.bootstrap import estimate
from prmcal.db.statistics.intervals import percentile_interval
from prmcal.registry.contracts.metric import PrefixRows

QUESTIONS, WORLDS, LARGE = (30, 60, 100, 500), 300, 400_000
FOLLOW_UPS, EXACT = 8, 10**12

KIND = "adaptive_ce"
# The log-odds of a calibrated reward are multiplied by the slope, and the shift is added.
DISTORTIONS = (
    ("calibrated", 1.0, 0.0),
    ("nearly calibrated", 1.0, 0.15),
    ("too confident", 1.0, 0.6),
    ("too extreme", 2.0, 0.0),
)


def prefixes(random: np.random.Generator, questions: int, slope: float, shift: float, exact: bool) -> PrefixRows:
    """Prefixes of questions. The success probabilities of a question depend on each other, given the rewards."""
    question = np.repeat(np.arange(questions), 1 + random.binomial(12, random.beta(2, 2, questions)))
    size = len(question)
    expected = expit(random.normal(0.5, 1.2, questions)[question] + random.normal(0, 1.0, size))
    reward = expit(slope * logit(expected) + shift)
    if exact:
        counts = np.full(size, EXACT)
        # As one question: how prefixes belong together matters for intervals only, and needs much memory.
        return PrefixRows(reward, np.rint(expected * EXACT).astype(np.int64), counts, np.zeros_like(question))
    shared = np.sqrt(0.5) * (random.normal(size=questions)[question] + random.normal(size=size))
    probability = beta.ppf(ndtr(shared), 4 * expected, 4 * (1 - expected))
    counts = np.full(size, FOLLOW_UPS)
    return PrefixRows(reward, random.binomial(FOLLOW_UPS, probability), counts, question)


def row(questions: int, worlds: int, slope: float, shift: float) -> str:
    """Return the biases and coverages as a line of text."""
    large = prefixes(np.random.default_rng(10**6), LARGE, slope, shift, True)
    truth = measured(KIND, large).value()
    values: list[tuple[float, float]] = []
    within = np.zeros(2)
    for world in range(worlds):
        random = np.random.default_rng([world, questions])
        drawn = prefixes(random, questions, slope, shift, False)
        plain, corrected = (estimate(measured(kind, drawn), BOOTSTRAP) for kind in (KIND, f"{KIND}_corrected"))
        low, high = percentile_interval(plain.replicates, questions)
        within += low <= truth <= high, corrected.low <= truth <= corrected.high
        values.append((plain.value, corrected.value))
    estimates: NDArray[np.float64] = np.maximum(np.array(values), 0.0)
    bias = estimates.mean(axis=0) - truth
    error = np.sqrt(np.mean((estimates - truth) ** 2, axis=0))
    return (
        f"| {truth:.3f} | {' | '.join(f'{value:+.4f}' for value in bias)} | "
        f"{error[0]:.4f} -> {error[1]:.4f} | {within[0] / worlds:.3f} -> {within[1] / worlds:.3f} |"
    )


def main() -> None:
    worlds = int(sys.argv[1]) if len(sys.argv) > 1 else WORLDS
    begun = time.perf_counter()
    print(
        "| rewards | questions | truth | bias, plain | bias, corrected "
        "| root mean squared error, plain -> corrected | coverage of the truth, percentiles -> corrected |"
    )
    print("| --- " * 7 + "|")
    for rewards, slope, shift in DISTORTIONS:
        for questions in QUESTIONS:
            print(f"| {rewards} | {questions} {row(questions, worlds, slope, shift)}", flush=True)
    print(f"{worlds} worlds, {time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
