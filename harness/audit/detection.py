"""Error detection: how often scores find the first wrong step of a solution, or all wrong steps.

The first is that of ProcessBench, the second that of PRMBench.

Zheng et al. (2025), "ProcessBench", arXiv:2412.06559: the first step with a score below a threshold is taken for the
first wrong one. F1 is the harmonic mean of two shares: of the wrong solutions whose first wrong step is found, and of
the right solutions in which no step is taken for wrong.

Song et al. (2025), "PRMBench", arXiv:2501.03124: a step with a score of at most 1/2 is taken for wrong. PRMScore is
half the F1 of right steps and half that of wrong ones, over the steps of all solutions.
"""

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


CATEGORIES = {
    "redundency": "NR",
    "circular": "NCL",
    "counterfactual": "ES",
    "step_contradiction": "SC",
    "domain_inconsistency": "DC",
    "confidence": "CI",
    "missing_condition": "PS",
    "deception": "DR",
    "multi_solutions": "MS",
}
"""The field `classification` of PRMBench, and the short names of its tables."""
PRM_SCORES = {
    "Qwen2.5-Math-PRM-72B": (0.682, 0.504, 0.588, 0.737, 0.711, 0.722, 0.786, 0.603, 0.712, 0.994),
    "Qwen2.5-Math-PRM-7B": (0.655, 0.490, 0.551, 0.718, 0.673, 0.663, 0.785, 0.576, 0.691, 0.997),
    "Skywork-PRM-7B": (0.651, 0.564, 0.628, 0.694, 0.671, 0.677, 0.699, 0.609, 0.658, 0.932),
    "ReasonEval-7B": (0.600, 0.610, 0.501, 0.621, 0.659, 0.615, 0.660, 0.556, 0.580, 0.995),
    "RLHFlow-Mistral-8B": (0.544, 0.461, 0.473, 0.566, 0.551, 0.544, 0.638, 0.515, 0.562, 0.979),
    "Math-Shepherd-7B": (0.470, 0.440, 0.503, 0.494, 0.445, 0.413, 0.477, 0.472, 0.486, 0.861),
}
"""PRMScore of all steps, and of each category (the tables of PRMBench's repository, January 2025). ReasonEval has a
score of its own for NR and NCL. Skywork's steps are judged by the change of its score; an earlier table had 0.362."""


@dataclass(frozen=True)
class Detection:
    """F1 or PRMScore of one way to decide which step is wrong, with its 95% interval over questions."""

    way: str
    value: float
    low: float
    high: float
    solutions: int
    """Those that are judged; of a PRMScore, the steps."""


@dataclass(frozen=True)
class PrmScore:
    """PRMScore of a category, or "overall": of the scores as they are, and calibrated."""

    category: str
    score: Detection
    calibrated: Detection | None


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


class _HalfOfBoth(Statistic):
    """PRMScore. Where no step is wrong, it is the F1 of right steps alone, as in PRMBench."""

    def __init__(self, taken: Bools, right: Bools, question: Ints) -> None:
        self.question_ids, index = np.unique(question, return_inverse=True)
        self.rows = len(question)
        parts = (taken & right, ~taken & ~right, taken != right)
        self._sums = np.stack([np.bincount(index, weights=part) for part in parts], axis=1)
        self._all_right = bool(right.all())

    def values(self, weights: Floats) -> Floats:
        passed, found, mistaken = (weights @ self._sums).T
        f1, f1_of_wrong = (2 * each / np.maximum(2 * each + mistaken, 1) for each in (passed, found))
        return np.asarray(f1 if self._all_right else (f1 + f1_of_wrong) / 2)


def prm_scores(
    prefixes: pd.DataFrame, calibrated: Floats | None, levels: pd.Series, bootstrap: Bootstrap
) -> tuple[PrmScore, ...]:
    """Return PRMScore overall, and of each category of PRMBench that the solutions are of.

    Parameters
    ----------
    prefixes : DataFrame
        As in `Scored`. A label is 1 if the step is right.
    calibrated : ndarray of shape (prefixes,), optional
        Calibrated rewards of questions that the fit has not seen.
    levels : Series
        The category of each prefix.
    bootstrap : Bootstrap
    """
    steps, right = prefixes["step"].to_numpy() > 0, prefixes["label"].to_numpy() > 0.5
    question, rewards = prefixes["question"].to_numpy(np.int64), prefixes["reward"].to_numpy(np.float64)
    parts = {name: steps & (levels == own).to_numpy() for own, name in CATEGORIES.items()}

    def scored(way: str, values: Floats, part: Bools) -> Detection:
        statistic = _HalfOfBoth(values[part] > 0.5, right[part], question[part])
        found = estimate(statistic, bootstrap)
        return Detection(way, found.value, found.low, found.high, found.rows)

    return tuple(
        PrmScore(
            name,
            scored("as they are", rewards, part),
            None if calibrated is None else scored("calibrated", calibrated, part),
        )
        for name, part in {"overall": steps, **parts}.items()
        if part.any()
    )


class _Steps:
    """The scored steps of solutions, each solution in one run of rows."""

    def __init__(self, prefixes: pd.DataFrame) -> None:
        steps = prefixes[prefixes["step"] > 0].sort_values(["question", "solution", "step"])
        new = steps[["question", "solution"]].diff().ne(0).any(axis=1).to_numpy()
        self.rows, self._starts = steps.index.to_numpy(), np.flatnonzero(new)
        self._step = steps["step"].to_numpy(np.float64)
        self.solution = self.rows[self._starts]
        """A row of each solution."""
        self.question = steps["question"].to_numpy(np.int64)[self._starts]
        self.first_error = self.first(steps["label"].to_numpy(np.float64) < 0.5)

    def first(self, wrong: Bools) -> Floats:
        """Return the first of the steps that are wrong in each solution, infinity if none is."""
        return np.minimum.reduceat(np.where(wrong, self._step, np.inf), self._starts)

    def found(self, rewards: Floats, threshold: float) -> Bools:
        """Return in which solutions a threshold finds the first error, or finds none where there is none."""
        return np.asarray(self.first(rewards < threshold) == self.first_error)


def detection(
    prefixes: pd.DataFrame, calibrated: Floats | None, levels: pd.Series, bootstrap: Bootstrap
) -> tuple[Detection, ...]:
    """Return F1 with the threshold 1/2, also of calibrated rewards, and with a threshold tuned on other solutions.

    Parameters
    ----------
    prefixes : DataFrame
        As in `Scored`, with the numbers 0, 1, ... as its index. A label is 1 if every step so far is right.
    calibrated : ndarray of shape (prefixes,), optional
        Calibrated rewards of questions that the fit has not seen.
    levels : Series
        The subset of each prefix. With one subset, the halves of its questions take their place.
    bootstrap : Bootstrap
    """
    steps = _Steps(prefixes)
    wrong = np.isfinite(steps.first_error)
    if not wrong.any() or wrong.all():
        return ()
    own = prefixes["reward"].to_numpy(np.float64)[steps.rows]
    part = pd.factorize(levels.iloc[steps.solution].astype(str))[0]
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
