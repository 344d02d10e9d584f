"""The accuracy of choices between the solutions in a file: of votes, best-of-n and a rule that stops early."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from prmcal.arrays import Bools, Floats
from prmcal.harness.audit.estimates import Number, mean_of_questions
from prmcal.harness.audit.scored import ScoredSolutions
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Allowance
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
    """Accuracy minus the accuracy of one sample, paired by question."""


@dataclass(frozen=True, eq=False)
class Choices:
    """All ways to choose, and the recommended one."""

    solutions: int
    """M, the solutions of each question."""
    questions: int
    rows: tuple[Choice, ...]
    """Ways that were named beforehand."""
    best: Choice
    """The recommended one. The interval of its gain holds although the way was chosen by its gain."""
    is_promised: bool
    """Whether it keeps the promise of ``safe choice``. If no way does, the recommended one has most evidence."""
    p_value: float
    """The probability that luck alone gives the best of all ways at least this gain."""
    missing: tuple[str, ...]
    """What could not be measured, and why."""


def choices(scored: ScoredSolutions) -> Choices | None:
    """Measure all ways to choose; None if the questions have no two solutions each."""
    arrays = _pool(scored)
    if arrays is None:
        return None
    correct, scores, answers = arrays
    pool = Pool(correct, answers, scores=scores)
    samples, strategy = correct.shape[1], SafeChoice()
    strategy.tune(pool, Allowance(samples))
    table, names = strategy.candidates_, [rule.text for rule in strategy.rules_]
    safest = strategy.candidates_.best(strategy.safe_, samples)
    is_promised = safest != 0
    best = safest if is_promised else table.likely()

    def row(candidate: int, against: Number) -> Choice:
        accuracy, cost = mean_of_questions(table.accuracy[candidate]), float(table.cost[candidate])
        return Choice(names[candidate], accuracy, cost, against)

    endings = f"of-{samples}", f" of {samples}"
    candidates = [candidate for candidate, name in enumerate(names) if name.endswith(endings)]
    prices = {
        candidate: abs(rule.strategy.price - LearnedStopping.price)
        for candidate, rule in enumerate(strategy.rules_)
        if isinstance(rule.strategy, LearnedStopping)
    }
    candidates += sorted(prices, key=lambda candidate: prices[candidate])[:1]  # The one nearest to its default.
    rows = [row(candidate, mean_of_questions(table.gains[candidate], -1.0)) for candidate in (0, *candidates)]
    (low, high), unselected = table.interval(best), mean_of_questions(table.gains[best], -1.0)
    gain = replace(unselected, low=min(low, unselected.low), high=max(high, unselected.high))
    missing = ["votes (it has no answers)"] if answers is None else []
    missing += ["best-of-n (it has no scores)"] if scores is None else []
    p_value = table.p_value(best)
    return Choices(samples, len(correct), tuple(rows), row(best, gain), is_promised, p_value, tuple(missing))


def best_of_all(scored: ScoredSolutions) -> tuple[int, Floats, Floats] | None:
    """Return M, and the accuracy of each question with one and with the best-scored of M samples; None if M < 2."""
    arrays = _pool(scored)
    if arrays is None or arrays[1] is None:
        return None
    correct, scores, answers = arrays
    best = BestOfN().answer(Pool(correct, answers, scores=scores), Allowance(correct.shape[1])).accuracy
    return correct.shape[1], correct.mean(axis=1), best


def _pool(scored: ScoredSolutions) -> tuple[Bools, Floats | None, NDArray[Any] | None] | None:
    """Return outcomes, scores and answers of the questions with enough solutions; None if fewer than two have.

    Each has shape (questions, M), where M is the median number of solutions of a question. Of very many questions they
    are a sample.
    """
    solutions = scored.solutions[scored.solutions["label"].notna() & (scored.target != "step")]
    counts = solutions.groupby("question").size()
    samples = int(counts.median()) if len(counts) else 0
    questions = counts.index[counts >= samples]
    if samples < 2 or len(questions) < 2:
        return None
    if len(questions) > _MOST_QUESTIONS:
        questions = np.sort(np.random.default_rng(0).choice(questions, _MOST_QUESTIONS, replace=False))
    # A file can have the solutions of a question anywhere.
    ordered = solutions[solutions["question"].isin(questions)].sort_values(["question", "solution"])
    table = ordered.groupby("question").head(samples)
    shape = len(questions), samples
    correct = table["label"].to_numpy(np.float64).reshape(shape) > 0.5
    scores = table["score"].to_numpy(np.float64).reshape(shape) * (-1 if scored.scale.reverse else 1)
    answer_rows = table["answer"].astype(object).to_numpy().reshape(shape)
    answers = None if table["answer"].isna().all() else np.stack([pd.factorize(row)[0] for row in answer_rows])
    return correct, None if np.isnan(scores).all() else scores, answers
