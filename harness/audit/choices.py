"""The accuracy of choices between the solutions in a file: of votes, best-of-n and rules, at equal cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from prmcal.arrays import Bools, Floats
from prmcal.harness.audit.estimates import OUTER, Number, Rows, fitted, mean_of_questions, predicted
from prmcal.harness.audit.scored import Scored
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Answered, PoolStrategy, Setting
from prmcal.registry.plugins import strategies
from prmcal.registry.strategies.safe_choice import SafeChoice

_VOTES = ("majority vote", "weighted best-of-n")
_TARGET = 0.95
_ENOUGH = 500  # questions
_MOST_QUESTIONS = 10_000
_ALL = 64
"""Up to this number of solutions, every n is a fixed setting. Above it, the powers of two are."""


@dataclass(frozen=True, eq=False)
class Choice:
    """A way to choose an answer from several solutions."""

    name: str
    accuracy: Number
    samples: float
    """Mean number of solutions that it draws."""
    against: Number | None = None
    """Its accuracy minus that of the best fixed setting of at most the same cost, which is chosen on the other half of
    the questions."""


@dataclass(frozen=True, eq=False)
class Choices:
    """All ways to choose, and why some could not be measured."""

    solutions: int
    """M, the solutions of each question."""
    questions: int
    fixed: str
    """The best fixed setting on all questions."""
    rows: tuple[Choice, ...]
    missing: tuple[str, ...]
    """A sentence for each way that could not be measured."""
    safe: str
    """The rule of the strategy ``safe choice``, which keeps its promise on new questions."""
    safe_samples: float
    """Mean number of solutions that it draws."""


def choices(found: Scored, calibrator: str) -> Choices | None:
    """Measure all ways to choose; None if the questions have no two solutions each."""
    arrays = _pool(found)
    if arrays is None:
        return None
    right, scores, answers, kept = arrays
    bare = _bare_rewards(found, calibrator, kept)
    pool = Pool(right, answers, scores=scores, rewards=bare)
    most, missing = right.shape[1], []
    fixed = {"one sample": _answer("pass@1", pool, most)}
    with_answers = found.solutions["answer"].notna().any()
    for count in range(2, most + 1) if most <= _ALL else _powers(most):
        fixed[f"best-of-{count}"] = _answer("best-of-n", pool, count)
    for count in _powers(most):
        if with_answers and count > 2:
            for name in _VOTES:
                fixed[f"{name} of {count}"] = _answer(name, pool, count)
    if not with_answers:
        missing.append("votes (it has no answers)")
    halves = np.random.default_rng(0).permutation(len(kept)) % 2
    rules: dict[str, tuple[Floats, Floats]] = {}
    if bare is None:
        missing.append("IAS (bare questions have no score)")
    else:
        rules[f"IAS, C = {_TARGET:g}"] = _tuned("best-of-n + IAS", pool, halves)
    rules["first good enough"] = _tuned("first good enough", pool, halves)
    names = list(fixed)
    table = np.stack([fixed[name].accuracy for name in names])
    costs = np.array([fixed[name].samples.mean() for name in names])
    best = names[int(table.mean(axis=1).argmax())]
    shown = dict.fromkeys(["one sample", f"best-of-{most}", *(f"{name} of {most}" for name in _VOTES), best])
    rows = [
        Choice(name, mean_of_questions(fixed[name].accuracy), float(fixed[name].samples.mean()))
        for name in shown
        if name in fixed
    ]
    for name, (accuracy, samples) in rules.items():
        budget = float(samples.mean())
        difference = accuracy - _rival(table, costs, halves, budget)
        rows.append(Choice(name, mean_of_questions(accuracy), budget, mean_of_questions(difference, -1.0)))
    return Choices(most, len(kept), best, tuple(rows), tuple(missing), *_safe(pool))


def best_of_all(found: Scored) -> tuple[int, Floats] | None:
    """Return M, and the accuracy of best-of-M of each question with so many solutions; None if there are no two."""
    arrays = _pool(found)
    if arrays is None:
        return None
    right, scores, answers, _ = arrays
    return right.shape[1], _answer("best-of-n", Pool(right, answers, scores=scores), right.shape[1]).accuracy


def _safe(pool: Pool) -> tuple[str, float]:
    """Return the rule of the strategy ``safe choice``, and the samples that it draws."""
    some = np.sort(np.random.default_rng(0).permutation(pool.questions)[:_ENOUGH])
    part, setting, strategy = pool.drawn(some, slice(None)), Setting(pool.size), SafeChoice()
    strategy.tune(part, setting)
    return strategy.chosen(setting).text, float(strategy.answer(part, setting).samples.mean())


def _rival(table: Floats, costs: Floats, halves: NDArray[np.intp], budget: float) -> Floats:
    """Return the accuracy of each question under the best fixed setting within a budget, chosen on the other half."""
    rival = np.empty(table.shape[1])
    allowed = np.flatnonzero(costs <= np.ceil(budget))
    for half in (0, 1):
        chosen = allowed[table[allowed][:, halves != half].mean(axis=1).argmax()]
        rival[halves == half] = table[chosen, halves == half]
    return rival


def _answer(name: str, pool: Pool, samples: int) -> Answered:
    strategy = strategies.create(name)
    assert isinstance(strategy, PoolStrategy)
    return strategy.answer(pool, Setting(samples))


def _tuned(name: str, pool: Pool, halves: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Return accuracy and samples of each question under a rule that is tuned on the other half of the questions."""
    accuracy, samples = np.empty(pool.questions), np.empty(pool.questions)
    setting = Setting(pool.size, _TARGET)
    for half in (0, 1):
        rule = strategies.create(name)
        assert isinstance(rule, PoolStrategy)
        rule.tune(pool.drawn(np.flatnonzero(halves != half), slice(None)), setting)
        given = rule.answer(pool.drawn(np.flatnonzero(halves == half), slice(None)), setting)
        accuracy[halves == half], samples[halves == half] = given.accuracy, given.samples
    return accuracy, samples


