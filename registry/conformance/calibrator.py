"""What is checked of a calibrator."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from registry.conformance.plugin import expect
from registry.contracts.calibrator import Calibrator

__all__ = ["CHECKS"]

_ROWS = 400
_FOLLOW_UPS = 8
_NO_SKILL = 0.5
"""Correlation with labels that are unrelated to the features. Overfitting reaches .2, remembering labels reaches 1."""

Data = tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]


def _data(plugin: Calibrator, rows: int = _ROWS, seed: int = 0) -> Data:
    """Features, k and n of an overconfident PRM: the true log-odds are 0.7 of its logit, less a half."""
    random = np.random.default_rng(seed)
    logit = random.normal(0.0, 2.0, rows)
    n = np.full(rows, _FOLLOW_UPS, dtype=np.int64)
    k = random.binomial(n, expit(0.7 * logit - 0.5)).astype(np.int64)
    return (expit(logit) if plugin.reads == "reward" else logit), k, n


def _extremes(plugin: Calibrator) -> NDArray[np.float64]:
    if plugin.reads == "reward":
        return np.array([0.0, 1e-12, 0.5, 1.0 - 1e-12, 1.0])
    return np.array([-40.0, -7.0, 0.0, 7.0, 40.0])


def _fitted(
    plugin: Calibrator, features: NDArray[np.float64], k: NDArray[np.int64], n: NDArray[np.int64]
) -> Calibrator:
    return copy.deepcopy(plugin).fit(features, k, n)


def _predict(fitted: Calibrator, features: NDArray[np.float64], situation: str) -> NDArray[np.float64]:
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
    returned = fresh.fit(*_data(plugin))
    expect(returned is fresh, f"fit() must return self. Got {type(returned).__name__}.")


def check_shape_and_range(plugin: Calibrator) -> None:
    """One column per level, probabilities, also at the ends of the scale."""
    fitted = _fitted(plugin, *_data(plugin))
    _predict(fitted, _data(plugin, 50, seed=1)[0], "for new rows")
    _predict(fitted, _extremes(plugin), "at the ends of the scale")


def check_quantiles_are_ordered(plugin: Calibrator) -> None:
    """A higher level never has a lower reward, nor do levels repeat."""
    fitted = _fitted(plugin, *_data(plugin))
    levels = np.asarray(fitted.levels, dtype=np.float64)
    ascending = len(levels) > 0 and bool((np.diff(levels) > 0).all()) and levels[0] > 0 and levels[-1] < 1
    expect(ascending, f"levels must ascend within (0, 1). Got {fitted.levels}.")
    features = np.concatenate([_data(plugin, 200, seed=1)[0], _extremes(plugin)])
    falls = np.diff(_predict(fitted, features, "for new rows"), axis=1) < 0
    expect(
        not falls.any(),
        f"Rewards must not fall from one level to the next. They do in {falls.any(axis=1).sum()} rows.",
    )


def check_fit_twice_is_fit_once(plugin: Calibrator) -> None:
    """Nothing is left of an earlier fit, and nothing in it is random."""
    data, other = _data(plugin), _data(plugin, 100, seed=2)
    once = _fitted(plugin, *data)
    twice = _fitted(plugin, *other).fit(*data)
    features = _data(plugin, 50, seed=1)[0]
    gap = np.abs(
        _predict(once, features, "for new rows") - _predict(twice, features, "after a second fit")
    ).max()
    expect(
        gap == 0,
        f"A second fit must forget the first and be repeatable. Predictions differ by up to {gap:.3g}.",
    )


def check_inputs_are_left_alone(plugin: Calibrator) -> None:
    """The caller's arrays are the caller's."""
    data = _data(plugin)
    given = copy.deepcopy(data)
    _fitted(plugin, *given).predict(given[0])
    for name, before, after in zip(("features", "k", "n"), data, given, strict=True):
        expect(
            np.array_equal(before, after),
            f"fit() and predict() must not change their arguments. '{name}' changed.",
        )


def check_rows_are_independent(plugin: Calibrator) -> None:
    """The reward of a prefix does not depend on what else is predicted with it."""
    fitted = _fitted(plugin, *_data(plugin))
    features = _data(plugin, 50, seed=1)[0]
    together = _predict(fitted, features, "for new rows")
    alone = np.concatenate(
        [_predict(fitted, features[i : i + 1], "for one row") for i in range(len(features))]
    )
    gap = np.abs(together - alone).max()
    expect(
        gap < 1e-12,
        f"A row must be predicted the same alone and among others. Predictions differ by up to {gap:.3g}.",
    )


def check_ties(plugin: Calibrator) -> None:
    """Equal features get equal rewards, and can be all there is."""
    features, k, n = _data(plugin)
    coarse = np.round(features, 1)
    rewards = _predict(_fitted(plugin, coarse, k, n), coarse, "where features are tied")
    for value in np.unique(coarse):
        spread = np.ptp(rewards[coarse == value], axis=0).max()
        expect(spread == 0, f"Equal features must get equal rewards. At {value} they differ by {spread:.3g}.")
    constant = np.full(len(features), 0.5)
    _predict(_fitted(plugin, constant, k, n), constant, "where all features are equal")


def check_one_row(plugin: Calibrator) -> None:
    """One prefix is the least there can be to fit to."""
    features, k, n = _data(plugin, 1)
    fitted = _fitted(plugin, features, k, n)
    _predict(fitted, features, "after a fit to one row")
    _predict(fitted, _extremes(plugin), "after a fit to one row")


def check_all_labels_equal(plugin: Calibrator) -> None:
    """Nothing but failures, or nothing but successes."""
    features, k, n = _data(plugin)
    for labels, name in (
        (np.zeros_like(k), "where every follow-up failed"),
        (n, "where every follow-up succeeded"),
    ):
        _predict(_fitted(plugin, features, labels, n), np.append(features, _extremes(plugin)), name)


def check_save_and_load(plugin: Calibrator) -> None:
    """What is read back predicts the same to the bit, and comes from safetensors and JSON alone."""
    fitted = _fitted(plugin, *_data(plugin))
    features = np.append(_data(plugin, 50, seed=1)[0], _extremes(plugin))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "calibrator"
        fitted.save(folder)
        others = sorted(
            path.name for path in folder.iterdir() if path.suffix not in (".json", ".safetensors")
        )
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
    features, k, n = _data(plugin)
    permuted = np.random.default_rng(3).permutation(k)
    fitted = _fitted(plugin, features, permuted, n)
    rewards = _predict(fitted, features, "where labels are permuted")
    for column, level in enumerate(fitted.levels):
        values = rewards[:, column]
        skill = 0.0 if np.ptp(values) == 0 else float(np.corrcoef(values, permuted / n)[0, 1])
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
