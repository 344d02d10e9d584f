"""Short names for the types of arrays that nearly all plugins take and return, and success counts as such an array."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def success_counts(k: ArrayLike) -> Ints:
    """Return k, the successes of some tries, as whole numbers. Raises a ValueError for success rates."""
    values = np.asarray(k)
    counts: Ints = values.astype(np.int64)
    if np.any(counts != values):
        raise ValueError("k must be whole numbers: the successes of n tries. Multiply success rates by n.")
    return counts
