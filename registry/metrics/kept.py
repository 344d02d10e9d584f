"""Results under the weights of a bootstrap, which several metrics need."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["kept"]

Result = TypeVar("Result")

_KEPT = 3
"""Results that a function keeps: for a bootstrap, for ones, and for small changes of each weight."""


def kept(function: Callable[[NDArray[np.float64]], Result]) -> Callable[[NDArray[np.float64]], Result]:
    """Let a function of weights keep its last results for weights that are read-only, as those of a bootstrap are.

    All metrics of the same questions get the same array of such weights, and the same array of ones. So a metric and
    its corrected form, or two parts of a decomposition, compute what they share once. A result must not be changed.
    """
    last: list[tuple[NDArray[np.float64], Result]] = []

    def called(weights: NDArray[np.float64]) -> Result:
        for given, result in last:
            if given is weights:
                return result
        result = function(weights)
        if not weights.flags.writeable:
            last[:] = [*last[1 - _KEPT :], (weights, result)]
        return result

    return called
