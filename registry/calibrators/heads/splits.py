"""Divide calibration prefixes by question: prefixes of one question resemble each other and stay together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["folds", "held_out_rows"]


def held_out_rows(questions: NDArray[np.int64], share: float, seed: int) -> NDArray[np.bool_]:
    """Return the rows of a share of the questions, chosen at random and rounded down.

    Parameters
    ----------
    questions : ndarray of shape (rows,), int64
        Equal numbers mark prefixes of the same question.
    share : float
        In [0, 1).
    seed : int
    """
    numbers = np.unique(questions)
    chosen = np.random.default_rng(seed).permutation(numbers)[: int(share * len(numbers))]
    return np.isin(questions, chosen)


def folds(questions: NDArray[np.int64], count: int, seed: int) -> list[NDArray[np.bool_]]:
    """Return `count` selections of rows that contain every question once, or fewer if there are fewer questions."""
    numbers = np.random.default_rng(seed).permutation(np.unique(questions))
    return [np.isin(questions, part) for part in np.array_split(numbers, min(count, len(numbers)))]
