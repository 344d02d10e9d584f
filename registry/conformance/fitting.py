"""Fits and predictions of the checks for calibrators, and the calibration data that they are made with.

The data are synthetic scores and hidden states, or prefixes of the nano PRM.
"""

import copy
import inspect
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.special import expit

from prmcal.arrays import Floats, Ints
from prmcal.registry.conformance.plugin import expect, expect_array
from prmcal.registry.contracts.calibrator import Calibrator, ScoredPrefixes
from prmcal.registry.contracts.data import HiddenStates, Prefix, ScoringRequest

_ROWS = {"reward": 400, "logit": 400, "hidden": 120, "prm": 60}
_PREFIXES_PER_QUESTION = 4
_FOLLOW_UPS = 8
_WIDTH = 8


@dataclass(frozen=True)
class CalibrationData:
    """The features of prefixes, their k successes of n follow-ups, and the number of each prefix's question."""

    features: Any
    k: Ints
    n: Ints
    questions: Ints


def calibration_data(plugin: Calibrator, rows: int | None = None, seed: int = 0) -> CalibrationData:
    """Return data of an overconfident PRM, where the true log-odds are 0.7 times its logit, minus 0.5."""
    count = _ROWS[plugin.reads] if rows is None else rows
    random = np.random.default_rng(seed)
    features = _features(plugin, count, random)
    n = np.full(count, _FOLLOW_UPS, dtype=np.int64)
    logit = scores_of(features)
    if plugin.reads == "reward":
        logit = np.log(logit) - np.log1p(-logit)
    k = random.binomial(n, expit(0.7 * logit - 0.5)).astype(np.int64)
    return CalibrationData(features, k, n, np.arange(count) // _PREFIXES_PER_QUESTION)


def scores_of(features: Any) -> Floats:
    """Return the score of each prefix: the features themselves, or their logits."""
    scores: Floats = features.logit if hasattr(features, "logit") else features
    return scores


def extremes(plugin: Calibrator) -> Any:
    """Return features at both ends of the scale, or ordinary prefixes of the PRM."""
    if plugin.reads == "reward":
        return np.array([0.0, 1e-12, 0.5, 1.0 - 1e-12, 1.0])
    logit = np.array([-40.0, -7.0, 0.0, 7.0, 40.0])
    if plugin.reads == "logit":
        return logit
    random = np.random.default_rng(9)
    if plugin.reads == "hidden":
        return _forest(logit, random)
    return _features(plugin, len(logit), random)


def joined(first: Any, second: Any) -> Any:
    """Return the prefixes of both, one after the other."""
    if isinstance(first, HiddenStates):
        return HiddenStates.concatenate([first, second])
    if isinstance(first, ScoredPrefixes):
        return ScoredPrefixes(
            first.prm, first.prefixes + second.prefixes, np.append(first.logit, second.logit)
        )
    return np.append(first, second)


def tied(features: Any) -> tuple[Any, Ints]:
    """Return prefixes with many duplicates, and a number for each prefix that is the same for duplicates."""
    if isinstance(features, np.ndarray):
        coarse = np.round(features, 1)
        return coarse, np.unique(coarse, return_inverse=True)[1]
    repeated = np.arange(len(features)) // 2
    return features[repeated], repeated


def _features(plugin: Calibrator, rows: int, random: np.random.Generator) -> Any:
    if plugin.reads == "prm":
        return _nano_prefixes(rows, int(random.integers(1000)))
    logit = random.normal(0.0, 2.0, rows)
    if plugin.reads == "hidden":
        return _forest(logit, random)
    return expit(logit) if plugin.reads == "reward" else logit


def _forest(logit: Floats, random: np.random.Generator) -> HiddenStates:
    """Questions with three tokens. Each prefix has one more token behind them."""
    stem = np.array([-1, 0, 1])
    parents: list[int] = []
    leaves: list[int] = []
    for first in range(0, len(logit), _PREFIXES_PER_QUESTION):
        root = len(parents)
        parents += [-1 if parent < 0 else parent + root for parent in stem]
        for _ in range(min(_PREFIXES_PER_QUESTION, len(logit) - first)):
            leaves.append(len(parents))
            parents.append(root + len(stem) - 1)
    states = random.normal(0.0, 1.0, (len(parents), _WIDTH)).astype(np.float32)
    return HiddenStates(states, np.array(parents), np.array(leaves), logit)


@cache
def _nano_prm() -> Any:
    from prmcal.registry.plugins import prms

    return prms.create("qwen", checkpoint="nano:prm", dtype="float32")


@cache
def _nano_prefixes(rows: int, seed: int) -> ScoredPrefixes:
    from prmcal.registry.nano.problems import generate_split, solution_steps

    prm = _nano_prm()
    problems = generate_split("nano-math", "train", seed + rows)[seed:]
    prefixes = [
        Prefix(problem.text, tuple(solution_steps(problem)[:count]))
        for problem in problems
        for count in range(min(_PREFIXES_PER_QUESTION, len(problem.operations) + 1))
    ][:rows]
    scored = prm.score_batch(
        [ScoringRequest(prefix.question, (prefix.steps,), whole_only=True) for prefix in prefixes]
    )
    logit = np.array([float(each.logit[-1]) for (each,) in scored])
    return ScoredPrefixes(prm, tuple(prefixes), logit)


def fitted_to(plugin: Calibrator, data: CalibrationData) -> Calibrator:
    """Return a fitted copy, after the checks of `fit_to`."""
    return fit_to(copy.deepcopy(plugin), data)


def fit_to(plugin: Calibrator, data: CalibrationData) -> Calibrator:
    """Fit, and check what every fit must do: return self, name its attributes, and leave the arguments alone."""
    grouping: dict[str, Any] = {"questions": data.questions} if plugin.grouped else {}
    before = dict(vars(plugin))
    returned = plugin.fit(data.features, data.k, data.n, **grouping)
    expect(returned is plugin, "fit() must return self", returned=returned)
    own = vars(plugin)
    changed = [
        name
        for name in inspect.signature(type(plugin)).parameters
        if name in before and own.get(name) is not before[name]
    ]
    expect(not changed, "fit() must not change", names="".join(changed[:1]))
    lost = [
        name
        for name in own
        if name not in before
        and not name.startswith("_")
        and not name.endswith("_")
        and not hasattr(type(plugin), name)
    ]
    expect(
        not lost or type(plugin).save is not Calibrator.save, "fit() sets self which", names="".join(lost[:1])
    )
    return plugin


def predicted_by(fitted: Calibrator, features: Any) -> Floats:
    """Predictions, after a check of their shape and range."""
    rewards = fitted.predict(features)
    got = getattr(rewards, "shape", None)
    expect(got is not None, "predict() must return an array", rewards=rewards)
    expect(got != (len(features),), "predict() must return columns")
    expect(
        got == (len(features), len(fitted.levels)),
        "predict() must return a column for",
        got=str(got).replace(f"({len(features)},", "(rows,"),
        fitted=fitted,
    )
    expect_array("The result of predict()", rewards, np.floating)
    expect(np.isfinite(rewards).all(), "predict() must return finite")
    expect(((rewards >= 0) & (rewards <= 1)).all(), "rewards must be in")
    return rewards


def predicted_twice_by(fitted: Calibrator, features: Any) -> Floats:
    """Predictions, after a check that they are the same each time."""
    first, again = predicted_by(fitted, features), predicted_by(fitted, features)
    expect(np.array_equal(first, again), "predict() must return the")
    return first
