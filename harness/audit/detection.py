"""Error detection: how often scores find the first wrong step of a solution, or all wrong steps.

The first is ProcessBench's, the second PRMBench's.

Zheng et al. (2025), "ProcessBench", arXiv:2412.06559: the first step with a score below a threshold counts as the first
wrong step. F1 is the harmonic mean of two shares: of the wrong solutions whose first wrong step is found, and of the
right solutions in which no step counts as wrong.

Song et al. (2025), "PRMBench", arXiv:2501.03124: a step with a score of at most 1/2 counts as wrong. PRMScore is the
mean of the F1 of right steps and the F1 of wrong steps, over the steps of all solutions.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from prmcal.arrays import Bools, Floats, Ints
from prmcal.db.statistics.bootstrap import Bootstrap, Statistic, estimate
from prmcal.db.statistics.intervals import Estimate

_MOST_THRESHOLDS = 200
WORDS: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("audit.toml").read_text(encoding="utf-8"))
"""The words and the published numbers of an audit: diagrams, in their order, processbench, categories and prmbench."""
PUBLISHED: dict[str, list[float]] = WORDS["processbench"]
"""F1 on GSM8K, MATH, OlympiadBench and Omni-MATH, by the names of PRMs."""
CATEGORIES: dict[str, str] = WORDS["categories"]
"""The field `classification` of PRMBench, and the short names of its tables."""
PRM_SCORES: dict[str, list[float]] = WORDS["prmbench"]
"""PRMScore of all steps, and of each category, by the names of PRMs."""


@dataclass(frozen=True)
class Detection(Estimate):
    """F1 or PRMScore of one way to decide which step is wrong, with its 95% interval over questions."""

    way: str
    solutions: int
    """The number of judged solutions; for a PRMScore, of steps."""


@dataclass(frozen=True)
class PrmScore:
    """PRMScore of a category, or "overall": of the original scores, and calibrated."""

    category: str
    score: Detection
    calibrated: Detection | None


class _OfCounts(Statistic):
    """A function of how many rows are in each of some masks."""

    def __init__(self, question: Ints, *masks: Bools) -> None:
        self.question_ids, index = np.unique(question, return_inverse=True)
        self.rows = len(question)
        self._sums = np.stack([np.bincount(index, weights=mask) for mask in masks], axis=1)


class _F1(_OfCounts):
    def __init__(self, hits: Bools, wrong: Bools, question: Ints) -> None:
        super().__init__(question, hits & wrong, wrong, hits & ~wrong, ~wrong)

    def values(self, weights: Floats) -> Floats:
        located, wrong, passed, right = (weights @ self._sums).T
        a, b = located / np.maximum(wrong, 1), passed / np.maximum(right, 1)
        return np.asarray(2 * a * b / np.maximum(a + b, 1e-12))


class _HalfOfBoth(_OfCounts):
    """PRMScore. If no step is wrong, it is the F1 of right steps alone, as in PRMBench."""

    def __init__(self, accepted: Bools, right: Bools, question: Ints) -> None:
        super().__init__(question, accepted & right, ~accepted & ~right, accepted != right)
        self._all_right = bool(right.all())

    def values(self, weights: Floats) -> Floats:
        passed, rejected, mistaken = (weights @ self._sums).T
        f1, f1_of_wrong = (2 * hits / np.maximum(2 * hits + mistaken, 1) for hits in (passed, rejected))
        return np.asarray(f1 if self._all_right else (f1 + f1_of_wrong) / 2)


def prm_scores(
    prefixes: pd.DataFrame, calibrated: Floats | None, levels: pd.Series, bootstrap: Bootstrap
) -> tuple[PrmScore, ...]:
    """Return PRMScore overall, and of each category of PRMBench among the solutions.

    `prefixes` are from `ScoredSolutions`. A label is 1 if the step is right. `calibrated`, of shape (prefixes,), are
    calibrated rewards of questions that the fit has not seen. `levels` are the categories of the prefixes.
    """
    steps, is_right = prefixes["step"].to_numpy() > 0, prefixes["label"].to_numpy() > 0.5
    question, rewards = prefixes["question"].to_numpy(np.int64), prefixes["reward"].to_numpy(np.float64)
    categories = {name: steps & (levels == classification).to_numpy() for classification, name in CATEGORIES.items()}

    def score_of(way: str, values: Floats, category: Bools) -> Detection:
        statistic = _HalfOfBoth(values[category] > 0.5, is_right[category], question[category])
        score = estimate(statistic, bootstrap)
        return Detection(score.value, score.low, score.high, way, score.rows)

    return tuple(
        PrmScore(
            name,
            score_of("as they are", rewards, category),
            None if calibrated is None else score_of("calibrated", calibrated, category),
        )
        for name, category in {"overall": steps, **categories}.items()
        if category.any()
    )


class _Steps:
    """The scored steps of solutions, each solution in one run of rows."""

    def __init__(self, prefixes: pd.DataFrame) -> None:
        steps = prefixes[prefixes["step"] > 0].sort_values(["question", "solution", "step"])
        is_first_row = steps[["question", "solution"]].diff().ne(0).any(axis=1).to_numpy()
        self.rows, self._starts = steps.index.to_numpy(), np.flatnonzero(is_first_row)
        self._step = steps["step"].to_numpy(np.float64)
        self.solution = self.rows[self._starts]
        """A row of each solution."""
        self.question = steps["question"].to_numpy(np.int64)[self._starts]
        self.first_error = self.first_step(steps["label"].to_numpy(np.float64) < 0.5)

    def first_step(self, wrong: Bools) -> Floats:
        """Return the first wrong step of each solution, infinity without one."""
        return np.minimum.reduceat(np.where(wrong, self._step, np.inf), self._starts)

    def hits(self, rewards: Floats, threshold: float) -> Bools:
        """Return True for each solution in which a threshold finds the first error, or rightly finds none."""
        return np.asarray(self.first_step(rewards < threshold) == self.first_error)


def detection(
    prefixes: pd.DataFrame, calibrated: Floats | None, levels: pd.Series, bootstrap: Bootstrap
) -> tuple[Detection, ...]:
    """Return F1 with the threshold 1/2, also of calibrated rewards, and with a threshold tuned on other solutions.

    `prefixes` are from `ScoredSolutions`, with the numbers 0, 1, ... as their index. A label is 1 if every step so far
    is right. `calibrated` has the same meaning as in `prm_scores`. `levels` are the subsets of the prefixes. A single
    subset is divided into halves of its questions.
    """
    steps = _Steps(prefixes)
    wrong = np.isfinite(steps.first_error)
    if not wrong.any() or wrong.all():
        return ()
    rewards = prefixes["reward"].to_numpy(np.float64)[steps.rows]
    subset_of = pd.factorize(levels.iloc[steps.solution].astype(str))[0]
    has_subsets = subset_of.max() > 0
    if not has_subsets:
        subset_of = np.random.default_rng(0).permutation(steps.question.max() + 1)[steps.question] % 2
    ways = {"threshold 1/2": steps.hits(rewards, 0.5)}
    if calibrated is not None:
        ways["threshold 1/2, calibrated"] = steps.hits(calibrated[steps.rows], 0.5)
    tuned = np.zeros(len(wrong), dtype=bool)
    thresholds = np.unique(np.quantile(rewards, np.linspace(0, 1, _MOST_THRESHOLDS)))
    hits = np.stack([steps.hits(rewards, threshold) for threshold in thresholds])
    for subset in np.unique(subset_of):
        in_others = subset_of != subset
        scores = [_F1(row[in_others], wrong[in_others], steps.question[in_others]).value() for row in hits]
        tuned[~in_others] = hits[int(np.argmax(scores)), ~in_others]
    ways[f"threshold tuned on {'other subsets' if has_subsets else 'the other half'}"] = tuned
    f1_of = {way: estimate(_F1(way_hits, wrong, steps.question), bootstrap) for way, way_hits in ways.items()}
    return tuple(Detection(f1.value, f1.low, f1.high, way, f1.rows) for way, f1 in f1_of.items())
