"""Every check passes for the built-in calibrators, and fails for a calibrator with the matching defect."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from prmcal import Calibrator
from prmcal.registry.conformance import checks_of, parametrize_with_checks, run_checks
from prmcal.registry.conformance.plugin import DECLARATIONS
from prmcal.registry.plugins import calibrators

BUILT_IN = [
    *(calibrators.create(name) for name in ("ats", "histogram", "isotonic", "temperature", "uncalibrated")),
    *(calibrators.create(name) for name in ("platt", "beta")),
    *(calibrators.create(name) for name in ("beta-binomial", "ensemble", "monotone-quantile")),
    calibrators.create("ensemble", spread="mixture", conservative=0.1),
    calibrators.create("monotone-quantile", loss="pinball", held_out=0),
    calibrators.create("quantile-lora", epochs=1),
    calibrators.create("quantile-lora", head="full", batches="prefixes", epochs=1),
    calibrators.create("conformal", calibrator="isotonic"),
    calibrators.create("conformal", calibrator="monotone-quantile", level=0.6),
]


@parametrize_with_checks(BUILT_IN)
def test_the_built_in_calibrators_conform(plugin: Calibrator, check: Callable[[Any], None]) -> None:
    check(plugin)


class Sound(Calibrator):
    """Predicts a shrunk reward. Each broken calibrator differs from it in one thing."""

    def fit(self, features: Any, k: Any, n: Any) -> Any:
        self.mean_ = float(k.sum() / n.sum())
        return self

    def predict(self, features: Any) -> Any:
        self.check_fitted()
        return np.clip(0.5 * features + 0.5 * self.mean_, 0, 1)[:, None]


class ReturnsNothing(Sound):
    def fit(self, features: Any, k: Any, n: Any) -> Any:
        super().fit(features, k, n)


class OneDimensional(Sound):
    def predict(self, features: Any) -> Any:
        return super().predict(features)[:, 0]


class NotANumber(Sound):
    def predict(self, features: Any) -> Any:
        return np.where(features[:, None] == 1.0, np.nan, super().predict(features))


class AboveOne(Sound):
    def predict(self, features: Any) -> Any:
        return super().predict(features) + 0.6 * (features[:, None] > 0.9)


class Crossing(Sound):
    levels = (0.1, 0.9)

    def predict(self, features: Any) -> Any:
        return np.stack([features, 1 - features], axis=1)


class DependsOnTheOtherLevels(Sound):
    levels = (0.1, 0.5, 0.9)
    any_level = True

    def predict(self, features: Any) -> Any:
        return self.predict_at(features, self.levels)

    def predict_at(self, features: Any, levels: Any) -> Any:
        return super().predict(features) ** np.linspace(2, 0.5, len(levels))


class RemembersAnEarlierFit(Sound):
    def fit(self, features: Any, k: Any, n: Any) -> Any:
        earlier = getattr(self, "mean_", None)
        super().fit(features, k, n)
        self.mean_ = self.mean_ if earlier is None else (self.mean_ + earlier) / 2
        return self


class Random(Sound):
    calls = itertools.count()

    def fit(self, features: Any, k: Any, n: Any) -> Any:
        self.mean_ = float(np.random.default_rng(next(self.calls)).random())
        return self


class ChangesItsInput(Sound):
    def fit(self, features: Any, k: Any, n: Any) -> Any:
        features.sort()
        return super().fit(features, k, n)


class DependsOnTheBatch(Sound):
    def predict(self, features: Any) -> Any:
        return np.clip(super().predict(features) - features.mean() / 10, 0, 1)


class BreaksTies(Sound):
    def predict(self, features: Any) -> Any:
        return np.clip(super().predict(features) + 1e-3 * np.arange(len(features))[:, None], 0, 1)


class NeedsTwoRows(Sound):
    def fit(self, features: Any, k: Any, n: Any) -> Any:
        self.spread_ = float(np.std(features, ddof=1)) if len(features) > 1 else [][0]
        return super().fit(features, k, n)


class NeedsBothLabels(Sound):
    def fit(self, features: Any, k: Any, n: Any) -> Any:
        if k.sum() in (0, n.sum()):
            raise ValueError("only one class")
        return super().fit(features, k, n)


class ForgetsWhenSaved(Sound):
    def fit(self, features: Any, k: Any, n: Any) -> Any:
        super().fit(features, k, n)
        self.offset = self.mean_ / 3
        return self

    def predict(self, features: Any) -> Any:
        return np.clip(super().predict(features) + getattr(self, "offset", 0.0), 0, 1)


class Pickles(Sound):
    def save(self, folder: Path) -> None:
        super().save(folder)
        (folder / "state.pkl").write_bytes(b"")


class RemembersLabels(Sound):
    def fit(self, features: Any, k: Any, n: Any) -> Any:
        order = np.argsort(features, kind="stable")
        self.features_, self.labels_ = features[order], (k / n)[order]
        return self

    def predict(self, features: Any) -> Any:
        return np.interp(features, self.features_, self.labels_)[:, None]


class IdentityIsNoData(Sound):
    def identity(self) -> dict[str, Any]:
        return {"path": Path("here")}


class IdentityChanges(Sound):
    calls = itertools.count()

    def identity(self) -> dict[str, Any]:
        return {"call": next(self.calls)}


class ReadsTheLogit(Sound):
    """Works only with the features that it reads."""

    reads = "logit"

    def predict(self, features: Any) -> Any:
        assert features.min() < 0
        return expit(features)[:, None] if len(features) > 1 else super().predict(expit(features))


BROKEN: dict[type[Calibrator], tuple[str, str]] = {
    ReturnsNothing: ("fit returns self", r"fit\(\) must return self. Got NoneType"),
    OneDimensional: (
        "predictions are repeatable and in range",
        r"the shape \(rows,\) instead of \(rows, 1\)",
    ),
    NotANumber: (
        "predictions are repeatable and in range",
        "It returned NaN",
    ),
    AboveOne: ("predictions are repeatable and in range", r"outside \[0, 1\]\. Write np\.clip"),
    Crossing: ("quantiles differ", "Its quantiles cross"),
    DependsOnTheOtherLevels: ("any level", "at its own levels among others the same as of predict"),
    RemembersAnEarlierFit: ("a second fit forgets the first", "must not depend on an earlier fit"),
    Random: ("a second fit forgets the first", "must be repeatable"),
    ChangesItsInput: ("inputs are not changed", "'features' changed"),
    DependsOnTheBatch: ("rows are independent", "alone and among others"),
    BreaksTies: ("equal features get equal rewards", "Equal features must get equal rewards"),
    NeedsTwoRows: ("fit to one row", "raised IndexError"),
    NeedsBothLabels: ("fit to equal labels", "raised ValueError: only one class"),
    ForgetsWhenSaved: ("save and load", "end in an underscore"),
    Pickles: ("save and load", r"It wrote state\.pkl"),
    RemembersLabels: ("permuted labels give no skill", r"is 1\.00, and must be below 0\.5"),
    IdentityIsNoData: ("identity is json data", "must be JSON data"),
    IdentityChanges: ("identity is json data", "must not change between calls"),
}


def test_a_sound_calibrator_passes() -> None:
    assert [result for result in run_checks(Sound()) if not result.passed] == []


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_calibrator_fails(broken: type[Calibrator]) -> None:
    import re

    name, message = BROKEN[broken]
    failed = {result.name: result.message for result in run_checks(broken()) if not result.passed}
    assert name in failed
    assert re.search(message, failed[name]), failed[name]


def test_every_check_is_seen_to_fail() -> None:
    names = {result.name for result in run_checks(Sound())[len(DECLARATIONS) :]}
    assert names - {"reads and levels", "prediction needs a fit"} == {name for name, _ in BROKEN.values()}


def test_features_are_what_the_calibrator_reads() -> None:
    results = {result.name: result for result in run_checks(ReadsTheLogit())}
    assert results["predictions are repeatable and in range"].passed


def test_only_plugins_can_be_checked() -> None:
    with pytest.raises(TypeError, match="If this is a class, build the plugin first"):
        checks_of(Sound)  # type: ignore[arg-type]
