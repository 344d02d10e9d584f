"""The table of all pools: every rule against the best fixed n of its cost, in `docs/how-to/add-a-pool.md`.

    prmcal run pools --out runs/pools
    python -m benchmarks.documents.pool_table runs/pools

The rival of a rule is chosen on the calibration questions: of best-of-n and both votes, the variant that is most
accurate there and draws no more samples than the rule does on the test questions. Between two numbers of samples,
questions are divided at random. The rule and its rival are compared on the test questions, paired by question. A rule
wins or loses where the 95% interval of the difference leaves out 0. Nothing is corrected for the number of
comparisons: of 20 rules that are equal to their rivals, one is expected to win or to lose.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.tables import write_table
from prmcal.arrays import Floats
from prmcal.errors import DataError
from prmcal.harness.audit.estimates import Number, mean_of_questions
from prmcal.harness.jobs.context import Context
from prmcal.harness.jobs.job import TUNING, Shard
from prmcal.harness.jobs.parameters import StrategyParameters
from prmcal.harness.jobs.pools import graded_trajectories, pool_of, tuning_pool
from prmcal.harness.planning.plan import Plan, PlannedCell
from prmcal.harness.planning.saved import existing_plan
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import Store
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Allowance, PoolStrategy
from prmcal.registry.plugins import strategies

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "add-a-pool.md"
FIXED = ("best-of-n", "majority vote", "weighted best-of-n")
# It uses the truth, so it has no rival of equal cost.
LEFT_OUT = ("pass@N",)
_MANY = 3  # settings


class RuleComparison(NamedTuple):
    """A rule at a setting, against its rival."""

    setting: str
    rule: str
    samples: float
    accuracy: float
    rival: str
    difference: Number

    @property
    def outcome(self) -> str:
        """Won, lost or tied."""
        return "won" if self.difference.low > 0 else "lost" if self.difference.high < 0 else "tied"


class Fixed(NamedTuple):
    """The variants of a rule that draws a fixed number of samples: the number, and the accuracy of each question."""

    name: str
    counts: Floats
    tuning: Floats
    test: Floats

    def within(self, budget: float) -> Iterator[tuple[str, Floats, Floats]]:
        """Yield the variants of at most a cost, the last one as a mixture of two: the name and both accuracies."""
        last = int(np.searchsorted(self.counts, budget + 1e-9, side="right"))
        for index in range(last):
            yield f"{self.name} of {self.counts[index]:g}", self.tuning[index], self.test[index]
        if 0 < last < len(self.counts) and budget > self.counts[last - 1] + 1e-9:
            share = (budget - self.counts[last - 1]) / (self.counts[last] - self.counts[last - 1])
            mixed = ((1 - share) * table[last - 1] + share * table[last] for table in (self.tuning, self.test))
            yield f"{self.name} of {budget:.1f}", *mixed


def fixed_rules(tuning: Pool, test: Pool) -> list[Fixed]:
    """Return all fixed rules, without votes where samples have no answers."""
    rules, samples = [], min(tuning.size, test.size)
    for name in FIXED:
        rule = strategies.create(name)
        assert isinstance(rule, PoolStrategy)
        try:
            swept = [rule.sweep(pool, Allowance(samples)) for pool in (tuning, test)]
        except DataError:
            continue
        counts = np.array([answered.samples.mean() for answered in swept[1]])
        rules.append(Fixed(name, counts, *(np.stack([answered.accuracy for answered in sweep]) for sweep in swept)))
    return rules


def compared(directory: Path) -> Iterator[RuleComparison]:
    """Yield every rule of a finished run at every setting."""
    plan, context = existing_plan(RunFolder(directory)), Context(Store(directory))
    fixed_of: dict[tuple[str, str, str], list[Fixed]] = {}
    for shard, cell in _cells(plan):
        at = cell.labels.llm, cell.labels.prm, cell.labels.dataset
        if at[1] and at not in fixed_of and {"score", f"{TUNING}score"} <= set(shard.inputs):
            test = pool_of(shard, context, graded_trajectories(shard, context), ("scores",), None)
            fixed_of[at] = fixed_rules(tuning_pool(shard, context, ("scores",), None), test)
    for shard, cell in _cells(plan):
        if cell.strategy in LEFT_OUT:
            continue
        table = context.store.read(shard.ref, "question_results").to_pandas()
        values = table.pivot(index="question_id", columns="metric", values="value").sort_index()
        accuracy, budget = values["accuracy"].to_numpy(), float(values["samples"].mean())
        for (llm, prm, dataset), fixed in fixed_of.items():
            if (llm, dataset) == (cell.labels.llm, cell.labels.dataset) and cell.labels.prm in ("", prm):
                rivals = [variant for rule in fixed for variant in rule.within(budget)]
                name, _, rival = max(rivals, key=lambda variant: round(float(variant[1].mean()), 9))
                difference = mean_of_questions(accuracy - rival, -1.0)
                setting = llm if llm == prm else f"{llm}, {prm}"
                yield RuleComparison(setting, cell.strategy, budget, float(accuracy.mean()), name, difference)


def _cells(plan: Plan) -> Iterator[tuple[Shard[StrategyParameters], PlannedCell]]:
    for cell in plan.cells:
        (shard, *_) = cell.job.shards
        if cell.leaderboard == "scaling" and isinstance(shard.parameters, StrategyParameters):
            yield shard, cell  # type: ignore[misc]  # its parameters are checked


def page(compared_rows: list[RuleComparison]) -> str:
    """Return the table as Markdown: of each rule its wins, ties and losses, the mean difference and where it lost."""
    rules: dict[str, list[RuleComparison]] = {}
    for row in compared_rows:
        rules.setdefault(row.rule, []).append(row)
    lines = [
        f"| rule | {len({row.setting for row in compared_rows})} settings: W-T-L | points | loses at |",
        "|" + " --- |" * 4,
    ]
    for rule, of_rule in sorted(rules.items(), key=lambda pair: _standing(pair[1])):
        counts = [sum(row.outcome == outcome for row in of_rule) for outcome in ("won", "tied", "lost")]
        lost = [row.setting for row in of_rule if row.outcome == "lost"]
        named = "; ".join(lost) if len(lost) < _MANY else f"{len(lost)} settings"
        mean = np.mean([row.difference.value for row in of_rule])
        lines.append(f"| {rule} | {'-'.join(map(str, counts))} | {100 * mean:+.1f} | {named} |")
    return "\n".join(lines)


def _standing(of_rule: list[RuleComparison]) -> tuple[int, float]:
    won, lost = (sum(row.outcome == outcome for row in of_rule) for outcome in ("won", "lost"))
    return lost - won, -float(np.mean([row.difference.value for row in of_rule]))


def main() -> None:
    """Write the table into the page, and print it."""
    text = page(list(compared(Path(sys.argv[1]))))
    print(text)
    write_table(PAGE, "pools", text)


if __name__ == "__main__":
    main()
