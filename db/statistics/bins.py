"""Bins of equal width, for the calibration errors and for histograms."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["bin_edges", "bin_index", "inner_bounds"]

# Differences of decimals have rounding errors: .7 - .4 is 2.999...96 / 10, which belongs to the bin that begins at .3.
_ROUNDING = 1e-12


def bin_edges(bins: int, lower: float = 0.0, upper: float = 1.0) -> NDArray[np.float64]:
    """Return the edges of `bins` bins of equal width, of shape (bins + 1,).

    Each edge is the number that is closest to the exact fraction. With 10 bins over [0, 1], the fourth edge is .3 and
    not .30000000000000004, which ``numpy.linspace`` returns.

    Raises
    ------
    ValueError
        If there is no bin.
    """
    if bins < 1:
        raise ValueError(f"'bins' must be an int in [1, inf). Got {bins} instead.")
    above = np.arange(bins + 1)
    edges: NDArray[np.float64] = (lower * (bins - above) + upper * above) / bins
    return edges


def inner_bounds(edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the bounds between bins, of shape (bins - 1,). A value of at least a bound lies above it.

    They are smaller than the edges by 1e-12, so that a value on an edge belongs to the bin above it in spite of
    rounding errors.
    """
    return edges[1:-1] - _ROUNDING


def bin_index(values: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.integer[Any]]:
    """Return the bin of each value. A bin contains its lower edge, and the last bin also its upper edge."""
    return np.searchsorted(inner_bounds(edges), values, side="right")
