"""Error detection: how often scores find the first wrong step of a solution, as ProcessBench measures it.

Zheng et al. (2025), "ProcessBench", arXiv:2412.06559: the first step with a score below a threshold is taken for the
first wrong one. F1 is the harmonic mean of two shares: of the wrong solutions whose first wrong step is found, and of
the right solutions in which no step is taken for wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from prmcal.arrays import Bools, Floats, Ints
from prmcal.db.statistics.bootstrap import Bootstrap, Statistic, estimate

_MOST_THRESHOLDS = 200
PUBLISHED = {
    "Qwen2.5-Math-PRM-72B": (0.873, 0.806, 0.743, 0.711),
    "Qwen2.5-Math-PRM-7B": (0.824, 0.776, 0.675, 0.663),
    "Skywork-PRM-7B": (0.708, 0.536, 0.229, 0.210),
    "Math-Shepherd-7B": (0.479, 0.295, 0.248, 0.238),
    "RLHFlow-Mistral-8B": (0.504, 0.334, 0.138, 0.158),
}
"""F1 on GSM8K, MATH, OlympiadBench and Omni-MATH (table 3 of ProcessBench, table 7 of arXiv:2501.07301). The threshold
of Skywork is tuned on GSM8K. All others decide at 1/2."""


@dataclass(frozen=True)
class Detection:
    """F1 of one way to decide which step is wrong, with its 95% interval over questions."""

    way: str
    value: float
    low: float
    high: float
    solutions: int


class _F1(Statistic):
    def __init__(self, found: Bools, wrong: Bools, question: Ints) -> None:
        self.question_ids, index = np.unique(question, return_inverse=True)
        self.rows = len(question)
        parts = (found & wrong, wrong, found & ~wrong, ~wrong)
        self._sums = np.stack([np.bincount(index, weights=part) for part in parts], axis=1)

    def values(self, weights: Floats) -> Floats:
        located, wrong, passed, right = (weights @ self._sums).T
        a, b = located / np.maximum(wrong, 1), passed / np.maximum(right, 1)
        return np.asarray(2 * a * b / np.maximum(a + b, 1e-12))


class _Steps:
    """The scored steps of solutions, each solution in one run of rows."""

    def __init__(self, prefixes: pd.DataFrame) -> None:
        steps = prefixes[prefixes["step"] > 0].sort_values(["question", "solution", "step"])
        new = steps[["question", "solution"]].diff().ne(0).any(axis=1).to_numpy()
        self.rows, self._starts = steps.index.to_numpy(), np.flatnonzero(new)
        self._step = steps["step"].to_numpy(np.float64)
        self.question = steps["question"].to_numpy(np.int64)[self._starts]
        self.first_error = self.first(steps["label"].to_numpy(np.float64) < 0.5)

    def first(self, wrong: Bools) -> Floats:
        """Return the first of the steps that are wrong in each solution, infinity if none is."""
        return np.minimum.reduceat(np.where(wrong, self._step, np.inf), self._starts)

    def found(self, rewards: Floats, threshold: float) -> Bools:
        """Return in which solutions a threshold finds the first error, or finds none where there is none."""
        return np.asarray(self.first(rewards < threshold) == self.first_error)


def detection(
    prefixes: pd.DataFrame, calibrated: Floats | None, subsets: pd.Series, bootstrap: Bootstrap
) -> tuple[Detection, ...]:
    """Return F1 with the threshold 1/2, also of calibrated rewards, and with a threshold tuned on other solutions.

    Parameters
    ----------
    prefixes : DataFrame
        As in `Scored`, with the numbers 0, 1, ... as its index. A label is 1 if every step so far is right.
    calibrated : ndarray of shape (prefixes,), optional
        Calibrated rewards of questions that the fit has not seen.
    subsets : Series
        The subset of each question, by its number. With one subset, the halves of its questions take their place.
    bootstrap : Bootstrap
    """
    steps = _Steps(prefixes)
    wrong = np.isfinite(steps.first_error)
    if not wrong.any() or wrong.all():
        return ()
    own = prefixes["reward"].to_numpy(np.float64)[steps.rows]
    part = pd.factorize(subsets.reindex(steps.question).astype(str))[0]
    named = part.max() > 0
    if not named:
        part = np.random.default_rng(0).permutation(steps.question.max() + 1)[steps.question] % 2
    ways = {"threshold 1/2": steps.found(own, 0.5)}
    if calibrated is not None:
        ways["threshold 1/2, calibrated"] = steps.found(calibrated[steps.rows], 0.5)
    tuned = np.zeros(len(wrong), dtype=bool)
    thresholds = np.unique(np.quantile(own, np.linspace(0, 1, _MOST_THRESHOLDS)))
    hits = np.stack([steps.found(own, each) for each in thresholds])
    for each in np.unique(part):
        others = part != each
        scores = [_F1(row[others], wrong[others], steps.question[others]).value() for row in hits]
        tuned[~others] = hits[int(np.argmax(scores)), ~others]
    ways[f"threshold tuned on {'other subsets' if named else 'the other half'}"] = tuned
    return tuple(
        Detection(way, found.value, found.low, found.high, found.rows)
        for way, right in ways.items()
        for found in [estimate(_F1(right, wrong, steps.question), bootstrap)]
    )
