"""The checks for calibrators, and the calibration data that they are made with.

The data are synthetic scores and hidden states, or prefixes of the nano PRM.
"""

import copy
import inspect
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from prmcal.arrays import Floats, Ints
from prmcal.errors import PluginFailedError
from prmcal.registry.calibrators.scores import ScoreCalibrator
from prmcal.registry.conformance.plugin import expect, expect_array, further_checks
from prmcal.registry.contracts import results
from prmcal.registry.contracts.calibrator import Calibrator, ScoredPrefixes
from prmcal.registry.contracts.data import HiddenStates, Prefix, ScoringRequest

_ROWS = {"reward": 400, "logit": 400, "hidden": 120, "prm": 60}
_PREFIXES_PER_QUESTION = 4
_FOLLOW_UPS, _WIDTH = 8, 8
_READS = ("reward", "logit", "hidden", "prm")

_NO_SKILL = 0.5
"""Limit of the correlation with unrelated labels. Overfitting reaches .2, and memorised labels reach 1."""


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
    return np.asarray(features.logit if hasattr(features, "logit") else features, dtype=np.float64)


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


def joined(before: Any, after: Any) -> Any:
    """Return the prefixes of both features, one after the other."""
    if isinstance(before, HiddenStates):
        return HiddenStates.concatenate([before, after])
    if isinstance(before, ScoredPrefixes):
        return ScoredPrefixes(before.prm, before.prefixes + after.prefixes, np.append(before.logit, after.logit))
    return np.append(before, after)


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
    for first_prefix in range(0, len(logit), _PREFIXES_PER_QUESTION):
        root = len(parents)
        parents += [-1 if parent < 0 else parent + root for parent in stem]
        for _ in range(min(_PREFIXES_PER_QUESTION, len(logit) - first_prefix)):
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
    scored = prm.score_batch([ScoringRequest(prefix.question, (prefix.steps,), whole_only=True) for prefix in prefixes])
    logit = np.array([float(scores.logit[-1]) for (scores,) in scored])
    return ScoredPrefixes(prm, tuple(prefixes), logit)


def fitted_to(plugin: Calibrator, data: CalibrationData) -> Calibrator:
    """Return a fitted copy, after the checks of `fit_to`."""
    return fit_to(copy.deepcopy(plugin), data)


def fit_to(plugin: Calibrator, data: CalibrationData) -> Calibrator:
    """Fit, and check that the fit returns self and does not change its arguments."""
    before = dict(vars(plugin))
    returned = plugin.fit_features(data.features, data.k, data.n, data.questions)
    expect(returned is plugin, f"fit() must return self. Got {type(returned).__name__}. End it with `return self`.")
    for name in inspect.signature(type(plugin)).parameters:
        expect(vars(plugin).get(name) is before.get(name), f"fit() must not change '{name}'. Store it as self.{name}_.")
    return plugin


def predicted_by(fitted: Calibrator, features: Any, levels: Sequence[float] | None = None) -> Floats:
    """Predictions, at levels of ``predict_at`` if they are given, after a check of their shape, range and order."""
    if isinstance(fitted, ScoreCalibrator) and levels is None:  # Its predict() takes scores.
        levels = fitted.levels
    rewards = fitted.predict(features) if levels is None else fitted.predict_at(features, levels)
    method = "predict" if levels is None else "predict_at"
    expect_array(f"The result of {method}()", rewards, np.floating)
    results.check_rewards(rewards, len(features), len(fitted.levels if levels is None else levels))
    return rewards


def predicted_twice_by(fitted: Calibrator, features: Any) -> Floats:
    """Predictions, after a check that they do not change between calls."""
    rewards, rewards_again = predicted_by(fitted, features), predicted_by(fitted, features)
    expect(np.array_equal(rewards, rewards_again), "predict() must return the same each time. Draw no random numbers.")
    return rewards


def _tolerance(plugin: Calibrator) -> float:
    """The allowed difference between batches. Models round differently in different batches, but arrays do not."""
    return 1e-12 if plugin.reads in ("reward", "logit") else 1e-5


def check_reads_and_levels(plugin: Calibrator) -> None:
    """`reads` names known features, and `levels` ascend within (0, 1)."""
    reads, levels = plugin.reads, plugin.levels
    expect(reads in _READS, f"'reads' must be one of {_READS}. Got {reads!r}. Write reads = 'logit'.")
    numbers = isinstance(levels, (tuple, list)) and all(isinstance(level, (int, float)) for level in levels)
    expect(numbers, f"levels must be a tuple of numbers. Got {levels!r}. Write levels = (0.1, 0.5, 0.9).")
    ascending = len(levels) > 0 and bool((np.diff([0, *levels, 1]) > 0).all())
    expect(ascending, f"levels must ascend within (0, 1). Got {levels}. Sort them and the columns of predict().")


