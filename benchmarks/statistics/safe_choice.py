"""How often the strategy `safe choice` breaks its promise, and what it reaches, where the truth is known.

python -m benchmarks.statistics.safe_choice [--write DOCUMENT] [RESAMPLES [POOL...]]

A pool has questions with 16 trajectories each. Their success probabilities follow a Beta law, wrong answers agree as
theta says, and scores of right and of wrong trajectories are normal, with the given AUC within questions. Shipped pools
have names too: each of their LLMs is a row.

One part of the questions tunes the rules. From the others, calibration questions are drawn with replacement, and the
mean over all of the others is the truth. The promise is broken if the true accuracy is below that of one sample, or
more than `loss` below that of the best fixed setting of equal cost. Beside it stands the setting that is most accurate
on the same calibration questions.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.special import ndtri

from prmcal.arrays import Floats
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Setting
from prmcal.registry.reading.pools import read_pool, shipped_pools
from prmcal.registry.strategies.safe_choice import Candidates, SafeChoice

QUESTIONS, SAMPLES, CALIBRATION = 600, 16, (50, 100, 200, 500)
DELTA, LOSS = 0.1, 0.05


@dataclass(frozen=True)
class World:
    """A kind of pool."""

    auc: float
    """The chance that a right trajectory of a question has a higher score than a wrong one."""
    theta: float
    """Two wrong answers of a question are equal with probability 1 / (1 + theta)."""
    successes: tuple[float, float]
    """The Beta law of the success probabilities."""

    def pool(self, random: np.random.Generator) -> Pool:
        """Draw questions."""
        shape = QUESTIONS, SAMPLES
        correct = random.random(shape) < random.beta(*self.successes, QUESTIONS)[:, None]
        answers = np.zeros(shape, np.int64)
        for question in range(QUESTIONS):
            counts: list[int] = []
            for place in np.flatnonzero(~correct[question]):
                weights = np.array([*counts, self.theta])
                own = int(random.choice(len(weights), p=weights / weights.sum()))
                counts[own : own + 1] = [counts[own] + 1] if own < len(counts) else [1]
                answers[question, place] = own + 1
        apart = float(ndtri(self.auc)) * np.sqrt(2)
        shared = random.normal(0, 1, QUESTIONS)[:, None]
        return Pool(correct, answers, scores=random.normal(0, 1, shape) + shared + apart * correct)


WORLDS = {
    "AUC .55, answers differ": World(0.55, 30.0, (0.5, 1.0)),
    "AUC .55, answers agree": World(0.55, 1.0, (0.5, 1.0)),
    "AUC .70, answers agree": World(0.70, 2.0, (0.5, 1.0)),
    "AUC .80, hard": World(0.80, 3.0, (0.2, 2.0)),
    "AUC .90, answers differ": World(0.90, 30.0, (1.0, 1.0)),
    "AUC .99, answers differ": World(0.99, 30.0, (0.5, 1.0)),
    "scores reversed": World(0.30, 1.0, (0.3, 1.0)),
    "AUC .50, votes hurt": World(0.5, 0.3, (1.0, 2.0)),
    "AUC .52, answers agree": World(0.52, 0.6, (0.5, 1.0)),
}


def pools(name: str) -> Iterator[tuple[str, Pool]]:
    """Yield the pool of a world, or those of the LLMs of a shipped pool, each with its title."""
    if name in WORLDS:
        yield name, WORLDS[name].pool(np.random.default_rng(0))
        return
    _, table = read_pool(shipped_pools()[name])
    for llm, rows in table.sort_values(["question", "solution"]).groupby("llm", sort=False):
        shape = rows["question"].nunique(), -1
        correct, scores = (rows[each].to_numpy().reshape(shape) for each in ("correct", "score"))
        answers = rows["prediction"].to_numpy(np.int64).reshape(shape) if "prediction" in rows else None
        yield f"{name}, {llm}", Pool(correct, answers, scores=scores.astype(np.float64))


def insert(document: Path, name: str, rows: list[str]) -> None:
    """Write a table between the two comments of a document that name it."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    text = document.read_text(encoding="utf-8")
    before, after = text.split(begin)[0], text.split(end)[1]
    document.write_text("\n".join([before + begin, *rows, end + after]), encoding="utf-8")


