"""The accuracy of choices between the solutions in a file: of votes, best-of-n and a rule that stops early."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from prmcal.arrays import Bools, Floats
from prmcal.harness.audit.estimates import Number, mean_of_questions
from prmcal.harness.audit.scored import Scored
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Setting
from prmcal.registry.strategies.best_of import BestOfN
from prmcal.registry.strategies.learned import LearnedStopping
from prmcal.registry.strategies.safe_choice import SafeChoice

_MOST_QUESTIONS = 500  # More hardly sharpen a choice, and a rule that learns takes a tenth of a second for each.


@dataclass(frozen=True, eq=False)
class Choice:
    """A way to choose an answer from several solutions."""

    name: str
    accuracy: Number
    samples: float
    """Mean number of solutions that it draws."""
    against: Number | None = None
    """Its accuracy minus that of one sample, paired by question."""


@dataclass(frozen=True, eq=False)
class Choices:
    """All ways to choose, and the one that is recommended."""

    solutions: int
    """M, the solutions of each question."""
    questions: int
    rows: tuple[Choice, ...]
    """Ways that were named beforehand."""
    best: Choice
    """The recommended one. The interval of its gain holds though it was chosen for it."""
    is_promised: bool
    """Whether it keeps the promise of ``safe choice``. If no way does, it is the one with most evidence."""
    p_value: float
    """The probability that luck alone shows such a gain in the best of all ways."""
    missing: tuple[str, ...]
    """What could not be measured, and why."""


def choices(found: Scored) -> Choices | None:
    """Measure all ways to choose; None if the questions have no two solutions each."""
    arrays = _pool(found)
    if arrays is None:
        return None
    right, scores, answers = arrays
    pool = Pool(right, answers, scores=scores)
    most, strategy = right.shape[1], SafeChoice()
    strategy.tune(pool, Setting(most))
    table, names = strategy.candidates_, [rule.text for rule in strategy.rules_]
    chosen = strategy.candidates_.best(strategy.safe_, most)
    is_promised = chosen != 0
    best = chosen if is_promised else table.likely()

    def row(own: int, against: Number) -> Choice:
        return Choice(names[own], mean_of_questions(table.accuracy[own]), float(table.cost[own]), against)

    shown = [place for place, name in enumerate(names) if name.endswith(f"of-{most}") or name.endswith(f" of {most}")]
    prices = {
        place: abs(rule.strategy.price - LearnedStopping.price)
        for place, rule in enumerate(strategy.rules_)
        if isinstance(rule.strategy, LearnedStopping)
    }
    shown += sorted(prices, key=lambda place: prices[place])[:1]  # The one nearest to its default.
    rows = [row(own, mean_of_questions(table.gains[own], -1.0)) for own in (0, *shown)]
    (low, high), alone = table.interval(best), mean_of_questions(table.gains[best], -1.0)
    gain = replace(alone, low=min(low, alone.low), high=max(high, alone.high))
    missing = [
        why
        for why, absent in (
            ("votes (it has no answers)", answers is None),
            ("best-of-n (it has no scores)", scores is None),
        )
        if absent
    ]
    return Choices(most, len(right), tuple(rows), row(best, gain), is_promised, table.p_value(best), tuple(missing))


def best_of_all(found: Scored) -> tuple[int, Floats, Floats] | None:
    """Return M, and the accuracy of each question with one and with the best-scored of M; None if there are no two."""
    arrays = _pool(found)
    if arrays is None or arrays[1] is None:
        return None
    right, scores, answers = arrays
    best = BestOfN().answer(Pool(right, answers, scores=scores), Setting(right.shape[1])).accuracy
    return right.shape[1], right.mean(axis=1), best


def _pool(found: Scored) -> tuple[Bools, Floats | None, NDArray[Any] | None] | None:
    """Return outcomes, scores and answers of the questions with enough solutions; None if fewer than two have.

    Each has shape (questions, M), where M is the median number of solutions of a question. Of very many questions they
    are a sample.
    """
    solutions = found.solutions[found.solutions["label"].notna() & (found.target != "step")]
    counts = solutions.groupby("question").size()
    most = int(counts.median()) if len(counts) else 0
    kept = counts.index[counts >= most]
    if most < 2 or len(kept) < 2:
        return None
    if len(kept) > _MOST_QUESTIONS:
        kept = np.sort(np.random.default_rng(0).choice(kept, _MOST_QUESTIONS, replace=False))
    # A file can have the solutions of a question anywhere.
    ordered = solutions[solutions["question"].isin(kept)].sort_values(["question", "solution"])
    table = ordered.groupby("question").head(most)
    shape = len(kept), most
    right = table["label"].to_numpy(np.float64).reshape(shape) > 0.5
    scores = table["score"].to_numpy(np.float64).reshape(shape) * (-1 if found.scale.reverse else 1)
    named = table["answer"].astype(object).to_numpy().reshape(shape)
    answers = None if table["answer"].isna().all() else np.stack([pd.factorize(part)[0] for part in named])
    return right, None if np.isnan(scores).all() else scores, answers
