"""Best-of-n + IAS: as many samples as each question needs (Park et al., 2025, section 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.metrics.best_of_n import best_of_n, pass_at_n

__all__ = ["AdaptiveBestOfN", "adaptive_best_of_n", "adaptive_samples", "samples_needed"]

_SMALLEST_CHANCE = 1e-4
# N_IAS(.006, .011964) is 2, but comes out of the logarithms as 2.0000000000000004, whose ceiling is 3.
_CEILING_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class AdaptiveBestOfN:
    """Best-of-n with a number of samples of each question's own.

    Attributes
    ----------
    samples : ndarray of shape (questions,), int64
        min(ceil(N_IAS), N_max).
    accuracy : ndarray of shape (questions,), float64
        Exact expected accuracy of the best-scored of that many samples.
    pass_at_samples : ndarray of shape (questions,), float64
        Chance that at least one of them is right: what a perfect ranking would make of the same budget.
    maximum : int
        N_max.
    """

    samples: NDArray[np.int64]
    accuracy: NDArray[np.float64]
    pass_at_samples: NDArray[np.float64]
    maximum: int

    @property
    def budget_ratio(self) -> NDArray[np.float64]:
        """Samples over N_max per question, of shape (questions,); its mean is the cell's budget ratio."""
        return self.samples / self.maximum


def samples_needed(probability: ArrayLike, target: float) -> NDArray[np.float64]:
    """N_IAS(p, C) = log(1 - C) / log(1 - p): samples for one right answer with probability C (Proposition 1).

    Parameters
    ----------
    probability : array-like of any shape
        Probability of success p of one sample, in [0, 1]; clipped to [1e-4, 1 - 1e-4]. NaN gives NaN.
    target : float
        Target probability C in (0, 1).

    Returns
    -------
    ndarray of the shape of `probability`, float64
        Above 0, not rounded.

    Raises
    ------
    ValueError
        If a value is out of range.
    """
    p = np.asarray(probability, dtype=np.float64)
    if not 0 < target < 1:
        raise ValueError(f"The target probability C must be in (0, 1). Got {target}.")
    if np.any((p < 0) | (p > 1)):
        raise ValueError("Probabilities of success must be in [0, 1].")
    needed: NDArray[np.float64] = np.log1p(-target) / np.log1p(
        -np.clip(p, _SMALLEST_CHANCE, 1 - _SMALLEST_CHANCE)
    )
    return needed


def adaptive_samples(probability: ArrayLike, target: float, maximum: int) -> NDArray[np.int64]:
    """min(ceil(N_IAS(p, C)), N_max), at least 1; N_max where p is NaN, a question that could not be read."""
    if maximum < 1:
        raise ValueError(f"The largest number of samples must be an int in [1, inf). Got {maximum} instead.")
    needed = np.ceil(samples_needed(probability, target) * (1 - _CEILING_TOLERANCE))
    samples: NDArray[np.int64] = np.clip(np.nan_to_num(needed, nan=maximum), 1, maximum).astype(np.int64)
    return samples


def adaptive_best_of_n(
    calibrated: ArrayLike,
    scores: NDArray[np.floating[Any]],
    correct: ArrayLike,
    target: float,
    maximum: int,
) -> AdaptiveBestOfN:
    """Best-of-n + IAS on a pool of M samples per question.

    Parameters
    ----------
    calibrated : array-like of shape (questions,)
        Calibrated reward of the bare question, at the level beta that the budget is to rest on.
    scores : ndarray of shape (questions, M)
        The original rewards, or logits, of whole trajectories: they rank.
    correct : array-like of shape (questions, M), bool
        Whether each sample's final answer is right.
    target : float
        Target probability C in (0, 1).
    maximum : int
        N_max, in [1, M].

    Raises
    ------
    ValueError
        If the shapes do not fit or a value is out of range.
    """
    chances = np.asarray(calibrated, dtype=np.float64)
    if chances.shape != scores.shape[:1] or maximum > scores.shape[1]:
        raise ValueError(
            f"Best-of-n + IAS needs one calibrated reward per question and N_max samples of each. Got "
            f"{chances.shape} rewards, a pool of {scores.shape} and N_max = {maximum}."
        )
    samples = adaptive_samples(chances, target, maximum)
    counts, which = np.unique(samples, return_inverse=True)
    own = (np.arange(len(samples)), which)
    return AdaptiveBestOfN(
        samples=samples,
        accuracy=best_of_n(scores, correct, counts)[own],
        pass_at_samples=pass_at_n(correct, counts)[own],
        maximum=maximum,
    )
