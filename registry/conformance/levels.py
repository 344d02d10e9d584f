"""The checks for the levels of calibrators: quantiles are ordered, and every level can be asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.conformance.fitting import calibration_data, extremes, fitted_to, joined, predicted_by
from prmcal.registry.conformance.plugin import expect
from prmcal.registry.contracts.calibrator import Calibrator

__all__ = ["check_any_level", "check_quantiles_are_ordered"]


def check_quantiles_are_ordered(plugin: Calibrator) -> None:
    """A higher level never has a lower reward, and the levels are used."""
    fitted = fitted_to(plugin, calibration_data(plugin))
    features = joined(calibration_data(plugin, 60, seed=1).features, extremes(plugin))
    rises = np.diff(predicted_by(fitted, features, "for new rows"), axis=1)
    expect(
        not (rises < 0).any(),
        f"Rewards must not decrease from one level to the next. They do in {(rises < 0).any(axis=1).sum()} rows. Write "
        "`return np.sort(rewards, axis=1)`, or fit levels that cannot cross.",
    )
    unused = ~(rises > 0).any(axis=0)
    expect(
        not unused.any(),
        f"Different levels must have different rewards. Those of {np.array(fitted.levels)[:-1][unused].tolist()} and "
        "of the next level are equal in all rows. Use 'levels' in predict(), or write levels = (0.5,).",
    )


def check_any_level(plugin: Calibrator) -> None:
    """``predict_at`` agrees with ``predict``, and a calibrator of any level predicts them in order, one by one."""
    fitted = fitted_to(plugin, calibration_data(plugin))
    features = joined(calibration_data(plugin, 20, seed=1).features, extremes(plugin))
    own = predicted_by(fitted, features, "for new rows")
    _same(own, _predict_at(fitted, features, fitted.levels), "its own levels", "of predict()")
    if fitted.any_level:
        levels = sorted({*fitted.levels, 0.02, 0.25, 0.33, 0.75, 0.98})
        rewards = _predict_at(fitted, features, levels)
        expect(
            not (np.diff(rewards, axis=1) < 0).any(),
            "predict_at() must not return lower rewards for higher levels. Write `return np.sort(rewards, axis=1)`, or "
            "fit levels that cannot cross.",
        )
        expect(
            bool((np.diff(rewards, axis=1) > 0).any(axis=0).all()),
            "predict_at() must return different rewards for different levels. Use its argument 'levels', or remove "
            "`any_level = True`.",
        )
        places = [levels.index(level) for level in fitted.levels]
        _same(own, rewards[:, places], "its own levels among others", "of predict()")
        for place, level in enumerate(levels):
            alone = _predict_at(fitted, features, (level,))
            _same(alone[:, 0], rewards[:, place], f"the level {level}", "when it is asked for alone")


def _predict_at(fitted: Calibrator, features: Any, levels: Sequence[float]) -> NDArray[np.float64]:
    """The result of predict_at, after a check of its shape and range."""
    rewards = fitted.predict_at(features, levels)
    shape = (len(features), len(levels))
    got = getattr(rewards, "shape", type(rewards).__name__)
    expect(
        got == shape,
        f"predict_at() must return an array of shape (rows, levels) = {shape} for the levels {tuple(levels)}. Got "
        f"{got}. Return one column for each level of its argument.",
    )
    expect(
        bool(((rewards >= 0) & (rewards <= 1)).all()),
        "predict_at() must return rewards in [0, 1]. Write np.clip(rewards, 0, 1).",
    )
    return rewards


def _same(first: NDArray[np.float64], second: NDArray[np.float64], levels: str, other: str) -> None:
    gap = np.abs(first - second).max()
    expect(
        gap == 0,
        f"predict_at() must return at {levels} the same as {other}. They differ by up to {gap:.3g}. Write predict() as "
        "`return self.predict_at(features, self.levels)`, and let no level depend on the others.",
    )
