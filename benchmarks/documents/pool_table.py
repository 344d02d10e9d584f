"""The table of all pools: every rule against the best fixed setting of its cost, in `docs/how-to/add-a-pool.md`.

    prmcal run pools --out runs/pools
    python -m benchmarks.documents.pool_table runs/pools

It also makes pools whose verifiers have an AUC within questions of .55 to .99 and whose wrong answers agree, and runs
the rules of the grid on them. None of it is shipped.

The rival of a rule is chosen on the calibration questions: of best-of-n and both votes, the setting that is most
accurate there and draws no more samples than the rule does on the test questions. Between two numbers of samples,
questions are divided at random. The rule and its rival are compared on the test questions, paired by question. A rule
wins or loses where the 95% interval of the difference leaves out 0. Nothing is corrected for the number of
comparisons: of 20 rules that are equal to their rivals, one is expected to win or to lose.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import yaml

from benchmarks.statistics.safe_choice import World
from prmcal import run
from prmcal.arrays import Floats
from prmcal.errors import DataError
from prmcal.harness.audit.estimates import Number, mean_of_questions
from prmcal.harness.jobs.context import Context
from prmcal.harness.jobs.job import TUNING, Shard
from prmcal.harness.jobs.parameters import StrategyParameters
from prmcal.harness.jobs.pools import graded_trajectories, pool_of, tuning_pool
from prmcal.harness.planning.plan import Cell, Plan
from prmcal.harness.planning.reading import find_grid
from prmcal.harness.planning.saved import existing_plan
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import Store
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import PoolStrategy, Setting
from prmcal.registry.plugins import strategies
from prmcal.registry.reading.pools import Card, write_pool

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "add-a-pool.md"
FIXED = ("best-of-n", "majority vote", "weighted best-of-n")
# It uses the truth, so it has no rival of equal cost.
LEFT_OUT = ("pass@N",)
AUCS, THETA, SUCCESSES = (0.55, 0.65, 0.75, 0.85, 0.95, 0.99), 2.0, (0.5, 1.0)
_MANY = 3  # places
_MARK = re.compile(r"(<!-- pools -->\n).*?(<!-- end -->)", re.DOTALL)


class Compared(NamedTuple):
    """A rule at a place, against its rival."""

    place: str
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
    """The settings of a rule that draws a fixed number of samples: the number, and the accuracy of each question."""

    name: str
    counts: Floats
    tuning: Floats
    test: Floats

    def within(self, budget: float) -> Iterator[tuple[str, Floats, Floats]]:
        """Yield the settings of at most a cost, the last one as a mixture of two: the name and both accuracies."""
        last = int(np.searchsorted(self.counts, budget + 1e-9, side="right"))
        for place in range(last):
            yield f"{self.name} of {self.counts[place]:g}", self.tuning[place], self.test[place]
        if 0 < last < len(self.counts) and budget > self.counts[last - 1] + 1e-9:
            share = (budget - self.counts[last - 1]) / (self.counts[last] - self.counts[last - 1])
            mixed = ((1 - share) * each[last - 1] + share * each[last] for each in (self.tuning, self.test))
            yield f"{self.name} of {budget:.1f}", *mixed


def fixed_settings(tuning: Pool, test: Pool) -> list[Fixed]:
    """Return the settings of all fixed rules, without votes where samples have no answers."""
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
    """Yield every rule of a finished run at every place."""
    plan, context = existing_plan(RunFolder(directory)), Context(Store(directory))
    known: dict[tuple[str, str, str], list[Fixed]] = {}
    for shard, cell in _cells(plan):
        at = cell.labels.llm, cell.labels.prm, cell.labels.dataset
        if at[1] and at not in known and {"score", f"{TUNING}score"} <= set(shard.inputs):
            test = pool_of(shard, context, graded_trajectories(shard, context), ("scores",), None)
            known[at] = fixed_settings(tuning_pool(shard, context, ("scores",), None), test)
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
                place = llm if llm == prm else f"{llm}, {prm}"
                yield Compared(place, cell.strategy, budget, float(accuracy.mean()), name, found)


def _cells(plan: Plan) -> Iterator[tuple[Shard[StrategyParameters], Cell]]:
    for cell in plan.cells:
        (shard, *_) = cell.job.shards
        if cell.leaderboard == "scaling" and isinstance(shard.parameters, StrategyParameters):
            yield shard, cell  # type: ignore[misc]  # its parameters are checked


def synthetic(folder: Path) -> Path:
    """Make the pools with known verifiers, run the rules of the grid on them, and return the folder of the run."""
    parts: list[dict[str, Any]] = []
    for auc in AUCS:
        pool = World(auc, THETA, SUCCESSES).pool(np.random.default_rng(0))
        shape, name = pool.correct.shape, f"auc-{auc:.2f}"
        rows = pd.DataFrame(
            {
                "llm": name,
                "question": np.repeat([f"{name} {number}" for number in range(shape[0])], shape[1]),
                "solution": np.tile(np.arange(shape[1]), shape[0]),
                "score": pool.scores.ravel(),
                "correct": pool.correct.ravel(),
                "prediction": pool.answers.ravel(),
            }
        )
        path = folder / f"{name}.parquet"
        write_pool(path, rows, Card("Simulated.", "benchmarks", "Apache-2.0", {"score": f"an AUC of {auc}"}))
        given = {"path": str(path)}
        data = {"name": name, "plugin": "jsonl", "arguments": {**given, "calibration_share": 0.5}}
        parts.append(
            {
                "llms": [{"name": name, "plugin": "recorded", "arguments": given}],
                "prms": [{"name": name, "plugin": "recorded", "arguments": {**given, "scale": "logit"}}],
                "calibration": {**data, "trajectories": shape[1], "follow_ups": 1, "terminal": True},
                "datasets": [data],
                "measurement": {"measured": shape[1], "follow_ups": 2, "terminal": True, "replicates": 100},
                "scaling": {"samples": shape[1]},
            }
        )
    grid = yaml.safe_load(find_grid("pools").read_text(encoding="utf-8"))
    rules = [{"name": each} if isinstance(each, str) else {**each} for each in grid["strategies"]]
    # The simulated samples have one score, so they are read in one way.
    rules = [
        {key: rule[key] for key in rule if key != "datasets"} for rule in rules if "arguments" not in rule
    ]
    grid |= {"name": "synthetic", "parts": parts, "strategies": rules, "league": False}
    # One sigmoid is enough for the rules that read rewards.
    grid |= {"calibrators": ["uncalibrated"], "shards": {"questions": 300, "trajectories": 16}}
    run(grid, folder / "run", workers=2)
    return folder / "run"


def rows_of(found: list[Compared], rule: str) -> list[str]:
    """Return the cells of a line about some places: wins, ties, losses, the mean difference and where it lost."""
    own = [each for each in found if each.rule == rule]
    if not own:
        return ["", "", ""]
    counts = [sum(each.outcome == outcome for each in own) for outcome in ("won", "tied", "lost")]
    mean = np.mean([each.difference.value for each in own])
    lost = [each.place for each in own if each.outcome == "lost"]
    named = "; ".join(lost) if len(lost) < _MANY or lost[0].startswith("auc") else f"{len(lost)} places"
    return ["-".join(map(str, counts)), f"{100 * mean:+.1f}", named]


def page(real: list[Compared], made: list[Compared]) -> str:
    """Return the table as Markdown."""
    rules = list(dict.fromkeys(each.rule for each in (*real, *made)))
    rules.sort(key=lambda rule: _standing([*real, *made], rule))
    places = len(dict.fromkeys(each.place for each in real))
    lines = [
        f"| rule | {places} shipped: W-T-L | points | loses at "
        f"| {len(AUCS)} simulated: W-T-L | points | loses at AUC |",
        "|" + " --- |" * 7,
    ]
    for rule in rules:
        simulated = rows_of(made, rule)
        simulated[2] = simulated[2].replace("auc-0", "").replace(";", ",")
        lines.append("| " + " | ".join([rule, *rows_of(real, rule), *simulated]) + " |")
    return "\n".join(lines)


def _standing(found: list[Compared], rule: str) -> tuple[float, float]:
    own = [each for each in found if each.rule == rule]
    won, lost = (sum(each.outcome == outcome for each in own) for outcome in ("won", "lost"))
    return (lost - won) / len(own), -float(np.mean([each.difference.value for each in own]))


def main() -> None:
    """Write the table into the page, and print it."""
    real = list(compared(Path(sys.argv[1])))
    with tempfile.TemporaryDirectory() as folder:
        made = list(compared(synthetic(Path(folder))))
    text = page(real, made)
    print(text)
    given = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(_MARK.sub(lambda mark: f"{mark[1]}{text}\n{mark[2]}", given), encoding="utf-8")


if __name__ == "__main__":
    main()
