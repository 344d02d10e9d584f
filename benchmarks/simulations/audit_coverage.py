"""How often the intervals of `prmcal audit` contain the truth, in worlds where it is known.

python -m benchmarks.simulations.audit_coverage [WORLDS]

A world has questions with four solutions each, outcomes, and scores that are a bent and shifted version of the chance
of success. The truth is taken over 4,000 further questions, whose chances are known: of the signed error, its mean; of
the AUC within questions, that of those with both outcomes; of the Brier reduction, that by the calibrators of the five
folds there, on average. In parentheses is the share of intervals that lie above the truth. A number that the
audit does not tell is no interval. The last column is the share of audits that say that a calibrator helps.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import expit, ndtr

from benchmarks.tables import README, markdown, write_table
from prmcal.arrays import Bools
from prmcal.harness.audit import estimates
from prmcal.harness.audit.estimates import Rows, calibrated_rewards, fit_calibrator, measure
from prmcal.harness.audit.scored import ScoredSolutions
from prmcal.registry.reading.scales import Scale

QUESTIONS, WORLDS, LARGE, SOLUTIONS = (15, 30, 100), 100, 4_000, 4


@dataclass(frozen=True)
class Distortion:
    """How scores differ from chances: `slope` and `shift` of the log-odds, and noise that a question shares."""

    name: str
    slope: float
    shift: float
    noise: float
    hopeless: float = 0.0
    """The share of questions that are nearly never answered right."""


DISTORTIONS = (
    Distortion("too high", 1.0, 1.0, 0.5),
    Distortion("bent", 0.4, 0.3, 0.5),
    Distortion("slightly high", 1.0, 0.3, 0.5),
    Distortion("calibrated", 1.0, 0.0, 0.0),
    Distortion("calibrated, 95% hopeless", 1.0, 0.0, 0.0, 0.95),
)


def drawn(random: np.random.Generator, distortion: Distortion, questions: int) -> pd.DataFrame:
    """Return scored prefixes with their label (the outcome) and their chance of success.

    The outcome is the sign of a random walk, so each chance is exactly that of its prefix.
    """
    steps = np.repeat(random.integers(2, 7, questions), SOLUTIONS)
    question = np.repeat(np.arange(questions), SOLUTIONS)
    ability, bias = random.normal(0.3, 1.2, questions), random.normal(0, distortion.noise, questions)
    if distortion.hopeless:
        ability[random.random(questions) < distortion.hopeless] -= 4.0
    parts = []
    solution_numbers, at = np.arange(len(steps)), ability[question]
    for step in range(int(steps.max()) + 1):
        numbers = solution_numbers[steps >= step]
        if step:
            at[numbers] += random.normal(0, 1 / np.sqrt(steps[numbers]))
        spread = np.sqrt((steps[numbers] - step) / steps[numbers])
        # Half a step of the walk is never seen, so that the last chance is not 0 or 1.
        chance = ndtr(at[numbers] / np.sqrt(spread**2 + 0.5))
        parts.append(pd.DataFrame({"number": numbers, "step": step, "chance": chance}))
    prefixes = pd.concat(parts).sort_values(["number", "step"], ignore_index=True)
    right = (at + random.normal(0, np.sqrt(0.5), len(at))) > 0
    chance = prefixes["chance"].to_numpy().clip(1e-9, 1 - 1e-9)
    question_numbers = question[prefixes["number"]]
    log_odds = np.log(chance) - np.log1p(-chance)
    return prefixes.assign(
        question=question_numbers,
        solution=prefixes["number"] % SOLUTIONS,
        steps=steps[prefixes["number"]],
        reward=expit(distortion.slope * log_odds + distortion.shift + bias[question_numbers]),
        label=right[prefixes["number"]].astype(np.float64),
    )


def audited(prefixes: pd.DataFrame) -> ScoredSolutions:
    last = prefixes[prefixes["step"] == prefixes["steps"]]
    solutions = last.assign(level=None, answer=None, score=last["reward"])
    return ScoredSolutions(prefixes, solutions, (), "outcome", Scale("probability"), ())


class Truth:
    """What holds over further questions, whose chances are known."""

    def __init__(self, distortion: Distortion) -> None:
        many = drawn(np.random.default_rng(7), distortion, LARGE)
        self.distortion, self.rows, self.chance = distortion, Rows(many), many["chance"].to_numpy()
        self.signed_error = float((self.rows.reward - self.chance).mean())
        self.order = float(estimates.areas_within(audited(many).solutions).mean())

    def reduction(self, name: str, rows: Rows, chosen: Bools | slice = slice(None)) -> float:
        """Return the Brier reduction by a calibrator that is fitted to some rows."""
        if not name:
            return 0.0
        after = calibrated_rewards(fit_calibrator(name, rows, chosen), self.rows)
        return float(((self.rows.reward - self.chance) ** 2 - (after - self.chance) ** 2).mean())

    def reduction_of_folds(self, rows: Rows) -> float:
        """Return the mean reduction by the calibrators of the folds, each fitted to the others."""
        folds = list(estimates.chosen_in_folds(rows))
        return float(
            np.average(
                [self.reduction(name, rows, ~held) for held, name in folds], weights=[held.sum() for held, _ in folds]
            )
        )


def row(truth: Truth, questions: int, worlds: int) -> dict[str, str]:
    """Return a row of the table for one distortion and number of questions."""
    inside, above, repaired = defaultdict(list), defaultdict(list), []
    for world in range(worlds):
        prefixes = drawn(np.random.default_rng([world, questions]), truth.distortion, questions)
        audit, rows = measure(audited(prefixes)), Rows(prefixes)
        numbers = [("signed error", audit.signed_error, truth.signed_error)]
        if audit.order is not None and audit.order.questions >= estimates.LEAST_MIXED:
            numbers.append(("AUC", audit.order, truth.order))
        if audit.informative >= estimates.LEAST_INFORMATIVE:
            numbers.append(("Brier reduction", audit.gain, truth.reduction_of_folds(rows)))
        for kind, number, value in numbers:
            inside[kind].append(number.low <= value <= number.high)
            above[kind].append(number.low > value)
        repaired.append(audit.is_repaired)
    cells = {
        kind: f"{np.mean(inside[kind]):.3f} ({np.mean(above[kind]):.3f}), n = {len(inside[kind])}"
        if inside[kind]
        else "-"
        for kind in ("signed error", "AUC", "Brier reduction")
    }
    return {
        "scores": truth.distortion.name,
        "questions": str(questions),
        **cells,
        "repaired": f"{np.mean(repaired):.2f}",
    }


def main(worlds: int = WORLDS) -> None:
    """Write the table into ``benchmarks/README.md``."""
    truths = [Truth(distortion) for distortion in DISTORTIONS]
    rows = [row(truth, questions, worlds) for truth in truths for questions in QUESTIONS]
    write_table(README, "audit-coverage", markdown(pd.DataFrame(rows)))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
