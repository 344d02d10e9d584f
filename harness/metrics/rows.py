"""The input of the calibration metrics: prefixes with a predicted reward and measured successes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["PrefixRows"]


@dataclass(frozen=True, eq=False)
class PrefixRows:
    """One row per prefix.

    Parameters
    ----------
    reward : ndarray of shape (rows,), float64
        Predicted probability of success r in [0, 1]. The caller leaves out prefixes that are too long for the PRM
        (NaN).
    successes, follow_ups : ndarray of shape (rows,), int
        k of n: 0 <= k <= n, n >= 1.
    question : ndarray of shape (rows,)
        The question of each row, as a number or an identifier.

    Attributes
    ----------
    success_rate : ndarray of shape (rows,), float64
        y = k / n.
    question_ids : ndarray of shape (questions,)
        The questions, sorted.
    question_index : ndarray of shape (rows,), int
        The position of each row's question in `question_ids`.

    Raises
    ------
    ValueError
        If there are no rows, the shapes differ, or a value is out of range.
    """

    reward: NDArray[np.float64]
    successes: NDArray[np.integer[Any]]
    follow_ups: NDArray[np.integer[Any]]
    question: NDArray[Any]
    success_rate: NDArray[np.float64] = field(init=False)
    question_ids: NDArray[Any] = field(init=False)
    question_index: NDArray[np.intp] = field(init=False)

    def __post_init__(self) -> None:
        columns = ("reward", "successes", "follow_ups", "question")
        shapes = {name: np.shape(getattr(self, name)) for name in columns}
        rows = len(self.reward)
        if any(shape != (rows,) for shape in shapes.values()):
            raise ValueError(f"All columns must have shape (rows,). Got {shapes}.")
        if not rows:
            raise ValueError("There are no rows to measure. Measure the success of at least one prefix.")
        # This form also refuses NaN, for which all comparisons are false.
        if not np.all((self.reward >= 0) & (self.reward <= 1)):
            raise ValueError(
                "Rewards must be in [0, 1]. Leave out prefixes that are too long for the PRM (NaN)."
            )
        if not np.all((self.follow_ups >= 1) & (self.successes >= 0) & (self.successes <= self.follow_ups)):
            raise ValueError("Each row needs k successes of n follow-ups with 0 <= k <= n and n >= 1.")
        question_ids, index = np.unique(self.question, return_inverse=True)
        object.__setattr__(self, "success_rate", self.successes / self.follow_ups)
        object.__setattr__(self, "question_ids", question_ids)
        object.__setattr__(self, "question_index", index)
