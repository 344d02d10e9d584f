"""The checks for calibrators."""

import copy
import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from prmcal.arrays import Floats
from prmcal.errors import PluginFailedError
from prmcal.registry.conformance import fitting
from prmcal.registry.conformance.plugin import expect, failed, further_checks
from prmcal.registry.contracts.calibrator import Calibrator

_READS = ("reward", "logit", "hidden", "prm")

_NO_SKILL = 0.5
"""Limit of the correlation with unrelated labels. Overfitting reaches .2, and memorised labels reach 1."""


def _tolerance(plugin: Calibrator) -> float:
    """The allowed difference between batches. Models round differently in different batches, but arrays do not."""
    return 1e-12 if plugin.reads in ("reward", "logit") else 1e-5


def check_reads_and_levels(plugin: Calibrator) -> None:
    """`reads` names known features, and `levels` ascend within (0, 1)."""
    reads, levels = plugin.reads, plugin.levels
    expect(reads in _READS, "reads must be one", reads=reads)
    numbers = isinstance(levels, (tuple, list)) and all(isinstance(each, (int, float)) for each in levels)
    expect(numbers, "levels must be a", levels=levels)
    ascending = len(levels) > 0 and all(
        low < high for low, high in zip((0, *levels), (*levels, 1), strict=True)
    )
    expect(ascending, "levels must ascend within", levels=levels)


def check_fit_returns_self(plugin: Calibrator) -> None:
    """``fit`` returns the calibrator, so that calls can be chained."""
    fitting.fitted_to(plugin, fitting.calibration_data(plugin))


def check_prediction_needs_a_fit(plugin: Calibrator) -> None:
    """``predict`` raises PluginFailedError if the calibrator has something to fit and is not fitted."""
    try:
        copy.deepcopy(plugin).predict(fitting.calibration_data(plugin, 5).features)
    except PluginFailedError:
        return
    except Exception as error:
        raise failed("predict() before fit() must", error=error) from error


def check_predictions_are_repeatable_and_in_range(plugin: Calibrator) -> None:
    """Predictions have one column per level and are in [0, 1], also at the ends of the scale, and are not random."""
    fitted = fitting.fitted_to(plugin, fitting.calibration_data(plugin))
    fitting.predicted_twice_by(fitted, fitting.calibration_data(plugin, 50, seed=1).features)
    fitting.predicted_by(fitted, fitting.extremes(plugin))


def check_quantiles_are_ordered(plugin: Calibrator) -> None:
    """A higher level never has a lower reward, and the levels are used."""
    fitted = fitting.fitted_to(plugin, fitting.calibration_data(plugin))
    features = fitting.joined(fitting.calibration_data(plugin, 60, seed=1).features, fitting.extremes(plugin))
    rises = np.diff(fitting.predicted_by(fitted, features), axis=1)
    expect(not (rises < 0).any(), "rewards must not decrease", number=(rises < 0).any(axis=1).sum())
    unused = ~(rises > 0).any(axis=0)
    expect(
        not unused.any(), "different levels must have", found=np.array(fitted.levels)[:-1][unused].tolist()
    )


def check_any_level(plugin: Calibrator) -> None:
    """``predict_at`` agrees with ``predict``, and a calibrator of any level predicts them in order, one by one."""
    fitted = fitting.fitted_to(plugin, fitting.calibration_data(plugin))
    features = fitting.joined(fitting.calibration_data(plugin, 20, seed=1).features, fitting.extremes(plugin))
    own = fitting.predicted_by(fitted, features)
    _same(own, _predict_at(fitted, features, fitted.levels), "its own levels", "of predict()")
    if fitted.any_level:
        levels = sorted({*fitted.levels, 0.02, 0.25, 0.33, 0.75, 0.98})
        rewards = _predict_at(fitted, features, levels)
        expect(not (np.diff(rewards, axis=1) < 0).any(), "predict_at() must not return")
        expect((np.diff(rewards, axis=1) > 0).any(axis=0).all(), "predict_at() must return different")
        places = [levels.index(level) for level in fitted.levels]
        _same(own, rewards[:, places], "its own levels among others", "of predict()")
        for place, level in enumerate(levels):
            alone = _predict_at(fitted, features, (level,))
            _same(alone[:, 0], rewards[:, place], f"the level {level}", "when it is asked for alone")


def _predict_at(fitted: Calibrator, features: Any, levels: Sequence[float]) -> Floats:
    """The result of predict_at, after a check of its shape and range."""
    rewards = fitted.predict_at(features, levels)
    shape = (len(features), len(levels))
    got = getattr(rewards, "shape", type(rewards).__name__)
    expect(got == shape, "predict_at() must return an", value=tuple(levels), shape=shape, got=got)
    expect(((rewards >= 0) & (rewards <= 1)).all(), "predict_at() must return rewards")
    return rewards


def _same(first: Floats, second: Floats, levels: str, other: str) -> None:
    gap = np.abs(first - second).max()
    expect(gap == 0, "predict_at() must return at", levels=levels, other=other, gap=gap)


def check_a_second_fit_forgets_the_first(plugin: Calibrator) -> None:
    """A fit does not depend on an earlier fit, and is not random."""
    data = fitting.calibration_data(plugin)
    features = fitting.calibration_data(plugin, 50, seed=1).features
    once = fitting.fitted_to(plugin, data)
    first = fitting.predicted_twice_by(once, features)
    other = fitting.fitted_to(plugin, fitting.calibration_data(plugin, 60, seed=2))
    gap = np.abs(fitting.predicted_by(once, features) - first).max()
    expect(gap == 0, "two calibrators must not", gap=gap)
    gap = np.abs(first - fitting.predicted_by(fitting.fit_to(other, data), features)).max()
    expect(gap == 0, "a fit must be", gap=gap)


