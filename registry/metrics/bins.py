"""Bins of equal width over [0, 1]."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["equal_width"]

# Rewards that are computed have rounding errors: .7 - .4 is 2.999...96 / 10, which belongs to the bin from .3.
_ROUNDING = 1e-12


def equal_width(rewards: NDArray[np.float64], bins: int) -> NDArray[np.intp]:
    """Return the bin of each reward, from 0. A bin contains its lower edge, and the last bin also contains 1."""
    bounds = np.arange(1, bins) / bins - _ROUNDING
    return np.searchsorted(bounds, rewards, side="right")
