"""All rules against the best fixed setting of equal cost and against each other, on pools of many kinds.

python -m benchmarks.statistics.rules [--write DOCUMENT] [POOL...]

A pool is the name of a synthetic one (`benchmarks.statistics.safe_choice`), or a file that this reads. Rules are tuned
on one half of the questions and measured on the other, and the reverse. A rule's number is its accuracy over budgets
from 1 to N samples, as in the league, less that of the best fixed setting of equal cost: best-of-n, vote or weighted
vote, whichever is most accurate on the questions that tune. In parentheses are its wins, ties and losses against all
other rules, by the paired test of the league.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.statistics.safe_choice import WORLDS, insert, recorded
from prmcal.db.statistics.bootstrap import Bootstrap, estimate
from prmcal.db.statistics.budgets import Curve
from prmcal.db.statistics.intervals import bounded_interval
from prmcal.errors import DataError
from prmcal.harness.metrics.league import area_gain
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Answered, PoolStrategy, Setting
from prmcal.registry.plugins import strategies
from prmcal.registry.strategies.best_of import curve_counts

FIXED = ("best-of-n", "majority vote", "weighted best-of-n")
RULES = (
    *FIXED,
    "adaptive consistency",
    "ESC",
    "first good enough",
    "posterior vote",
    "pandora",
    "BEACON",
    "learned stopping",
    "safe choice",
)
Parts = list[tuple[Pool, Pool]]
"""Questions to tune on and questions to measure, which together are all questions once."""


def pools(name: str) -> Iterator[tuple[str, Parts]]:
    """Yield the pools of a name."""
    path = Path(name)
    pool = WORLDS[name].pool(np.random.default_rng(0)) if name in WORLDS else recorded(path)
    half = np.random.default_rng(1).permutation(pool.questions) % 2 == 0
    both = [pool.drawn(np.flatnonzero(each), slice(None)) for each in (half, ~half)]
    yield name if name in WORLDS else path.stem, [(both[0], both[1]), (both[1], both[0])]


def swept(name: str, known: Pool, new: Pool, most: int) -> tuple[Answered, ...]:
    """Return the curve of a rule on new questions."""
    strategy = strategies.create(name)
    assert isinstance(strategy, PoolStrategy)
    if strategy.tuned:
        strategy.tune(known, Setting(most))
    return strategy.sweep(new, Setting(most))


def curve(parts: list[list[Answered]], first: np.ndarray, most: int) -> Curve:
    """Return the curve over all questions. Where a part has fewer points, its last one stands for the others."""
    points = max(map(len, parts))
    padded = [[*each, *[each[-1]] * (points - len(each))] for each in parts]
    costs = np.concatenate([np.stack([a.samples for a in each], axis=1) for each in padded])
    right = np.concatenate([np.stack([a.accuracy for a in each], axis=1) for each in padded])
    costs = np.concatenate([np.ones((len(first), 1)), costs], axis=1)
    right = np.concatenate([first[:, None], np.minimum(right, 1.0)], axis=1)
    order = np.argsort(costs.mean(axis=0), kind="stable")
    return Curve(costs[:, order], right[:, order], partial(bounded_interval, upper=float(most)))


def best_fixed(known: Pool, new: Pool, most: int) -> list[Answered]:
    """Return the fixed setting that is best on the known questions at each cost, on the new ones."""
    counts = curve_counts(most)
    rules = []
    for name in FIXED:
        try:
            rules.append([swept(name, each, each, most) for each in (known, new)])
        except DataError:
            continue
    best, found = -1.0, []
    chosen = rules[0][1][0]
    for place in range(len(counts)):
        for on_known, on_new in rules:
            if (accuracy := float(on_known[place].accuracy.mean())) > best + 1e-9:
                best, chosen = accuracy, on_new[place]
        found.append(Answered(chosen.accuracy, np.full(new.questions, float(counts[place])), fixed=True))
    return found


def table(name: str, parts: Parts) -> str:
    """Return a row of the table in the documents, and print a line for each rule."""
    # The largest budget is what a question to tune on has.
    most = min(each.size for both in parts for each in both)
    first = np.concatenate([new.correct.mean(axis=1) for _, new in parts])
    ids = np.arange(len(first)).astype(str)
    rival = curve([best_fixed(known, new, most) for known, new in parts], first, most)
    curves, bootstrap = {}, Bootstrap()
    for rule in RULES:
        try:
            curves[rule] = curve([list(swept(rule, *both, most)) for both in parts], first, most)
        except DataError:
            continue
    tuning = parts[0][0].questions
    title = (
        f"{name}: {tuning} questions to tune, {len(first)} to measure, N = {most}, pass@1 {first.mean():.3f}"
    )
    print(title)
    cells = [name, f"{tuning} / {len(first)}", str(most), f"{first.mean():.3f}"]
    for rule in RULES:
        if rule not in curves:
            cells.append("-")
            continue
        own = curves[rule]
        found = estimate(area_gain(ids, own, rival, most), bootstrap)
        others = [each for other, each in curves.items() if other != rule]
        ends = [estimate(area_gain(ids, own, each, most), bootstrap) for each in others]
        wins, losses = sum(each.low > 0 for each in ends), sum(each.high < 0 for each in ends)
        record = f"{wins}-{len(ends) - wins - losses}-{losses}"
        print(
            f"  {rule:22}{100 * found.value:+6.1f} [{100 * found.low:+5.1f}, {100 * found.high:+5.1f}]  ({record})",
            flush=True,
        )
        sure = "**" if found.low > 0 or found.high < 0 else ""
        cells.append(f"{sure}{100 * found.value:+.1f}{sure} ({record})")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Measure all pools, and write the table into a document if `--write DOCUMENT` comes first."""
    given = sys.argv[1:]
    document = Path(given[1]) if given[:1] == ["--write"] else None
    head = ["pool", "tune / measure", "N", "pass@1", *RULES]
    rows = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for name in (given[2:] if document else given) or WORLDS:
        rows += [table(title, parts) for title, parts in pools(name)]
        if document:
            insert(document, "rules", rows)


if __name__ == "__main__":
    main()
