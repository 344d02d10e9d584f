"""The checks pass for the built-in calibrators. `test_mistakes.py` has plugins that fail them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from prmcal import PRM, Calibrator, PrefixScores
from prmcal.registry.conformance import checks_of, parametrize_with_checks, run_checks
from prmcal.registry.plugins import calibrators

BUILT_IN = [
    *(calibrators.create(name) for name in ("histogram", "isotonic", "temperature", "uncalibrated")),
    *(calibrators.create(name) for name in ("platt", "beta")),
    # Less training than by default, which no check needs.
    calibrators.create("ats", epochs=2),
    calibrators.create("beta-binomial", decay=0.1, lam=0.0),
    calibrators.create("ensemble", heads=4, epochs=2),
    calibrators.create("ensemble", heads=4, epochs=2, spread="mixture", conservative=0.1),
    calibrators.create("monotone-quantile", epochs=5),
    calibrators.create("monotone-quantile", epochs=5, loss="pinball", held_out=0),
    calibrators.create("quantile-lora", head="full", epochs=1, layers=(5,)),
    calibrators.create("conformal", calibrator="isotonic"),
    calibrators.create("conformal", calibrator={"plugin": "monotone-quantile", "arguments": {"epochs": 2}}, level=0.6),
]


@parametrize_with_checks(BUILT_IN)
def test_the_built_in_calibrators_conform(plugin: Calibrator, check: Callable[[Any], None]) -> None:
    check(plugin)


class Sound(Calibrator):
    """Predicts a shrunk reward."""

    def fit(self, features: Any, k: Any, n: Any) -> Any:
        self.mean_ = float(k.sum() / n.sum())
        return self

    def predict(self, features: Any) -> Any:
        self.check_fitted()
        return np.clip(0.5 * features + 0.5 * self.mean_, 0, 1)[:, None]


class ReadsTheLogit(Sound):
    """Works only with the features that it reads."""

    reads = "logit"

    def predict(self, features: Any) -> Any:
        assert features.min() < 0
        return expit(features)[:, None] if len(features) > 1 else super().predict(expit(features))


def test_features_are_what_the_calibrator_reads() -> None:
    results = {result.name: result for result in run_checks(ReadsTheLogit())}
    assert results["predictions are repeatable and in range"].passed


def test_only_plugins_can_be_checked() -> None:
    with pytest.raises(TypeError, match="If this is a class, build the plugin first"):
        checks_of(Sound)  # type: ignore[arg-type]


def test_a_prm_without_a_limit_is_not_asked_about_long_input() -> None:
    class Unlimited(PRM):
        max_tokens = float("inf")

        def score(self, question: str, trajectories: Any) -> list[PrefixScores]:
            return [
                PrefixScores(np.zeros(size, np.float32), np.full(size, 0.5), np.zeros(size, dtype=bool), size)
                for size in (len(steps) + 1 for steps in trajectories)
            ]

    (result,) = (each for each in run_checks(Unlimited()) if each.name == "too long input is flagged")
    assert result.skipped and not result.passed
    assert "no 'max_tokens'" in result.message
