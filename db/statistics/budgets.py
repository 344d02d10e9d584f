"""How many samples a question needs (Park et al., 2025, section 4.1), for pages where readers choose C.

The strategies compute the same in ``prmcal.registry.strategies.budgets``, which this package must not import.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["whole_samples_needed"]

_SMALLEST_CHANCE = 1e-4
# The logarithms may give 2.0000000000000004 for 2; its ceiling must be 2.
_CEILING_TOLERANCE = 1e-9


def whole_samples_needed(probability: ArrayLike, target: float) -> NDArray[np.float64]:
    """Return ceil(N_IAS(p, C)), at least 1: samples for a correct answer with probability C (Proposition 1).

    Parameters
    ----------
    probability : array-like
        Success probability p of one sample, in [0, 1]; it is clipped to [1e-4, 1 - 1e-4]. NaN gives NaN.
    target : float
        Target probability C in (0, 1).

    Returns
    -------
    ndarray of the shape of `probability`, float64
        Whole numbers.
    """
    p = np.clip(np.asarray(probability, dtype=np.float64), _SMALLEST_CHANCE, 1 - _SMALLEST_CHANCE)
    needed = np.log1p(-target) / np.log1p(-p)
    samples: NDArray[np.float64] = np.maximum(np.ceil(needed * (1 - _CEILING_TOLERANCE)), 1)
    return samples
