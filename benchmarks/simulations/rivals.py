"""Newer stopping rules, which are plugins in `examples/`, against `learned stopping` at equal cost, on shipped pools.

    python -m benchmarks.simulations.rivals

Half of the questions of a pool teach the rules, the other half test them, and both halves swap. At the mean cost of a
rival, `learned stopping` is a mixture of the two variants of its curve whose costs are next to it. A cell is its
accuracy minus that of the rival with its default argument, in percentage points, with the 95% interval over questions,
which are paired.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.simulations.safe_choice import PAGE, pools
from benchmarks.tables import points, write_table
from prmcal.harness.audit.estimates import Number, mean_of_questions
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Allowance, PoolStrategy
from prmcal.registry.plugins import load_plugin_file, strategies
from prmcal.registry.reading.pools import shipped_pools

EXAMPLES = Path(__file__).parents[2] / "examples"
RIVALS = ("CGES", "ReASC", "Bayesian stopping", "ESC")


def compared(pool: Pool, name: str) -> Number:
    """Return the accuracy of `learned stopping` minus that of a rival with its default argument."""
    half = np.random.default_rng(0).permutation(pool.questions) % 2
    differences, allowance = np.zeros(pool.questions), Allowance(pool.size)
    for fold in (0, 1):
        taught, held = (pool.drawn(np.flatnonzero((half == fold) == is_held), slice(None)) for is_held in (False, True))
        rival, learned = strategies.create(name), strategies.create("learned stopping")
        assert isinstance(rival, PoolStrategy) and isinstance(learned, PoolStrategy)
        for rule in (rival, learned):
            if rule.tuned:
                rule.tune(taught, allowance)
        answered = rival.answer(held, allowance)
        curve = sorted(learned.sweep(held, allowance), key=lambda variant: float(variant.samples.mean()))
        costs = [variant.samples.mean() for variant in curve]
        rows = np.stack([variant.accuracy for variant in curve], axis=1)
        at_cost = np.array([np.interp(answered.samples.mean(), costs, row) for row in rows])
        differences[half == fold] = at_cost - answered.accuracy
    return mean_of_questions(differences, -1.0)


def main() -> None:
    """Write the table into the document."""
    for path in ("cges", "reasc", "bayesian_stopping"):
        load_plugin_file(EXAMPLES / f"{path}.py")
    rows = [f"| pool | {' | '.join(RIVALS)} |", f"|{' --- |' * (len(RIVALS) + 1)}"]
    names = [name for name in shipped_pools() if not name.startswith(("humaneval", "terminal", "rlhflow"))]
    for title, pool in (pair for name in names for pair in pools(name, 2)):
        cells = [points(compared(pool, name).columns("difference")) for name in RIVALS]
        rows.append(f"| {title} | {' | '.join(cells)} |")
    write_table(PAGE, "rivals", "\n".join(rows))


if __name__ == "__main__":
    main()
