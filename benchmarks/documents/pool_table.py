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

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from prmcal.arrays import Floats
from prmcal.errors import DataError
from prmcal.harness.audit.estimates import Number, mean_of_questions
from prmcal.harness.jobs.context import Context
from prmcal.harness.jobs.job import TUNING, Shard
from prmcal.harness.jobs.parameters import StrategyParameters
from prmcal.harness.jobs.pools import graded_trajectories, pool_of, tuning_pool
from prmcal.harness.planning.plan import Cell, Plan
from prmcal.harness.planning.saved import existing_plan
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import Store
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import PoolStrategy, Setting
from prmcal.registry.plugins import strategies

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "add-a-pool.md"
FIXED = ("best-of-n", "majority vote", "weighted best-of-n")
# It uses the truth, so it has no rival of equal cost.
LEFT_OUT = ("pass@N",)
_MANY = 3  # settings
_MARK = re.compile(r"(<!-- pools -->\n).*?(<!-- end -->)", re.DOTALL)


class Compared(NamedTuple):
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
        for place in range(last):
            yield f"{self.name} of {self.counts[place]:g}", self.tuning[place], self.test[place]
        if 0 < last < len(self.counts) and budget > self.counts[last - 1] + 1e-9:
            share = (budget - self.counts[last - 1]) / (self.counts[last] - self.counts[last - 1])
            mixed = ((1 - share) * each[last - 1] + share * each[last] for each in (self.tuning, self.test))
            yield f"{self.name} of {budget:.1f}", *mixed


def fixed_rules(tuning: Pool, test: Pool) -> list[Fixed]:
    """Return all fixed rules, without votes where samples have no answers."""
    found, most = [], min(tuning.size, test.size)
    for name in FIXED:
        rule = strategies.create(name)
        assert isinstance(rule, PoolStrategy)
        try:
            swept = [rule.sweep(each, Setting(most)) for each in (tuning, test)]
        except DataError:
            continue
        counts = np.array([each.samples.mean() for each in swept[1]])
        found.append(Fixed(name, counts, *(np.stack([each.accuracy for each in one]) for one in swept)))
    return found


def compared(directory: Path) -> Iterator[Compared]:
    """Yield every rule of a finished run at every setting."""
    plan, context = existing_plan(RunFolder(directory)), Context(Store(directory))
    known: dict[tuple[str, str, str], list[Fixed]] = {}
    for shard, cell in _cells(plan):
        at = cell.labels.llm, cell.labels.prm, cell.labels.dataset
        if at[1] and at not in known and {"score", f"{TUNING}score"} <= set(shard.inputs):
            test = pool_of(shard, context, graded_trajectories(shard, context), ("scores",), None)
            known[at] = fixed_rules(tuning_pool(shard, context, ("scores",), None), test)
    for shard, cell in _cells(plan):
        if cell.strategy in LEFT_OUT:
            continue
        table = context.store.read(shard.ref, "question_results").to_pandas()
        values = table.pivot(index="question_id", columns="metric", values="value").sort_index()
        accuracy, budget = values["accuracy"].to_numpy(), float(values["samples"].mean())
        for (llm, prm, dataset), fixed in known.items():
            if (llm, dataset) == (cell.labels.llm, cell.labels.dataset) and cell.labels.prm in ("", prm):
                rivals = [each for one in fixed for each in one.within(budget)]
                name, _, rival = max(rivals, key=lambda each: round(float(each[1].mean()), 9))
                found = mean_of_questions(accuracy - rival, -1.0)
                setting = llm if llm == prm else f"{llm}, {prm}"
                yield Compared(setting, cell.strategy, budget, float(accuracy.mean()), name, found)


def _cells(plan: Plan) -> Iterator[tuple[Shard[StrategyParameters], Cell]]:
    for cell in plan.cells:
        (shard, *_) = cell.job.shards
        if cell.leaderboard == "scaling" and isinstance(shard.parameters, StrategyParameters):
            yield shard, cell  # type: ignore[misc]  # its parameters are checked


def page(found: list[Compared]) -> str:
    """Return the table as Markdown: of each rule its wins, ties and losses, the mean difference and where it lost."""
    rules: dict[str, list[Compared]] = {}
    for each in found:
        rules.setdefault(each.rule, []).append(each)
    lines = [
        f"| rule | {len({each.setting for each in found})} settings: W-T-L | points | loses at |",
        "|" + " --- |" * 4,
    ]
    for rule, own in sorted(rules.items(), key=lambda each: _standing(each[1])):
        counts = [sum(each.outcome == outcome for each in own) for outcome in ("won", "tied", "lost")]
        lost = [each.setting for each in own if each.outcome == "lost"]
        named = "; ".join(lost) if len(lost) < _MANY else f"{len(lost)} settings"
        mean = np.mean([each.difference.value for each in own])
        lines.append(f"| {rule} | {'-'.join(map(str, counts))} | {100 * mean:+.1f} | {named} |")
    return "\n".join(lines)


def _standing(own: list[Compared]) -> tuple[float, float]:
    won, lost = (sum(each.outcome == outcome for each in own) for outcome in ("won", "lost"))
    return (lost - won) / len(own), -float(np.mean([each.difference.value for each in own]))


def main() -> None:
    """Write the table into the page, and print it."""
    text = page(list(compared(Path(sys.argv[1]))))
    print(text)
    given = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(_MARK.sub(lambda mark: f"{mark[1]}{text}\n{mark[2]}", given), encoding="utf-8")


if __name__ == "__main__":
    main()
