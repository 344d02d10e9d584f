"""How far estimates of adaptive calibration errors lie from the truth, and how often their intervals contain it.

python -m benchmarks.simulations.calibration_errors [WORLDS]

Each simulation draws worlds (400 by default) in which the success probabilities are known. The true error is that of
400,000 questions without noise of the follow-ups.
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
from scipy.special import expit, logit, ndtr
from scipy.stats import beta

from benchmarks.simulations.interval_coverage import BOOTSTRAP, measured
from benchmarks.tables import README, markdown, write_table
from prmcal.db.statistics.bootstrap import estimate
from prmcal.db.statistics.intervals import percentile_interval
from prmcal.registry.contracts.metric import PrefixRows

QUESTIONS, WORLDS, LARGE = (30, 60, 100, 500), 400, 400_000
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


def cell(truth: float, questions: int, worlds: int, slope: float, shift: float) -> str:
    """Return the bias of the plain value -> of the corrected value; and the coverage of the true error by both."""
    values, within = np.zeros((worlds, 2)), np.zeros(2)
    for world in range(worlds):
        drawn = prefixes(np.random.default_rng([world, questions]), questions, slope, shift, False)
        plain, corrected = (estimate(measured(kind, drawn), BOOTSTRAP) for kind in (KIND, f"{KIND}_corrected"))
        low, high = percentile_interval(plain.replicates, questions)
        within += low <= truth <= high, corrected.low <= truth <= corrected.high
        values[world] = max(plain.value, 0.0), max(corrected.value, 0.0)
    biases = " -> ".join(f"{bias:+.3f}" for bias in values.mean(axis=0) - truth)
    return f"{biases}; {' -> '.join(f'{share:.3f}' for share in within / worlds)}"


def main(worlds: int = WORLDS) -> None:
    """Write the table into ``benchmarks/README.md``."""
    rows = []
    for name, slope, shift in DISTORTIONS:
        large = prefixes(np.random.default_rng(10**6), LARGE, slope, shift, True)
        truth = measured(KIND, large).value()
        cells = {f"{count} questions": cell(truth, count, worlds, slope, shift) for count in QUESTIONS}
        rows.append({"rewards": name, "truth": f"{truth:.3f}", **cells})
    write_table(README, "calibration-errors", markdown(pd.DataFrame(rows)))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