def check_inputs_are_not_changed(plugin: Calibrator) -> None:
    """``fit`` and ``predict`` do not change their arguments."""
    data = fitting.calibration_data(plugin)
    given = copy.deepcopy(data)
    fitting.fitted_to(plugin, given).predict(given.features)
    pairs: tuple[tuple[str, Any, Any], ...] = (
        ("features", fitting.scores_of(data.features), fitting.scores_of(given.features)),
        ("states", getattr(data.features, "states", None), getattr(given.features, "states", None)),
        ("k", data.k, given.k),
        ("n", data.n, given.n),
        ("questions", data.questions, given.questions),
    )
    for name, before, after in pairs:
        expect(before is None or np.array_equal(before, after), "fit() and predict() must", name=name)


def check_rows_are_independent(plugin: Calibrator) -> None:
    """The reward of a prefix does not depend on what else is predicted with it."""
    fitted = fitting.fitted_to(plugin, fitting.calibration_data(plugin))
    features = fitting.calibration_data(plugin, 20, seed=1).features
    together = fitting.predicted_twice_by(fitted, features)
    alone = np.concatenate([fitting.predicted_by(fitted, features[i : i + 1]) for i in range(len(features))])
    gap = np.abs(together - alone).max()
    expect(gap < _tolerance(plugin), "the prediction for a", gap=gap)


def check_equal_features_get_equal_rewards(plugin: Calibrator) -> None:
    """Equal features get equal rewards, even if all features are equal."""
    data = fitting.calibration_data(plugin)
    features, ties = fitting.tied(data.features)
    rewards = fitting.predicted_by(fitting.fitted_to(plugin, replace(data, features=features)), features)
    for tie in np.unique(ties):
        spread = np.ptp(rewards[ties == tie], axis=0).max()
        at = fitting.scores_of(features)[ties == tie][0]
        expect(spread < _tolerance(plugin), "equal features must get", at=at, spread=spread)
    constant = data.features[np.zeros(len(data.k), dtype=np.int64)]
    fitting.predicted_by(fitting.fitted_to(plugin, replace(data, features=constant)), constant)


def check_fit_to_one_row(plugin: Calibrator) -> None:
    """A fit to a single prefix works."""
    data = fitting.calibration_data(plugin, 1)
    fitted = fitting.fitted_to(plugin, data)
    fitting.predicted_by(fitted, data.features)
    fitting.predicted_by(fitted, fitting.extremes(plugin))


def check_fit_to_equal_labels(plugin: Calibrator) -> None:
    """A fit works if all follow-ups fail, or all succeed."""
    data = fitting.calibration_data(plugin)
    features = fitting.joined(data.features, fitting.extremes(plugin))
    for labels in (np.zeros_like(data.k), data.n):
        fitting.predicted_by(fitting.fitted_to(plugin, replace(data, k=labels)), features)


def check_save_and_load(plugin: Calibrator) -> None:
    """A loaded calibrator predicts the same to the bit. Its files are safetensors and JSON."""
    fitted = fitting.fitted_to(plugin, fitting.calibration_data(plugin))
    features = fitting.joined(fitting.calibration_data(plugin, 50, seed=1).features, fitting.extremes(plugin))
    if type(plugin).save is Calibrator.save:
        _require_state(fitted)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "calibrator"
        fitted.save(folder)
        written = [path for path in folder.rglob("*") if path.is_file()]
        others = sorted(path.name for path in written if path.suffix not in (".json", ".safetensors"))
        expect(not others, "save() must write safetensors", names=", ".join(others))
        loaded = copy.deepcopy(plugin).load(folder)
    expect(isinstance(loaded, Calibrator), "load() must return self", loaded=loaded)
    before = fitting.predicted_by(fitted, features)
    try:
        after = fitting.predicted_by(loaded, features)
    except AttributeError as error:
        lost = error.name or "?"
        raise failed("predict() after load() needs", value=lost.strip("_"), lost=lost) from error
    gap = np.abs(before - after).max()
    expect(gap == 0, "a loaded calibrator must", gap=gap)


def _require_state(fitted: Calibrator) -> None:
    """Fail unless every fitted attribute can be written."""
    for name, value in vars(fitted).items():
        if name.endswith("_") and not isinstance(value, np.ndarray):
            try:
                json.dumps(value)
            except (TypeError, ValueError) as error:
                raise failed("save() writes arrays of", name=name, value=value) from error


def check_permuted_labels_give_no_skill(plugin: Calibrator) -> None:
    """Labels without relation to the features are not predicted, even if they were fitted to."""
    data = fitting.calibration_data(plugin)
    permuted = np.random.default_rng(3).permutation(data.k)
    fitted = fitting.fitted_to(plugin, replace(data, k=permuted))
    rewards = fitting.predicted_by(fitted, data.features)
    for column, level in enumerate(fitted.levels):
        values = rewards[:, column]
        skill = 0.0 if np.ptp(values) == 0 else float(np.corrcoef(values, permuted / data.n)[0, 1])
        expect(skill < _NO_SKILL, "permuted labels must give", no_skill=_NO_SKILL, level=level, skill=skill)


DECLARATIONS = (check_reads_and_levels,)
CHECKS = further_checks(globals(), DECLARATIONS)
