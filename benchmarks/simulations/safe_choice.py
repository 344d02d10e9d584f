"""How often the strategy `safe choice` breaks its promise, and what it reaches, where the truth is known.

OMP_NUM_THREADS=1 python -m benchmarks.simulations.safe_choice [RESAMPLES [POOL...]]

A pool has questions with 16 trajectories each. Their success probabilities follow a Beta distribution, wrong answers
agree as theta says, and scores of right and of wrong trajectories are normal, with an AUC within questions. Shipped
pools have names too: each of their LLMs is a row. A file that `prmcal audit` reads is a pool as well.

One part of the questions tunes the rules. From the others, calibration questions are drawn with replacement, and the
mean over all of the others is the truth. The promise is broken if the true accuracy of a variant that passes is below
that of one sample, or more than `loss` below that of the best fixed n of equal cost. A cell has three ways to
choose, divided by slashes: `safe choice`, the most accurate on the calibration questions, and a proof for any number of
questions (`proved`). Its gains are in percentage points, and the shares of broken promises the largest of all numbers
of questions.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.special import logsumexp, ndtri

from benchmarks.tables import table_in, write_table
from prmcal.arrays import Floats
from prmcal.harness.audit.pooled import pool_of
from prmcal.harness.audit.scored import scored_records
from prmcal.log_odds import log_odds
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Allowance
from prmcal.registry.reading.fields import Fields
from prmcal.registry.reading.files import read_files
from prmcal.registry.reading.pools import read_pool, shipped_pools
from prmcal.registry.strategies.safe_choice import Candidates, SafeChoice

QUESTIONS, SAMPLES, CALIBRATION = 600, 16, (50, 100, 200, 500)
DELTA, LOSS = 0.1, 0.05
PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "strategies.md"
BETS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8)
"""Shares of the wealth that a player of `proved` bets."""


@dataclass(frozen=True)
class World:
    """A kind of pool."""

    auc: float
    """The chance that a right trajectory of a question has a higher score than a wrong one."""
    theta: float
    """Two wrong answers of a question are equal with probability 1 / (1 + theta)."""
    successes: tuple[float, float]
    """The Beta distribution of the success probabilities."""

    def pool(self, random: np.random.Generator) -> Pool:
        """Draw questions."""
        shape = QUESTIONS, SAMPLES
        correct = random.random(shape) < random.beta(*self.successes, QUESTIONS)[:, None]
        answers = np.zeros(shape, np.int64)
        for question in range(QUESTIONS):
            counts: list[int] = []
            for sample in np.flatnonzero(~correct[question]):
                weights = np.array([*counts, self.theta])
                cluster = int(random.choice(len(weights), p=weights / weights.sum()))
                counts[cluster : cluster + 1] = [counts[cluster] + 1] if cluster < len(counts) else [1]
                answers[question, sample] = cluster + 1
        apart = float(ndtri(self.auc)) * np.sqrt(2)
        shared = random.normal(0, 1, QUESTIONS)[:, None]
        return Pool(correct, answers, scores=random.normal(0, 1, shape) + shared + apart * correct)


WORLDS = {
    "AUC .55, answers agree": World(0.55, 1.0, (0.5, 1.0)),
    "AUC .52, answers agree": World(0.52, 0.6, (0.5, 1.0)),
    "AUC .90, answers differ": World(0.90, 30.0, (1.0, 1.0)),
    "scores reversed": World(0.30, 1.0, (0.3, 1.0)),
    "AUC .50, votes hurt": World(0.5, 0.3, (1.0, 2.0)),
}


def pools(name: str, most: int = 1) -> Iterator[tuple[str, Pool]]:
    """Yield the pool of a world, or those of the LLMs of a shipped pool with at most so many verifiers, with titles."""
    if name in WORLDS:
        yield name, WORLDS[name].pool(np.random.default_rng(0))
        return
    if name in shipped_pools():
        card, table = read_pool(shipped_pools()[name])
        columns = list(card.scores)[:most]
    else:
        name, path, columns = Path(name).stem, Path(name), ["score"]
        table = pool_of(scored_records(read_files([path]), str(path), Fields()), path.stem)
    for llm, rows in table.sort_values(["question", "solution"]).groupby("llm", sort=False):
        shape = rows["question"].nunique(), -1
        correct = rows["correct"].to_numpy().reshape(shape)
        answers = rows["prediction"].to_numpy(np.int64).reshape(shape) if "prediction" in rows else None
        for column in columns:
            # Of the scores of steps, it reads the last one.
            scores = np.array([np.ravel(steps)[-1] for steps in rows[column]], np.float64).reshape(shape)
            scores = log_odds(scores) if scores.min() >= 0 and scores.max() <= 1 else scores
            titles = dict.fromkeys((name, str(llm), *(columns[1:] and [column])))
            yield ", ".join(titles), Pool(correct, answers, scores=scores)


def with_others(rows: dict[str, str]) -> list[str]:
    """Return rows by their titles, and those of other pools that the table has. Worlds come last."""
    old = table_in(PAGE, "safe-choice").splitlines()[2:]
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in old} | rows
    return [*(line for title, line in rows.items() if title not in WORLDS), *(rows[title] for title in WORLDS)]


def measured(title: str, pool: Pool, resamples: int) -> list[str]:
    """Print and return what resamples of the questions of a pool give: the cells of a row."""
    half = np.arange(pool.questions) % 2 == 0
    if pool.questions < 200:  # Too few to leave some out. Their rules know the truth a little.
        half[:] = True
    tuning = pool.drawn(np.flatnonzero(half), slice(None))
    test_pool = pool.drawn(np.flatnonzero(~half if not half.all() else half), slice(None))
    strategy = SafeChoice(delta=DELTA, loss=LOSS)
    strategy.tune(tuning, Allowance(pool.size))
    candidates = strategy.candidates_
    answered = [rule.strategy.answer(test_pool, rule.allowance) for rule in strategy.rules_]
    table = np.stack([variant.accuracy for variant in answered])
    costs = np.stack([variant.samples for variant in answered])
    truth, cost = table.mean(axis=1), costs.mean(axis=1)
    short = np.array([shortfall(variant, truth, cost, candidates) for variant in range(len(truth))]) > 1e-9
    cells, most = [], np.zeros(3)
    for questions in CALIBRATION:
        random = np.random.default_rng(questions)
        gains, broken = np.zeros((2, resamples, 3))
        for number in range(resamples):
            drawn = random.integers(0, test_pool.questions, questions)
            resampled = Candidates(cost, candidates.rule, table[:, drawn])
            best = [int(resampled.accuracy.mean(axis=1).argmax())]
            ways = resampled.safe(DELTA, LOSS), best, proved(resampled)
            for way, passed in enumerate(ways):
                gains[number, way] = truth[resampled.best(passed, pool.size)] - truth[0]
                broken[number, way] = short[passed].any()
        cells.append("/".join(f"{100 * share:.1f}" for share in gains.mean(axis=0)))
        most = np.maximum(most, broken.mean(axis=0))
        print(f"{title}, {questions} questions: {cells[-1]}, broken {broken.mean(axis=0)}", flush=True)
    return [title, *cells, "/".join(f"{share:.3f}" for share in most)]


def proved(candidates: Candidates) -> list[int]:
    """Return the variants that keep the promise by a proof for any number of questions; one sample is among them.

    The wealth of a player is its mean over ten bets, each of them on all questions. It is 1 / p at least with the
    probability p at most, if the mean is not above 0 (Waudby-Smith and Ramdas, 2024, JRSS B 86). Each rule has an equal
    share of `DELTA`, and its variants are tested from the largest cost downwards until one fails.
    """
    families = [np.flatnonzero(candidates.rule == rule)[1:] for rule in np.unique(candidates.rule)]
    passed = [0]
    for family in families:
        for variant in family[::-1]:
            rivals = candidates.rivals(variant, candidates.accuracy)
            losses = [candidates.accuracy[variant] - rival + LOSS for rival in rivals]
            values = np.stack([candidates.gains[variant], *losses])
            wealth = logsumexp([np.log1p(bet * values).sum(axis=1) for bet in BETS], axis=0) - np.log(len(BETS))
            if wealth.min() < np.log(len(families) / DELTA):
                break
            passed.append(int(variant))
    return passed


def shortfall(variant: int, truth: Floats, cost: Floats, candidates: Candidates) -> float:
    """Return by how much the promise is broken; at most 0 if it is kept."""
    rivals = replace(candidates, cost=cost).rivals(variant, truth)
    return float(max([truth[0], *(rival - LOSS for rival in rivals)]) - truth[variant]) if variant else 0.0


def main(resamples: int, *names: str) -> None:
    """Run the simulation of some pools, or of all, and write their rows into the table of the document."""
    shipped = [name for name in shipped_pools() if not name.startswith("rlhflow")]  # These have one sample.
    titled_pools = [pool for name in names or [*shipped, *WORLDS] for pool in pools(name)]
    with ProcessPoolExecutor() as workers:
        cells = list(workers.map(measured, *zip(*titled_pools, strict=True), [resamples] * len(titled_pools)))
    first, *others = CALIBRATION
    head = f"| pool | {first} questions | {' | '.join(map(str, others))} | broken |"
    rows = {title: f"| {' | '.join([title, *others])} |" for title, *others in cells}
    line = f"|{' --- |' * (len(CALIBRATION) + 2)}"
    write_table(PAGE, "safe-choice", "\n".join([head, line, *with_others(rows)]))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000, *sys.argv[2:])
