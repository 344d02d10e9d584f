"""How often 95% intervals contain the truth: those of prmcal's rules, against percentiles of the same bootstrap.

python -m benchmarks.analysis.interval_coverage [WORLDS]

Each setting draws worlds in which the truth is known (500 by default). A coverage between .93 and .97 is good. The
truth of settings without a formula is the value over 2 million questions.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prmcal.db.statistics.bootstrap import Bootstrap, Ratio, estimate, question_totals
from prmcal.db.statistics.intervals import (
    IntervalRule,
    bounded_interval,
    percentile_interval,
    skewed_interval,
)
from prmcal.registry.strategies.scaling import adaptive_samples

QUESTIONS, WORLDS, REPLICATES, LARGE = (30, 60, 100, 500), 500, 1000, 2_000_000
POOL, FOLLOW_UPS = 64, 8

Values = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], tuple[Values, Values]]
"""From a number of questions to the sum and the count of each: the truth is the ratio of their means."""


@dataclass(frozen=True)
class Setting:
    """A statistic of questions that can be drawn."""

    name: str
    rule: IntervalRule
    draw: Draw


def mean(values: Values) -> tuple[Values, Values]:
    return values, np.ones(len(values))


def answers(accuracy: float) -> Draw:
    """Right or wrong answers."""
    return lambda random, n: mean((random.random(n) < accuracy).astype(np.float64))


def pass_rates(accuracy: float, spread: float) -> Draw:
    """Shares of right ones of a pool, of questions that are nearly all easy or hard where `spread` is small."""
    return lambda random, n: mean(
        random.binomial(POOL, random.beta(spread * accuracy, spread * (1 - accuracy), n)) / POOL
    )


def budgets(difficulty: float, target: float) -> Draw:
    """Budget ratios of best-of-n + IAS."""
    return lambda random, n: mean(adaptive_samples(random.beta(1, difficulty, n), target, POOL) / POOL)


def covered(share: float) -> Draw:
    """Coverages of quantiles: the share of covered prefixes of each question."""
    return lambda random, n: mean(random.binomial(6, random.beta(4 * share, 4 * (1 - share), n)) / 6)


def prefixes(
    random: np.random.Generator, questions: int, shift: float, noise: float
) -> tuple[NDArray[np.int64], Values, Values]:
    """Prefixes of questions: the question, the reward and the success rate of each. Hard questions have more."""
    ability = random.normal(0.5, 1.5, questions)
    question = np.repeat(np.arange(questions), 1 + random.binomial(8, 1 / (1 + np.exp(ability))))
    log_odds = ability[question] + random.normal(0, 0.8, len(question))
    seen = log_odds + shift + random.normal(0, noise, questions)[question]
    success = random.binomial(FOLLOW_UPS, 1 / (1 + np.exp(-log_odds))) / FOLLOW_UPS
    return question, 1 / (1 + np.exp(-seen)), success


def errors(kind: str, shift: float = 0.4, noise: float = 0.8) -> Draw:
    """Errors of rewards over prefixes."""

    def draw(random: np.random.Generator, questions: int) -> tuple[Values, Values]:
        question, reward, success = prefixes(random, questions, shift, noise)
        error = reward - success
        value = {
            "signed": error,
            "brier": error**2,
            "positive": np.maximum(error, 0) ** 2,
            "corrected": error**2 - success * (1 - success) / (FOLLOW_UPS - 1),
        }[kind]
        counts = question_totals(question, np.ones(len(question)), questions)
        return question_totals(question, value, questions), counts

    return draw


def searches(saved: float) -> Draw:
    """Generations of a search that saves a share of those of its baseline, on the same questions."""

    def draw(random: np.random.Generator, questions: int) -> tuple[Values, Values]:
        baseline = 8 * random.integers(2, 40, questions)
        own = np.maximum(random.binomial(baseline, random.beta(9 * (1 - saved), 9 * saved, questions)), 1)
        return own.astype(np.float64), baseline.astype(np.float64)

    return draw


SETTINGS = (
    *(Setting(f"right or wrong, {a}", bounded_interval, answers(a)) for a in (0.5, 0.8, 0.9, 0.95, 0.99)),
    *(Setting(f"pass rates, {a}", bounded_interval, pass_rates(a, 1.0)) for a in (0.5, 0.9, 0.97)),
    Setting("pass rates, 0.99, mostly 1", bounded_interval, pass_rates(0.99, 0.3)),
    *(
        Setting(f"budget ratio, {name}", bounded_interval, budgets(*given))
        for name, given in (
            ("easy questions", (0.2, 0.9)),
            ("mixed questions", (1.0, 0.9)),
            ("hard questions", (8.0, 0.99)),
            ("nearly all at N", (60.0, 0.99)),
        )
    ),
    *(Setting(f"coverage of a quantile, {share}", bounded_interval, covered(share)) for share in (0.5, 0.9)),
    Setting("signed error", skewed_interval, errors("signed")),
    Setting("Brier", skewed_interval, errors("brier")),
    Setting("positive Brier", skewed_interval, errors("positive")),
    Setting("positive Brier, cautious PRM", skewed_interval, errors("positive", -1.0)),
    Setting("corrected Brier", skewed_interval, errors("corrected")),
    Setting("corrected Brier, good PRM", skewed_interval, errors("corrected", 0.0, 0.2)),
    *(
        Setting(f"budget ratio of searches, {1 - saved:.1f}", skewed_interval, searches(saved))
        for saved in (0.2, 0.7)
    ),
)


def coverage(setting: Setting, questions: int, worlds: int, truth: float) -> tuple[float, float]:
    """Return the coverage of percentile intervals and of the rule of a setting."""
    bootstrap, identifiers = Bootstrap(REPLICATES), np.arange(questions)
    found = np.zeros(2)
    for world in range(worlds):
        sums, counts = setting.draw(np.random.default_rng([world, questions]), questions)
        ratio = estimate(Ratio(sums, counts, identifiers, setting.rule), bootstrap)
        low, high = percentile_interval(ratio.replicates, questions)
        found += low <= truth <= high, ratio.low <= truth <= ratio.high
    percentile, rule = found / worlds
    return float(percentile), float(rule)


def main() -> None:
    worlds = int(sys.argv[1]) if len(sys.argv) > 1 else WORLDS
    begun = time.perf_counter()
    print(f"{worlds} worlds; coverage of the percentile interval -> coverage of the rule")
    print("The Monte Carlo error of a coverage c is sqrt(c (1 - c) / worlds): ", end="")
    print(", ".join(f"{c}: {np.sqrt(c * (1 - c) / worlds):.3f}" for c in (0.95, 0.9, 0.6)))
    print(f"{'setting':<34}{'truth':>7}" + "".join(f"{f'{n} questions':>18}" for n in QUESTIONS))
    percentiles, rules = [], []
    for setting in SETTINGS:
        sums, counts = setting.draw(np.random.default_rng(0), LARGE)
        truth = float(sums.sum() / counts.sum())
        both = [coverage(setting, questions, worlds, truth) for questions in QUESTIONS]
        percentiles += [before for before, _ in both]
        rules += [after for _, after in both]
        cells = "".join(f"{f'{before:.3f} -> {after:.3f}':>18}" for before, after in both)
        print(f"{setting.name:<34}{truth:>7.4f}{cells}", flush=True)
    for name, found in (("percentile", percentiles), ("rule", rules)):
        good = sum(0.93 <= share <= 0.97 for share in found)
        print(f"{name:<10} {good} of {len(found)} in [.93, .97], lowest {min(found):.3f}")
    print(f"{time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
