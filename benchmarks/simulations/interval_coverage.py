"""How often 95% intervals contain the truth, and how often paired tests see a difference where there is none.

python -m benchmarks.simulations.interval_coverage [WORLDS [WORD...]]

Each simulation draws worlds in which the truth is known (400 by default). With words, only those simulations are run
whose names contain one. A coverage of .95 is good, and a larger one is cautious. A test should see a difference in 5%
of worlds at most. The rows of ``docs/concepts/coverage.csv`` are written again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import norm

from prmcal.db.overview.ranking import rank_by_means
from prmcal.db.statistics.bootstrap import Bootstrap, Ratio, Statistic, estimate
from prmcal.db.statistics.budgets import Curve
from prmcal.db.statistics.intervals import (
    IntervalRule,
    bounded_interval,
    error_interval,
    signed_interval,
    skewed_interval,
)
from prmcal.db.statistics.paired import Replicated, replicated_difference
from prmcal.harness.metrics.league import area_gain, saving
from prmcal.harness.metrics.measured import statistic_of
from prmcal.registry.contracts.metric import PrefixRows
from prmcal.registry.plugins import metrics
from prmcal.registry.strategies.scaling import adaptive_samples

QUESTIONS, WORLDS, LARGE, MANY = (12, 30, 100, 500), 400, 500_000, 20_000
POOL, FOLLOW_UPS, CALIBRATORS = 64, 8, 6
BOOTSTRAP = Bootstrap(1000)
TABLE = Path(__file__).parents[2] / "docs" / "concepts" / "coverage.csv"

Random = np.random.Generator
Values = NDArray[np.float64]
Draw = Callable[[Random, int], tuple[Values, Values]]
"""From a number of questions to the sum and the count of each: the truth is the ratio of their means."""
Prefixes = Callable[[Random, Random, int], tuple[NDArray[np.int64], Values, Values]]
"""From a number of questions to the question, the reward and the success probability of each prefix. The second source
of random numbers is for the rewards only."""


Simulation = Callable[[int, int], float]
"""From numbers of questions and worlds to the share of worlds in which an interval contains the truth, or a test sees a
difference."""


def mean(values: Values) -> tuple[Values, Values]:
    return values, np.ones(len(values))


def answers(accuracy: float) -> Draw:
    """Right or wrong answers."""
    return lambda random, n: mean((random.random(n) < accuracy).astype(np.float64))


def one_label(accuracy: float, reward: float) -> Draw:
    """Signed errors of one solution for each question, whose labels nearly all agree."""
    return lambda random, n: mean(reward - (random.random(n) < accuracy).astype(np.float64))


def pass_rates(accuracy: float, spread: float) -> Draw:
    """Shares of right ones of a pool, of questions that are nearly all easy or hard where `spread` is small."""
    return lambda random, n: mean(
        random.binomial(POOL, random.beta(spread * accuracy, spread * (1 - accuracy), n)) / POOL
    )


def budgets(difficulty: float, target: float) -> Draw:
    """Budget ratios of best-of-n + IAS."""
    return lambda random, n: mean(adaptive_samples(random.beta(1, difficulty, n), target, POOL) / POOL)


def searches(saved: float) -> Draw:
    """Generations of a search that saves a share of those of its baseline, on the same questions."""

    def draw(random: Random, questions: int) -> tuple[Values, Values]:
        baseline = 8 * random.integers(2, 40, questions)
        steps = np.maximum(random.binomial(baseline, random.beta(9 * (1 - saved), 9 * saved, questions)), 1)
        return steps.astype(np.float64), baseline.astype(np.float64)

    return draw


def prefixes(
    random: Random, errors: Random, questions: int, shift: float = 0.4, noise: float = 0.8
) -> tuple[NDArray[np.int64], Values, Values]:
    """Prefixes of which hard questions have more."""
    ability = random.normal(0.5, 1.5, questions)
    question = np.repeat(np.arange(questions), 1 + random.binomial(8, expit(-ability)))
    log_odds = ability[question] + random.normal(0, 0.8, len(question))
    return question, expit(log_odds + shift + errors.normal(0, noise, questions)[question]), expit(log_odds)


def hopeless(random: Random, errors: Random, questions: int, share: float) -> tuple[NDArray[np.int64], Values, Values]:
    """A share of questions without any chance, whose rewards are low."""
    question, reward, p = prefixes(random, errors, questions)
    none = (random.random(questions) < share)[question]
    low = expit(errors.normal(-3.5, 0.7, len(question)))
    return question, np.where(none, low, reward), np.where(none, 0.0, p)


def blunders(random: Random, errors: Random, questions: int, share: float) -> tuple[NDArray[np.int64], Values, Values]:
    """Good rewards, except on a share of the questions, where they are nearly the opposite."""
    question, reward, p = prefixes(random, errors, questions, 0.0, 0.2)
    wrong = (errors.random(questions) < share)[question]
    return question, np.where(wrong, np.where(p > 0.5, 0.03, 0.97), reward), p


def errors(kind: str, of: Prefixes = prefixes) -> Draw:
    """Errors of rewards over prefixes."""

    def draw(random: Random, questions: int) -> tuple[Values, Values]:
        question, reward, p = of(random, random, questions)
        success = random.binomial(FOLLOW_UPS, p) / FOLLOW_UPS
        error = reward - success
        value = {
            "signed": error,
            "brier": error**2,
            "positive": np.maximum(error, 0) ** 2,
            "corrected": error**2 - success * (1 - success) / (FOLLOW_UPS - 1),
        }[kind]
        counts = np.bincount(question, minlength=questions).astype(np.float64)
        return np.bincount(question, value, questions).astype(np.float64), counts

    return draw


def mean_of(rule: IntervalRule, draw: Draw) -> Simulation:
    """A ratio of sums over questions, with a rule for its interval."""

    def share(questions: int, worlds: int) -> float:
        sums, counts = draw(np.random.default_rng(0), LARGE)
        truth = float(sums.sum() / counts.sum())
        linearised = []
        for world in range(worlds):
            drawn = draw(np.random.default_rng([world, questions]), questions)
            linearised.append(Ratio(*drawn, np.arange(questions), rule).linearised())
        low, high = rule(np.stack(linearised, axis=1))
        return float(np.mean((low <= truth) & (truth <= high)))

    return share


def estimated(
    draw: Callable[[Random, int], Statistic], truth_of: Callable[[Random, int], float] | None = None
) -> Simulation:
    """A statistic of drawn questions. Without a truth, it is the value over many of them."""

    def share(questions: int, worlds: int) -> float:
        many = np.random.default_rng(0)
        truth = truth_of(many, MANY) if truth_of else draw(many, MANY).value()
        covered = 0
        for world in range(worlds):
            drawn = estimate(draw(np.random.default_rng([world, questions]), questions), BOOTSTRAP)
            covered += drawn.low <= truth <= drawn.high
        return covered / worlds

    return share


def stopping(random: Random, questions: int, share: float) -> tuple[Curve, Curve]:
    """A strategy that knows when to stop on a share of the questions, and a fixed number of samples."""
    p = np.clip(random.beta(0.5, 0.5, questions)[:, None], 1e-6, 1.0)
    n = 2 ** np.arange(5)
    right, knows = 1 - (1 - p) ** n, random.random(questions)[:, None] < share
    used, costs = np.where(knows, right / p, n), np.broadcast_to(n, right.shape)
    return Curve(used, right, bounded_interval), Curve(costs.astype(np.float64), right, bounded_interval)


def of_league(of: Callable[..., Statistic], share: float, *more: float) -> Simulation:
    """A number of a strategy in the league."""
    return estimated(lambda random, n: of(np.arange(n), *stopping(random, n, share), 16, *more))


def quantiles(
    random: Random, questions: int, follow_ups: int, level: float, too_sure: float = 1.0
) -> tuple[PrefixRows, Values]:
    """Prefixes with quantiles of p given what a PRM sees, which are right for `too_sure` = 1."""
    question = np.repeat(np.arange(questions), random.integers(4, 12, questions))
    log_odds = random.normal(0, 1.0, questions)[question] + random.normal(0, 1, len(question))
    observed = log_odds + random.normal(0, 1, len(question))
    reward = expit(too_sure * (observed * 2 / 3 + np.sqrt(2 / 3) * norm.ppf(level)))
    p, n = expit(log_odds), np.full(len(question), follow_ups)
    return PrefixRows(reward, random.binomial(n, p), n, question), p


def coverage(follow_ups: int, level: float, too_sure: float = 1.0) -> Simulation:
    """The coverage of a quantile."""

    def truth(random: Random, questions: int) -> float:
        rows, p = quantiles(random, questions, follow_ups, level, too_sure)
        return float((rows.totals((p >= rows.reward).astype(np.float64)) / rows.counts).mean())

    return estimated(
        lambda random, n: measured("coverage", quantiles(random, n, follow_ups, level, too_sure)[0]), truth
    )


def measured(metric: str, rows: PrefixRows) -> Statistic:
    statistic = statistic_of(metrics.create(metric), rows, BOOTSTRAP)
    assert statistic is not None
    return statistic


def tested(metric: str, of: Prefixes = prefixes) -> Simulation:
    """The paired test of a metric between two calibrators with errors of their own and the same truth."""

    def share(questions: int, worlds: int) -> float:
        significant = 0
        for world in range(worlds):
            seed, cells = [world, questions], []
            for cell in range(2):
                sources = (np.random.default_rng(seed), np.random.default_rng([*seed, cell + 2]))
                question, reward, p = of(*sources, questions)
                n = np.full(len(p), FOLLOW_UPS)
                k = np.random.default_rng([*seed, 1]).binomial(n, p)
                drawn = estimate(measured(metric, PrefixRows(reward, k, n, question)), BOOTSTRAP)
                cells.append(Replicated(drawn.value, drawn.replicates, questions))
            significant += replicated_difference(*cells).p_value < 0.05
        return significant / worlds

    return share


def ranked(apart: float, settings: int, position: bool) -> Simulation:
    """The ranking of six calibrators over settings of one data set, which have common questions.

    Neighbours are `apart` standard errors of a difference with 100 questions. It is about the rank with `position`, and
    otherwise about the mean rank.
    """

    def share(questions: int, worlds: int) -> float:
        means = pd.Series(np.arange(CALIBRATORS) * apart / 10)
        lowest, highest = (means.rank(method="min"), means.rank(method="max")) if position else (means.rank(),) * 2
        axes = {"question_id": questions, "llm": settings, "calibrator": CALIBRATORS}
        table = pd.MultiIndex.from_product([range(size) for size in axes.values()], names=[*axes]).to_frame(False)
        table = table.assign(dataset="d", prm="p")
        covered = []
        for world in range(worlds):
            random = np.random.default_rng([world, questions])
            noise = random.normal(0, 0.5**0.5, (questions, settings, CALIBRATORS))
            # What is common to all settings of a question.
            noise = (noise + random.normal(0, 0.5**0.5, (questions, 1, CALIBRATORS))) / 2**0.5
            table["value"] = (noise + means.to_numpy()).ravel()
            for calibrator, rank in rank_by_means(table, "calibrator").items():
                ends = (rank.rank_low, rank.rank_high) if position else (rank.mean_rank.low, rank.mean_rank.high)
                covered.append(ends[0] - 1e-9 <= highest[calibrator] and lowest[calibrator] <= ends[1] + 1e-9)
        return float(np.mean(covered))

    return share


def corrected(of: Prefixes) -> Simulation:
    """The corrected Brier score of some prefixes."""
    return mean_of(error_interval, errors("corrected", of))


SIMULATIONS: dict[str, Simulation] = {
    # Their intervals should contain the truth in 95% of worlds.
    **{f"right or wrong, {a}": mean_of(bounded_interval, answers(a)) for a in (0.5, 0.8, 0.9, 0.95, 0.99)},
    **{f"share, {a}": mean_of(bounded_interval, answers(a)) for a in (0.02, 0.05)},
    **{f"pass rates, {a}": mean_of(bounded_interval, pass_rates(a, 1.0)) for a in (0.5, 0.9, 0.97)},
    "pass rates, 0.99, mostly 1": mean_of(bounded_interval, pass_rates(0.99, 0.3)),
    **{f"budget ratio, Beta(1, {d:g})": mean_of(bounded_interval, budgets(d, 0.95)) for d in (0.2, 1.0, 8.0, 60.0)},
    **{f"budget ratio of searches, {1 - s:.1f}": mean_of(skewed_interval, searches(s)) for s in (0.2, 0.7)},
    "signed error": mean_of(signed_interval, errors("signed")),
    **{f"signed error of one label, {a} right": mean_of(signed_interval, one_label(a, 1.0)) for a in (0.97, 0.9)},
    "signed error, 5% blunders": mean_of(signed_interval, errors("signed", partial(blunders, share=0.05))),
    "Brier": mean_of(error_interval, errors("brier")),
    "Brier, 2% blunders": mean_of(error_interval, errors("brier", partial(blunders, share=0.02))),
    "positive Brier": mean_of(error_interval, errors("positive")),
    "positive Brier, cautious PRM": mean_of(error_interval, errors("positive", partial(prefixes, shift=-1.0))),
    "corrected Brier": corrected(prefixes),
    "corrected Brier, good PRM": corrected(partial(prefixes, shift=0.0, noise=0.2)),
    **{
        f"corrected Brier, {100 * h:.0f}% hopeless": corrected(partial(hopeless, share=h))
        for h in (0.8, 0.9, 0.95, 0.97)
    },
    **{f"corrected Brier, {100 * b:.0f}% blunders": corrected(partial(blunders, share=b)) for b in (0.02, 0.05, 0.1)},
    "gain over fixed n": of_league(area_gain, 0.9),
    "gain over fixed n, on 5% of questions": of_league(area_gain, 0.05),
    "saving at 95%": of_league(saving, 0.9, 0.95),
    "saving at 95%, on 5% of questions": of_league(saving, 0.05, 0.95),
    **{f"coverage of level {b:g}, {n} follow-ups": coverage(n, b) for n in (4, 8) for b in (0.1, 0.5, 0.9)},
    **{f"coverage of level 0.5, too sure, {n} follow-ups": coverage(n, 0.5, 2.0) for n in (4, 8)},
    **{
        f"{'rank' if position else 'mean rank'}, {settings} settings, {words}": ranked(apart, settings, position)
        for position in (False, True)
        for settings in (1, 6)
        for words, apart in (("equal", 0.0), ("close", 0.3), ("clear", 3.0))
    },
    # They should see a difference in at most 5% of worlds.
    **{f"test of {metric}": tested(metric) for metric in ("brier_corrected", "signed_error", "adaptive_ce_corrected")},
    **{
        f"test of {metric}, high rewards": tested(metric, partial(prefixes, shift=2.5))
        for metric in ("brier_corrected", "adaptive_ce_corrected")
    },
    **{
        f"test of brier_corrected, {100 * h:.0f}% hopeless": tested("brier_corrected", partial(hopeless, share=h))
        for h in (0.8, 0.95)
    },
    **{
        f"test of {metric}, 5% blunders": tested(metric, partial(blunders, share=0.05))
        for metric in ("brier_corrected", "signed_error")
    },
}
"""The simulations by their names in the table."""


def main() -> None:
    """Print the table, and write it into the documentation."""
    worlds, words = int(sys.argv[1]) if len(sys.argv) > 1 else WORLDS, sys.argv[2:]
    table = pd.read_csv(TABLE, index_col=0, dtype=str)
    print(f"{worlds} worlds; the Monte Carlo error of .95 is {np.sqrt(0.05 * 0.95 / worlds):.3f}; {QUESTIONS}")
    for name, share in SIMULATIONS.items():
        if not words or any(word in name for word in words):
            table.loc[name] = [f"{share(questions, worlds):.3f}" for questions in QUESTIONS]
            print(f"{name:<52}", *table.loc[name], flush=True)
    table.reindex(list(SIMULATIONS)).to_csv(TABLE)


if __name__ == "__main__":
    main()
