"""Fit and predict in the checks for calibrators, and check what every fit and every prediction must do."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.conformance.features import CalibrationData
from prmcal.registry.conformance.plugin import expect, expect_array
from prmcal.registry.contracts.calibrator import Calibrator

__all__ = ["fit_to", "fitted_to", "predicted_by", "predicted_twice_by"]


def fitted_to(plugin: Calibrator, data: CalibrationData) -> Calibrator:
    """Return a fitted copy, after the checks of `fit_to`."""
    return fit_to(copy.deepcopy(plugin), data)


def fit_to(plugin: Calibrator, data: CalibrationData) -> Calibrator:
    """Fit, and check what every fit must do: return self, name its attributes, and leave the arguments alone."""
    grouping: dict[str, Any] = {"questions": data.questions} if plugin.grouped else {}
    before = dict(vars(plugin))
    returned = plugin.fit(data.features, data.k, data.n, **grouping)
    expect(
        returned is plugin,
        f"fit() must return self. Got {type(returned).__name__}. Write `return self` in its last line.",
    )
    own = vars(plugin)
    changed = [
        name
        for name in inspect.signature(type(plugin)).parameters
        if name in before and own.get(name) is not before[name]
    ]
    expect(
        not changed,
        f"fit() must not change the argument '{''.join(changed[:1])}'. Store the result as "
        f"self.{''.join(changed[:1])}_.",
    )
    lost = [
        name
        for name in own
        if name not in before
        and not name.startswith("_")
        and not name.endswith("_")
        and not hasattr(type(plugin), name)
    ]
    expect(
        not lost or type(plugin).save is not Calibrator.save,
        f"fit() sets self.{''.join(lost[:1])}, which save() leaves out: names of fitted attributes must end in an "
        f"underscore. Write self.{''.join(lost[:1])}_ in fit() and in predict().",
    )
    return plugin


def predicted_by(fitted: Calibrator, features: Any, situation: str) -> NDArray[np.float64]:
    """Predictions, after a check of their shape and range."""
    rewards = fitted.predict(features)
    shape = (len(features), len(fitted.levels))
    got = getattr(rewards, "shape", type(rewards).__name__)
    found = str(got).replace(f"({len(features)},", "(rows,")
    remedy = (
        "Write `return rewards[:, None]`."
        if got == shape[:1]
        else f"Return one column for each of levels = {fitted.levels}."
        if isinstance(got, tuple)
        else "Write `return np.asarray(rewards)` with this shape."
    )
    expect(
        got == shape,
        f"predict() must return an array of shape (rows, levels) = {shape} {situation}. Got {got}. {remedy}",
        cause=f"predict() must return an array of shape (rows, levels). Got {found}. {remedy}",
    )
    expect_array("the result of predict()", rewards, "a float type", np.floating)
    remedy = "Guard divisions by 0 and logarithms of 0, for instance with np.clip."
    expect(
        bool(np.isfinite(rewards).all()),
        f"predict() must return finite numbers {situation}. Got {rewards.min()}. {remedy}",
        cause=f"predict() must return finite numbers. {remedy}",
    )
    low, high = rewards.min(), rewards.max()
    remedy = "Write np.clip(rewards, 0, 1), or return probabilities instead of log-odds."
    expect(
        low >= 0 and high <= 1,
        f"Rewards must be in [0, 1] {situation}. Got {low} to {high}. {remedy}",
        cause=f"Rewards must be in [0, 1]. {remedy}",
    )
    return rewards


def predicted_twice_by(fitted: Calibrator, features: Any) -> NDArray[np.float64]:
    """Predictions, after a check that they are the same each time."""
    first, again = (predicted_by(fitted, features, "for new rows") for _ in range(2))
    gap = np.abs(first - again).max()
    remedy = "Draw no random numbers in predict()."
    expect(
        gap == 0,
        f"predict() must return the same for the same rows each time. It differs by up to {gap:.3g}. {remedy}",
        cause=f"predict() must return the same for the same rows each time. {remedy}",
    )
    return first
