"""The number of samples that a question needs (Park et al., 2025, section 4)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["adaptive_samples", "beams_needed", "expansions_needed", "samples_needed"]

_SMALLEST_CHANCE = 1e-4
# N_IAS(.006, .011964) is 2, but the logarithms give 2.0000000000000004, whose ceiling is 3.
_CEILING_TOLERANCE = 1e-9


def samples_needed(probability: ArrayLike, target: ArrayLike) -> NDArray[np.float64]:
    """Return N_IAS(p, C) = log(1 - C) / log(1 - p) (Proposition 1).

    With so many samples, at least one is right with probability C.

    Parameters
    ----------
    probability : array-like of any shape
        Success probability p of one sample, in [0, 1]. It is clipped to [1e-4, 1 - 1e-4]. NaN gives NaN.
    target : array-like
        Target probability C in (0, 1), or several, of a shape that is broadcast with that of `probability`.

    Returns
    -------
    ndarray, float64
        Above 0, not rounded.

    Raises
    ------
    ValueError
        If a value is out of range.
    """
    p, wanted = np.asarray(probability, dtype=np.float64), np.asarray(target, dtype=np.float64)
    if not ((wanted > 0) & (wanted < 1)).all():
        raise ValueError(f"The target probability C must be in (0, 1). Got {wanted}.")
    if np.any((p < 0) | (p > 1)):
        raise ValueError("Success probabilities must be in [0, 1].")
    needed: NDArray[np.float64] = np.log1p(-wanted) / np.log1p(
        -np.clip(p, _SMALLEST_CHANCE, 1 - _SMALLEST_CHANCE)
    )
    return needed


def adaptive_samples(probability: ArrayLike, target: ArrayLike, maximum: int) -> NDArray[np.int64]:
    """Return min(ceil(N_IAS(p, C)), N_max), at least 1. Where p is NaN (too long for the PRM), return N_max."""
    if maximum < 1:
        raise ValueError(f"The largest number of samples must be an int in [1, inf). Got {maximum} instead.")
    needed = np.ceil(samples_needed(probability, target) * (1 - _CEILING_TOLERANCE))
    samples: NDArray[np.int64] = np.clip(np.nan_to_num(needed, nan=maximum), 1, maximum).astype(np.int64)
    return samples


def expansions_needed(rewards: ArrayLike, target: float, maximum: int) -> int:
    """Return M_IAS = min(ceil(N_IAS(r_min, C) / K), M_max), the continuations of each of K prefixes (section 4.1).

    Parameters
    ----------
    rewards : array-like of shape (K,)
        Calibrated rewards of at least one prefix. With a NaN (too long for the PRM), the result is M_max.
    target : float
        Target probability C in (0, 1).
    maximum : int
        M_max, at least 1.
    """
    chances = np.asarray(rewards, dtype=np.float64)
    needed = samples_needed(chances.min(), target) / chances.size
    ceiling = np.ceil(needed * (1 - _CEILING_TOLERANCE))
    return int(np.clip(np.nan_to_num(ceiling, nan=maximum), 1, maximum))


def beams_needed(rewards: ArrayLike, target: float, expansions: int, maximum: int) -> int:
    """Return K_IAS, the smallest k with N_IAS(r_k, C) <= k M, or K_max if there is none (section 4.1).

    Parameters
    ----------
    rewards : array-like of shape (candidates,)
        Calibrated rewards of the candidate prefixes, the best first. A NaN (too long for the PRM) fulfils the condition
        for no k.
    target : float
        Target probability C in (0, 1).
    expansions : int
        M, the continuations of each prefix.
    maximum : int
        K_max, at least 1.
    """
    chances = np.asarray(rewards, dtype=np.float64)[:maximum]
    tries = expansions * np.arange(1, len(chances) + 1)
    enough = np.flatnonzero(samples_needed(chances, target) * (1 - _CEILING_TOLERANCE) <= tries)
    return int(enough[0]) + 1 if len(enough) else min(maximum, len(chances))
