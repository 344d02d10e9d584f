"""How many samples a question needs (Park et al., 2025, section 4.1), for readers who move C.

The strategies have their own: packages that run a grid and packages that show it import nothing of each other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["samples_needed"]

_SMALLEST_CHANCE = 1e-4
# The ceiling of what comes out of the logarithms as 2.0000000000000004 is 2.
_CEILING_TOLERANCE = 1e-9


def samples_needed(probability: ArrayLike, target: float) -> NDArray[np.float64]:
    """Return ceil(N_IAS(p, C)), at least 1: samples for one right answer with probability C (Proposition 1).

    Parameters
    ----------
    probability : array-like
        Probability of success p of one sample, in [0, 1]; clipped to [1e-4, 1 - 1e-4]. NaN gives NaN.
    target : float
        Target probability C in (0, 1).
    """
    p = np.clip(np.asarray(probability, dtype=np.float64), _SMALLEST_CHANCE, 1 - _SMALLEST_CHANCE)
    needed = np.log1p(-target) / np.log1p(-p)
    samples: NDArray[np.float64] = np.maximum(np.ceil(needed * (1 - _CEILING_TOLERANCE)), 1)
    return samples
