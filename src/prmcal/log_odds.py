"""Probabilities as log-odds and back, with NumPy alone."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from prmcal.arrays import Floats

LEAST = 1e-7
"""Probabilities of 0 and 1 have no log-odds. Probabilities closer than this to 0 or 1 are moved to this distance."""


def log_odds(probabilities: "ArrayLike", least: float = LEAST) -> "Floats":
    """Return log(p / (1 - p)) of probabilities in [0, 1], which are kept `least` off 0 and 1. NaN stays NaN."""
    clipped = np.clip(np.asarray(probabilities, dtype=np.float64), least, 1 - least)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))


def probability(log_odds: "ArrayLike") -> "Floats":
    """Return the probabilities in [0, 1] of log-odds. NaN stays NaN."""
    with np.errstate(invalid="ignore"):  # NaN is compared.
        return np.asarray(np.exp(-np.logaddexp(0, -np.asarray(log_odds, dtype=np.float64))))