def measured(pool: Pool, resamples: int) -> list[str]:
    """Print and return what resamples of the questions of a pool give."""
    half = np.arange(pool.questions) % 2 == 0
    if pool.questions < 200:  # Too few to leave some out. Their rules know the truth a little.
        half[:] = True
    tuning = pool.drawn(np.flatnonzero(half), slice(None))
    rest = pool.drawn(np.flatnonzero(~half if not half.all() else half), slice(None))
    strategy = SafeChoice(delta=DELTA, loss=LOSS)
    strategy.tune(tuning, Setting(pool.size))
    every = strategy.candidates_
    answered = [rule.strategy.answer(rest, rule.setting) for rule in strategy.rules_]
    table = np.stack([each.accuracy for each in answered])
    costs = np.stack([each.samples for each in answered])
    truth, cost = table.mean(axis=1), costs.mean(axis=1)
    cells, most_broken, most_plain = [], 0.0, 0.0
    for questions in CALIBRATION:
        random = np.random.default_rng(questions)
        broken, gains, used, plain, plain_cost, plain_broken = [], [], [], [], [], []
        for _ in range(resamples):
            drawn = random.integers(0, rest.questions, questions)
            known = Candidates(costs[:, drawn].mean(axis=1), every.rule, table[:, drawn])
            safe = known.safe(DELTA, LOSS)
            broken.append(max(shortfall(each, truth, cost, every) > 1e-9 for each in safe))
            chosen = known.best(safe, pool.size)
            gains.append(truth[chosen] - truth[0])
            used.append(cost[chosen])
            best = int(table[:, drawn].mean(axis=1).argmax())
            plain.append(truth[best] - truth[0])
            plain_cost.append(cost[best])
            plain_broken.append(shortfall(best, truth, cost, every) > 1e-9)
        print(
            f"  {questions:4} questions: broken {np.mean(broken):.3f}, {mean(gains)} over one sample with "
            f"{np.mean(used):4.1f} samples; most accurate: broken {np.mean(plain_broken):.3f}, {mean(plain)} with "
            f"{np.mean(plain_cost):4.1f}",
            flush=True,
        )
        cells.append(f"{mean(gains)} ({mean(plain)})")
        most_broken = max(most_broken, float(np.mean(broken)))
        most_plain = max(most_plain, float(np.mean(plain_broken)))
    return [f"{truth.max() - truth[0]:+.3f}", *cells, f"{most_broken:.3f}", f"{most_plain:.3f}"]


def shortfall(own: int, truth: Floats, cost: Floats, every: Candidates) -> float:
    """Return by how much the promise is broken; at most 0 if it is kept."""
    rivals = replace(every, cost=cost).rivals(own, truth)
    return float(max([truth[0], *(each - LOSS for each in rivals)]) - truth[own]) if own else 0.0


def mean(values: list[float]) -> str:
    """Return a mean of differences."""
    return f"{np.mean(values):+.3f}"


def main() -> None:
    """Run the simulation, and write the table into a document if `--write DOCUMENT` comes first."""
    given = sys.argv[1:]
    document = Path(given[1]) if given[:1] == ["--write"] else None
    given = given[2:] if document else given
    resamples = int(given[0]) if given else 1_000
    first, *others = CALIBRATION
    head = f"| pool | pass@1 | largest gain | {first} questions | {' | '.join(map(str, others))} "
    rows = [f"{head}| broken | broken by the most accurate |", f"|{' --- |' * (len(CALIBRATION) + 5)}"]
    for name in given[1:] or WORLDS:
        for title, pool in pools(name):
            print(f"{title}: pass@1 {pool.correct.mean():.3f}")
            rows.append(
                f"| {' | '.join([title, f'{pool.correct.mean():.3f}', *measured(pool, resamples)])} |"
            )
            if document:
                insert(document, "safe choice", rows)


if __name__ == "__main__":
    main()
