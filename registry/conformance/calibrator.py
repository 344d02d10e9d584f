"""The checks for calibrators."""

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
"""Limit of the correlation with unrelated labels. Overfitting reaches .2, and memorised labels reach 1."""


def _tolerance(plugin: Calibrator) -> float:
    """The allowed difference between batches. Models round differently in different batches, but arrays do not."""
    return 1e-12 if plugin.reads in ("reward", "logit") else 1e-5


def _fitted(plugin: Calibrator, data: CalibrationData) -> Calibrator:
    return _fit(copy.deepcopy(plugin), data)


def _fit(plugin: Calibrator, data: CalibrationData) -> Calibrator:
    grouping: dict[str, Any] = {"questions": data.questions} if plugin.grouped else {}
    return plugin.fit(data.features, data.k, data.n, **grouping)


def _predict(fitted: Calibrator, features: Any, situation: str) -> NDArray[np.float64]:
    """Predictions, after a check of their shape and range."""
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
    expect(low >= 0 and high <= 1, f"Rewards must be in [0, 1] {situation}. Got {low} to {high}.")
    return rewards


def check_fit_returns_self(plugin: Calibrator) -> None:
    """``fit`` returns the calibrator, so that calls can be chained."""
    fresh = copy.deepcopy(plugin)
    returned = _fit(fresh, calibration_data(plugin))
    expect(returned is fresh, f"fit() must return self. Got {type(returned).__name__}.")


def check_shape_and_range(plugin: Calibrator) -> None:
    """Predictions have one column per level and are in [0, 1], also at the ends of the scale."""
    fitted = _fitted(plugin, calibration_data(plugin))
    _predict(fitted, calibration_data(plugin, 50, seed=1).features, "for new rows")
    _predict(fitted, extremes(plugin), "at the ends of the scale")


def check_quantiles_are_ordered(plugin: Calibrator) -> None:
    """Levels ascend, and a higher level never has a lower reward."""
    fitted = _fitted(plugin, calibration_data(plugin))
    levels = np.asarray(fitted.levels, dtype=np.float64)
    ascending = len(levels) > 0 and bool((np.diff(levels) > 0).all()) and levels[0] > 0 and levels[-1] < 1
    expect(ascending, f"levels must ascend within (0, 1). Got {fitted.levels}.")
    features = joined(calibration_data(plugin, 60, seed=1).features, extremes(plugin))
    falls = np.diff(_predict(fitted, features, "for new rows"), axis=1) < 0
    expect(
        not falls.any(),
        f"Rewards must not decrease from one level to the next. They do in {falls.any(axis=1).sum()} rows.",
    )


def check_a_second_fit_forgets_the_first(plugin: Calibrator) -> None:
    """A fit does not depend on an earlier fit, and is not random."""
    data = calibration_data(plugin)
    once = _fitted(plugin, data)
    twice = _fit(_fitted(plugin, calibration_data(plugin, 60, seed=2)), data)
    features = calibration_data(plugin, 50, seed=1).features
    gap = np.abs(
        _predict(once, features, "for new rows") - _predict(twice, features, "after a second fit")
    ).max()
    expect(
        gap == 0,
        f"A fit must be repeatable and must not depend on an earlier fit. Predictions differ by up to {gap:.3g}.",
    )


def check_inputs_are_not_changed(plugin: Calibrator) -> None:
    """``fit`` and ``predict`` do not change their arguments."""
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
        f"The prediction for a row must be the same alone and among others. They differ by up to {gap:.3g}.",
    )


def check_equal_features_get_equal_rewards(plugin: Calibrator) -> None:
    """Equal features get equal rewards, even if all features are equal."""
    data = calibration_data(plugin)
    features, ties = tied(data.features)
    rewards = _predict(_fitted(plugin, replace(data, features=features)), features, "for tied features")
    for tie in np.unique(ties):
        spread = np.ptp(rewards[ties == tie], axis=0).max()
        at = scores_of(features)[ties == tie][0]
        expect(
            spread < _tolerance(plugin),
            f"Equal features must get equal rewards. At {at} rewards differ by {spread:.3g}.",
        )
    constant = data.features[np.zeros(len(data.k), dtype=np.int64)]
    _predict(_fitted(plugin, replace(data, features=constant)), constant, "for equal features")


def check_fit_to_one_row(plugin: Calibrator) -> None:
    """A fit to a single prefix works."""
    data = calibration_data(plugin, 1)
    fitted = _fitted(plugin, data)
    _predict(fitted, data.features, "after a fit to one row")
    _predict(fitted, extremes(plugin), "after a fit to one row")


def check_fit_to_equal_labels(plugin: Calibrator) -> None:
    """A fit works if all follow-ups fail, or all succeed."""
    data = calibration_data(plugin)
    for labels, name in (
        (np.zeros_like(data.k), "after a fit to failures only"),
        (data.n, "after a fit to successes only"),
    ):
        features = joined(data.features, extremes(plugin))
        _predict(_fitted(plugin, replace(data, k=labels)), features, name)


def check_save_and_load(plugin: Calibrator) -> None:
    """A loaded calibrator predicts the same to the bit. Its files are safetensors and JSON."""
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
        f"A loaded calibrator must predict the same to the bit. Predictions differ by up to {gap:.3g}. Check that the "
        "names of all fitted attributes end in an underscore.",
    )


def check_permuted_labels_give_no_skill(plugin: Calibrator) -> None:
    """Labels without relation to the features are not predicted, even if they were fitted to."""
    data = calibration_data(plugin)
    permuted = np.random.default_rng(3).permutation(data.k)
    fitted = _fitted(plugin, replace(data, k=permuted))
    rewards = _predict(fitted, data.features, "for permuted labels")
    for column, level in enumerate(fitted.levels):
        values = rewards[:, column]
        skill = 0.0 if np.ptp(values) == 0 else float(np.corrcoef(values, permuted / data.n)[0, 1])
        expect(
            skill < _NO_SKILL,
            f"Permuted labels must give no skill. At level {level} the correlation of rewards and labels is "
            f"{skill:.2f}, and must be below {_NO_SKILL}. The calibrator memorises single rows.",
        )


CHECKS = (
    check_fit_returns_self,
    check_shape_and_range,
    check_quantiles_are_ordered,
    check_a_second_fit_forgets_the_first,
    check_inputs_are_not_changed,
    check_rows_are_independent,
    check_equal_features_get_equal_rewards,
    check_fit_to_one_row,
    check_fit_to_equal_labels,
    check_save_and_load,
    check_permuted_labels_give_no_skill,
)