def check_prediction_needs_a_fit(plugin: Calibrator) -> None:
    """``predict`` raises PluginFailedError if the calibrator has something to fit and is not fitted."""
    try:
        copy.deepcopy(plugin).predict(calibration_data(plugin, 5).features)
    except PluginFailedError:
        return
    except Exception as error:
        raise AssertionError(
            f"predict() before fit() must raise PluginFailedError. Got {type(error).__name__}: {error}. Write "
            "`self.check_fitted()` in the first line of predict(), and let all names of fitted attributes end in an "
            "underscore."
        ) from error


def check_predictions_are_repeatable_and_in_range(plugin: Calibrator) -> None:
    """Predictions have one column per level and are in [0, 1], also at the ends of the scale, and are not random."""
    fitted = fitted_to(plugin, calibration_data(plugin))
    predicted_twice_by(fitted, calibration_data(plugin, 50, seed=1).features)
    predicted_by(fitted, extremes(plugin))


def check_quantiles_differ(plugin: Calibrator) -> None:
    """Different levels have different rewards."""
    fitted = fitted_to(plugin, calibration_data(plugin))
    features = joined(calibration_data(plugin, 60, seed=1).features, extremes(plugin))
    unused = ~(np.diff(predicted_by(fitted, features), axis=1) > 0).any(axis=0)
    unused_levels = np.array(fitted.levels)[:-1][unused].tolist()
    expect(
        not unused.any(),
        f"Different levels must have different rewards. Those of {unused_levels} and of the next level are equal in "
        "all rows. Use 'levels' in predict(), or write levels = (0.5,).",
    )


def check_any_level(plugin: Calibrator) -> None:
    """``predict_at`` agrees with ``predict``, and a calibrator of any level predicts them in order, one by one."""
    fitted = fitted_to(plugin, calibration_data(plugin))
    features = joined(calibration_data(plugin, 20, seed=1).features, extremes(plugin))
    rewards_of_predict = predicted_by(fitted, features)
    _same(rewards_of_predict, predicted_by(fitted, features, fitted.levels), "its own levels", "of predict()")
    if fitted.any_level:
        levels = sorted({*fitted.levels, 0.02, 0.25, 0.33, 0.75, 0.98})
        rewards = predicted_by(fitted, features, levels)
        expect(
            (np.diff(rewards, axis=1) > 0).any(axis=0).all(),
            "predict_at() must return different rewards for different levels. Use its argument 'levels', or remove "
            "`any_level = True`.",
        )
        places = [levels.index(level) for level in fitted.levels]
        _same(rewards_of_predict, rewards[:, places], "its own levels among others", "of predict()")
        for place, level in enumerate(levels):
            alone = predicted_by(fitted, features, (level,))
            _same(alone[:, 0], rewards[:, place], f"the level {level}", "when it is asked for alone")


def _same(rewards: Floats, other_rewards: Floats, levels: str, expectation: str) -> None:
    gap = np.abs(rewards - other_rewards).max()
    expect(
        gap == 0,
        f"predict_at() must return at {levels} the same as {expectation}. They differ by up to {gap:.3g}. Write "
        "predict() as `return self.predict_at(features, self.levels)`, and let no level depend on the others.",
    )


def check_a_second_fit_forgets_the_first(plugin: Calibrator) -> None:
    """A fit does not depend on an earlier fit, and is not random."""
    data = calibration_data(plugin)
    features = calibration_data(plugin, 50, seed=1).features
    once = fitted_to(plugin, data)
    rewards_before = predicted_twice_by(once, features)
    refitted = fitted_to(plugin, calibration_data(plugin, 60, seed=2))
    gap = np.abs(predicted_by(once, features) - rewards_before).max()
    expect(
        gap == 0,
        "Two calibrators must not share what they fitted. A fit of one changed predictions of another by up to "
        f"{gap:.3g}. Set attributes of self in fit(), and do not change a list or dict of the class.",
    )
    gap = np.abs(rewards_before - predicted_by(fit_to(refitted, data), features)).max()
    expect(
        gap == 0,
        f"A fit must be repeatable and must not depend on an earlier fit. Predictions differ by up to {gap:.3g}. Set "
        "every fitted attribute anew, and draw random numbers from np.random.default_rng(seed).",
    )


def check_inputs_are_not_changed(plugin: Calibrator) -> None:
    """``fit`` and ``predict`` do not change their arguments."""
    data = calibration_data(plugin)
    copied = copy.deepcopy(data)
    predicted_by(fitted_to(plugin, copied), copied.features)
    for name, before, after in (
        ("features", scores_of(data.features), scores_of(copied.features)),
        *((name, getattr(data, name), getattr(copied, name)) for name in ("k", "n", "questions")),
        ("states", getattr(data.features, "states", None), getattr(copied.features, "states", None)),
    ):
        expect(
            np.array_equal(before, after),
            f"fit() and predict() must not change their arguments. '{name}' changed. Work on a copy: {name}.copy(), "
            "or np.sort(...) instead of .sort().",
        )


