"""What is checked of a calibrator."""

from __future__ import annotations

import copy
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.conformance.features import (
    CalibrationData,
    calibration_data,
    extremes,
    joined,
    scores_of,
    tied,
)
from prmcal.registry.conformance.plugin import expect
from prmcal.registry.contracts.calibrator import Calibrator

__all__ = ["CHECKS"]

_NO_SKILL = 0.5
"""Correlation with labels that are unrelated to the features. Overfitting reaches .2, remembering labels reaches 1."""


def _tolerance(plugin: Calibrator) -> float:
    """What rounding in another batch may change: nothing for an array, some float32 digits for a model."""
    return 1e-12 if plugin.reads in ("reward", "logit") else 1e-5


def _fitted(plugin: Calibrator, data: CalibrationData) -> Calibrator:
    return _fit(copy.deepcopy(plugin), data)


def _fit(plugin: Calibrator, data: CalibrationData) -> Calibrator:
    grouping: dict[str, Any] = {"questions": data.questions} if plugin.grouped else {}
    return plugin.fit(data.features, data.k, data.n, **grouping)


def _predict(fitted: Calibrator, features: Any, situation: str) -> NDArray[np.float64]:
    """Predictions whose shape and range are as they must be."""
    rewards = fitted.predict(features)
    shape = (len(features), len(fitted.levels))
    got = getattr(rewards, "shape", type(rewards).__name__)
    expect(
        got == shape,
        f"predict() must return an array of shape (rows, levels) = {shape} {situation}. Got {got}.",
    )
    expect(
        bool(np.isfinite(rewards).all()),
        f"predict() must return finite numbers {situation}. Got {rewards.min()}.",
    )
    low, high = rewards.min(), rewards.max()
    expect(low >= 0 and high <= 1, f"Rewards must lie in [0, 1] {situation}. Got {low} to {high}.")
    return rewards


def check_fit_returns_self(plugin: Calibrator) -> None:
    """So that calls can be chained."""
    fresh = copy.deepcopy(plugin)
    returned = _fit(fresh, calibration_data(plugin))
    expect(returned is fresh, f"fit() must return self. Got {type(returned).__name__}.")


def check_shape_and_range(plugin: Calibrator) -> None:
    """One column per level, probabilities, also at the ends of the scale."""
    fitted = _fitted(plugin, calibration_data(plugin))
    _predict(fitted, calibration_data(plugin, 50, seed=1).features, "for new rows")
    _predict(fitted, extremes(plugin), "at the ends of the scale")


def check_quantiles_are_ordered(plugin: Calibrator) -> None:
    """A higher level never has a lower reward, nor do levels repeat."""
    fitted = _fitted(plugin, calibration_data(plugin))
    levels = np.asarray(fitted.levels, dtype=np.float64)
    ascending = len(levels) > 0 and bool((np.diff(levels) > 0).all()) and levels[0] > 0 and levels[-1] < 1
    expect(ascending, f"levels must ascend within (0, 1). Got {fitted.levels}.")
    features = joined(calibration_data(plugin, 60, seed=1).features, extremes(plugin))
    falls = np.diff(_predict(fitted, features, "for new rows"), axis=1) < 0
    expect(
        not falls.any(),
        f"Rewards must not fall from one level to the next. They do in {falls.any(axis=1).sum()} rows.",
    )


def check_fit_twice_is_fit_once(plugin: Calibrator) -> None:
    """Nothing is left of an earlier fit, and nothing in it is random."""
    data = calibration_data(plugin)
    once = _fitted(plugin, data)
    twice = _fit(_fitted(plugin, calibration_data(plugin, 60, seed=2)), data)
    features = calibration_data(plugin, 50, seed=1).features
    gap = np.abs(
        _predict(once, features, "for new rows") - _predict(twice, features, "after a second fit")
    ).max()
    expect(
        gap == 0,
        f"A second fit must forget the first and be repeatable. Predictions differ by up to {gap:.3g}.",
    )


def check_inputs_are_left_alone(plugin: Calibrator) -> None:
    """The caller's arrays are the caller's."""
    data = calibration_data(plugin)
    given = copy.deepcopy(data)
    _fitted(plugin, given).predict(given.features)
    for name, before, after in (
        ("features", scores_of(data.features), scores_of(given.features)),
        ("k", data.k, given.k),
        ("n", data.n, given.n),
    ):
        expect(
            np.array_equal(before, after),
            f"fit() and predict() must not change their arguments. '{name}' changed.",
        )