def _powers(most: int) -> list[int]:
    return [*(2**power for power in range(1, 12) if 2**power < most), most]


def _bare_rewards(found: Scored, name: str, kept: Sequence[int]) -> Floats | None:
    """Return the rewards of bare questions, by calibrators that have not seen them; None without scores."""
    prefixes = found.prefixes
    bare = prefixes[prefixes["step"] == 0].drop_duplicates("question").set_index("question")
    if not set(kept) <= set(bare.index):
        return None
    rewards: Floats = np.array(bare["reward"].reindex(kept), dtype=np.float64)
    if not name:
        return rewards
    rows, own = Rows(prefixes), Rows(bare.reindex(kept).reset_index())
    folds = np.random.default_rng(0).permutation(len(kept)) % OUTER
    for fold in range(OUTER):
        held = folds == fold
        train = ~np.isin(rows.question, np.array(kept)[held])
        rewards[held] = predicted(fitted(name, rows, train), own, held)
    return rewards


def _pool(found: Scored) -> tuple[Bools, Floats, NDArray[Any], Sequence[int]] | None:
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
    if len(kept) > _MOST_QUESTIONS:  # Votes take a millisecond for each.
        kept = np.sort(np.random.default_rng(0).choice(kept, _MOST_QUESTIONS, replace=False))
    # A file can have the solutions of a question anywhere.
    ordered = solutions[solutions["question"].isin(kept)].sort_values(["question", "solution"])
    table = ordered.groupby("question").head(most)
    shape = len(kept), most
    right = table["label"].to_numpy(np.float64).reshape(shape) > 0.5
    scores = table["score"].to_numpy(np.float64).reshape(shape) * (-1 if found.scale.reverse else 1)
    answers = np.stack(
        [pd.factorize(part)[0] for part in table["answer"].astype(object).to_numpy().reshape(shape)]
    )
    return right, scores, answers, [int(each) for each in kept]
