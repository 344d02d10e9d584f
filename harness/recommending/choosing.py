"""The best choice within a budget, and the cheapest one with an accuracy.

Nothing here sees a test question.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prmcal.harness.recommending.calibration import Measured
from prmcal.harness.recommending.types import Wanted

__all__ = ["affordable", "ordered", "reaches"]

_ROUNDING = 1e-9


def ordered(found: Sequence[Measured], wanted: Wanted) -> list[Measured]:
    """Return choices, the one to recommend first.

    With a budget, those within it are ordered by their accuracy, and equal ones by their samples. Others are left out.

    With a wanted accuracy, first come those whose accuracy is at least one standard error above it, the cheapest in
    samples first. The cheapest of many that just reach it would reach it by luck. Then come those whose accuracy is at
    least the wanted one, in the same order. Then come all others, the most accurate first.

    Of equal choices, the given order remains.
    """
    if wanted.kind == "accuracy":
        return sorted(found, key=lambda each: _rank(each, wanted.value))
    within = [each for each in found if affordable(each, wanted)]
    return sorted(within, key=lambda each: (-_rounded(each.accuracy.mean()), _rounded(each.samples.mean())))


def affordable(found: Measured, wanted: Wanted) -> bool:
    """Return whether the mean cost of a choice is within a wanted budget. Every cost is, if an accuracy is wanted."""
    return wanted.kind == "accuracy" or found.cost(wanted.kind) <= wanted.value * (1 + _ROUNDING)


def reaches(found: Measured, wanted: Wanted) -> bool:
    """Return whether a choice reaches the wanted accuracy. A budget is always reached."""
    return wanted.kind != "accuracy" or float(found.accuracy.mean()) >= wanted.value - _ROUNDING


def _rank(found: Measured, wanted: float) -> tuple[float, ...]:
    mean, cost = float(found.accuracy.mean()), float(found.samples.mean())
    error = float(found.accuracy.std(ddof=1) / np.sqrt(len(found.accuracy)))
    if mean - error >= wanted - _ROUNDING:
        return 0.0, _rounded(cost), -_rounded(mean)
    if mean >= wanted - _ROUNDING:
        return 1.0, _rounded(cost), -_rounded(mean)
    return 2.0, -_rounded(mean), _rounded(cost)


def _rounded(value: float) -> float:
    """Return a number without the rounding errors of sums, so that equal choices compare as equal."""
    return round(float(value), 9)