def check_rows_are_independent(plugin: Calibrator) -> None:
    """The reward of a prefix does not depend on the other prefixes of a call."""
    fitted = fitted_to(plugin, calibration_data(plugin))
    features = calibration_data(plugin, 20, seed=1).features
    together = predicted_twice_by(fitted, features)
    alone = np.concatenate([predicted_by(fitted, features[i : i + 1]) for i in range(len(features))])
    gap = np.abs(together - alone).max()
    expect(
        gap < _tolerance(plugin),
        f"The prediction for a row must be the same alone and among others. They differ by up to {gap:.3g}. Compute "
        "means and ranges in fit(), not in predict().",
    )


def check_equal_features_get_equal_rewards(plugin: Calibrator) -> None:
    """Equal features get equal rewards, even if all features are equal."""
    data = calibration_data(plugin)
    features, ties = tied(data.features)
    rewards = predicted_by(fitted_to(plugin, replace(data, features=features)), features)
    for tie in np.unique(ties):
        spread = np.ptp(rewards[ties == tie], axis=0).max()
        at = scores_of(features)[ties == tie][0]
        expect(
            spread < _tolerance(plugin),
            f"Equal features must get equal rewards. At {at} rewards differ by {spread:.3g}. Let the reward depend "
            "on the features only, not on the position of the row.",
        )
    constant = data.features[np.zeros(len(data.k), dtype=np.int64)]
    predicted_by(fitted_to(plugin, replace(data, features=constant)), constant)


def check_fit_to_one_row(plugin: Calibrator) -> None:
    """A fit to a single prefix works."""
    data = calibration_data(plugin, 1)
    predicted_by(fitted_to(plugin, data), joined(data.features, extremes(plugin)))


def check_fit_to_equal_labels(plugin: Calibrator) -> None:
    """A fit works if all follow-ups fail, or all succeed."""
    data = calibration_data(plugin)
    features = joined(data.features, extremes(plugin))
    for labels in (np.zeros_like(data.k), data.n):
        predicted_by(fitted_to(plugin, replace(data, k=labels)), features)


def check_save_and_load(plugin: Calibrator) -> None:
    """A loaded calibrator predicts the same to the bit. Its files are safetensors and JSON."""
    fitted = fitted_to(plugin, calibration_data(plugin))
    features = joined(calibration_data(plugin, 50, seed=1).features, extremes(plugin))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "calibrator"
        fitted.save(folder)
        written = [path for path in folder.rglob("*") if path.is_file()]
        wrong_names = sorted(path.name for path in written if path.suffix not in (".json", ".safetensors", ".skops"))
        expect(
            not wrong_names,
            f"save() must write safetensors, JSON and skops only. It wrote {', '.join(wrong_names)}. Store arrays, "
            "numbers and estimators of scikit-learn in attributes that end in an underscore, and leave save() as it "
            "is.",
        )
        loaded = copy.deepcopy(plugin).load(folder)
    expect(
        isinstance(loaded, Calibrator), f"load() must return self, not {type(loaded).__name__}. Write `return self`."
    )
    before = predicted_by(fitted, features)
    try:
        after = predicted_by(loaded, features)
    except AttributeError as error:
        lost = error.name or "?"
        raise AssertionError(
            f"predict() after load() needs '{lost}', which save() leaves out. It writes the attributes that end in "
            f"an underscore. Write self.{lost.strip('_')}_ in fit() and in predict()."
        ) from error
    gap = np.abs(before - after).max()
    expect(
        gap == 0,
        f"A loaded calibrator must predict the same to the bit. Predictions differ by up to {gap:.3g}. Check that "
        "the names of all fitted attributes end in an underscore, and that they are arrays, numbers, texts or lists.",
    )


def check_permuted_labels_give_no_skill(plugin: Calibrator) -> None:
    """Labels without relation to the features are not predicted, even if they were fitted to."""
    data = calibration_data(plugin)
    permuted = np.random.default_rng(3).permutation(data.k)
    fitted = fitted_to(plugin, replace(data, k=permuted))
    rewards = predicted_by(fitted, data.features)
    for column, level in enumerate(fitted.levels):
        values = rewards[:, column]
        skill = 0.0 if np.ptp(values) == 0 else float(np.corrcoef(values, permuted / data.n)[0, 1])
        expect(
            skill < _NO_SKILL,
            f"Permuted labels must give no skill. At level {level} the correlation of rewards and labels is "
            f"{skill:.2f}, and must be below {_NO_SKILL}. The calibrator memorises single rows. Give it fewer "
            "parameters, or fit them to more rows each.",
        )


DECLARATIONS = (check_reads_and_levels,)
CHECKS = further_checks(globals(), DECLARATIONS)