def check_rows_are_independent(plugin: Calibrator) -> None:
    """The reward of a prefix does not depend on what else is predicted with it."""
    fitted = _fitted(plugin, calibration_data(plugin))
    features = calibration_data(plugin, 20, seed=1).features
    together = _predict(fitted, features, "for new rows")
    alone = np.concatenate(
        [_predict(fitted, features[i : i + 1], "for one row") for i in range(len(features))]
    )
    gap = np.abs(together - alone).max()
    expect(
        gap < _tolerance(plugin),
        f"A row must be predicted the same alone and among others. Predictions differ by up to {gap:.3g}.",
    )


def check_ties(plugin: Calibrator) -> None:
    """Equal features get equal rewards, and can be all there is."""
    data = calibration_data(plugin)
    features, ties = tied(data.features)
    rewards = _predict(_fitted(plugin, replace(data, features=features)), features, "where features are tied")
    for tie in np.unique(ties):
        spread = np.ptp(rewards[ties == tie], axis=0).max()
        at = scores_of(features)[ties == tie][0]
        expect(
            spread < _tolerance(plugin),
            f"Equal features must get equal rewards. At {at} they differ by {spread:.3g}.",
        )
    constant = data.features[np.zeros(len(data.k), dtype=np.int64)]
    _predict(_fitted(plugin, replace(data, features=constant)), constant, "where all features are equal")


def check_one_row(plugin: Calibrator) -> None:
    """One prefix is the least there can be to fit to."""
    data = calibration_data(plugin, 1)
    fitted = _fitted(plugin, data)
    _predict(fitted, data.features, "after a fit to one row")
    _predict(fitted, extremes(plugin), "after a fit to one row")


def check_all_labels_equal(plugin: Calibrator) -> None:
    """Nothing but failures, or nothing but successes."""
    data = calibration_data(plugin)
    for labels, name in (
        (np.zeros_like(data.k), "where every follow-up failed"),
        (data.n, "where every follow-up succeeded"),
    ):
        features = joined(data.features, extremes(plugin))
        _predict(_fitted(plugin, replace(data, k=labels)), features, name)


def check_save_and_load(plugin: Calibrator) -> None:
    """What is read back predicts the same to the bit, and comes from safetensors and JSON alone."""
    fitted = _fitted(plugin, calibration_data(plugin))
    features = joined(calibration_data(plugin, 50, seed=1).features, extremes(plugin))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "calibrator"
        fitted.save(folder)
        written = [path for path in folder.rglob("*") if path.is_file()]
        others = sorted(path.name for path in written if path.suffix not in (".json", ".safetensors"))
        expect(not others, f"save() must write safetensors and JSON only. It wrote {', '.join(others)}.")
        loaded = copy.deepcopy(plugin).load(folder)
    before, after = _predict(fitted, features, "for new rows"), _predict(loaded, features, "after load()")
    gap = np.abs(before - after).max()
    expect(
        gap == 0,
        f"A loaded calibrator must predict the same to the bit. Predictions differ by up to {gap:.3g}: is some "
        "fitted attribute without an underscore at its end?",
    )


def check_no_leak(plugin: Calibrator) -> None:
    """Labels that have nothing to do with the features cannot be predicted, not even those that were fitted to."""
    data = calibration_data(plugin)
    permuted = np.random.default_rng(3).permutation(data.k)
    fitted = _fitted(plugin, replace(data, k=permuted))
    rewards = _predict(fitted, data.features, "where labels are permuted")
    for column, level in enumerate(fitted.levels):
        values = rewards[:, column]
        skill = 0.0 if np.ptp(values) == 0 else float(np.corrcoef(values, permuted / data.n)[0, 1])
        expect(
            skill < _NO_SKILL,
            f"Permuted labels must give no skill. At level {level} the rewards correlate with them by {skill:.2f}, "
            f"expected below {_NO_SKILL}: the calibrator remembers single rows.",
        )


CHECKS = (
    check_fit_returns_self,
    check_shape_and_range,
    check_quantiles_are_ordered,
    check_fit_twice_is_fit_once,
    check_inputs_are_left_alone,
    check_rows_are_independent,
    check_ties,
    check_one_row,
    check_all_labels_equal,
    check_save_and_load,
    check_no_leak,
)
