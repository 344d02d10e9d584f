"""The input of the calibration metrics: prefixes with a predicted reward and measured successes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["PrefixRows"]

_MEDIAN = 0.5


@dataclass(frozen=True, eq=False)
class PrefixRows:
    """One row per prefix.

    Parameters
    ----------
    reward : ndarray of shape (rows,), float64
        Predicted probability of success r in [0, 1]: the median, unless a metric is measured at each level. The caller
        leaves out prefixes that are too long for the PRM (NaN).
    successes, follow_ups : ndarray of shape (rows,), int
        k of n: 0 <= k <= n, n >= 1.
    question : ndarray of shape (rows,)
        The question of each row, as a number or an identifier.
    terminal : ndarray of shape (rows,), bool, optional
        Whether the prefix contains its final answer, so that k is certainly 0 or n. By default none does.
    levels : tuple of float
        The quantile levels beta that the calibrator predicts, ascending. ``(0.5,)`` is a point estimate.
    level_rewards : ndarray of shape (rows, levels), float64, optional
        The rewards of each level. By default `reward` is that of the only level.

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
    terminal: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))
    levels: tuple[float, ...] = (_MEDIAN,)
    level_rewards: NDArray[np.float64] | None = None
    success_rate: NDArray[np.float64] = field(init=False)
    question_ids: NDArray[Any] = field(init=False)
    question_index: NDArray[np.intp] = field(init=False)

    def __post_init__(self) -> None:
        rows = len(self.reward)
        if not len(self.terminal):
            object.__setattr__(self, "terminal", np.zeros(rows, dtype=bool))
        columns = ("reward", "successes", "follow_ups", "question", "terminal")
        shapes = {name: np.shape(getattr(self, name)) for name in columns}
        if any(shape != (rows,) for shape in shapes.values()):
            raise ValueError(f"All columns must have shape (rows,). Got {shapes}.")
        if not rows:
            raise ValueError("There are no rows to measure. Measure the success of at least one prefix.")
        if self.quantiles.shape != (rows, len(self.levels)):
            raise ValueError(
                f"'level_rewards' must have shape (rows, levels) = {(rows, len(self.levels))}. "
                f"Got {self.quantiles.shape}."
            )
        # This form also refuses NaN, for which all comparisons are false.
        if not all(np.all((each >= 0) & (each <= 1)) for each in (self.reward, self.quantiles)):
            raise ValueError(
                "Rewards must be in [0, 1]. Leave out prefixes that are too long for the PRM (NaN)."
            )
        if not np.all((self.follow_ups >= 1) & (self.successes >= 0) & (self.successes <= self.follow_ups)):
            raise ValueError("Each row needs k successes of n follow-ups with 0 <= k <= n and n >= 1.")
        question_ids, index = np.unique(self.question, return_inverse=True)
        object.__setattr__(self, "success_rate", self.successes / self.follow_ups)
        object.__setattr__(self, "question_ids", question_ids)
        object.__setattr__(self, "question_index", index)

    @property
    def quantiles(self) -> NDArray[np.float64]:
        """The rewards of all `levels`, of shape (rows, levels)."""
        return self.reward[:, None] if self.level_rewards is None else self.level_rewards

    @property
    def is_point(self) -> bool:
        """Whether the calibrator predicts the median only, which is then used for every level."""
        return self.levels == (_MEDIAN,)

    def at(self, level: float) -> PrefixRows:
        """Return the rows with the rewards of one level as `reward`. A point estimate is used for every level.

        Raises
        ------
        ValueError
            If the calibrator does not predict this level.
        """
        if self.is_point:
            return self
        if level not in self.levels:
            raise ValueError(
                f"The calibrator does not predict beta = {level:g}. It predicts: {', '.join(map(str, self.levels))}."
            )
        return self._with_reward(self.quantiles[:, self.levels.index(level)])

    def totals(self, quantity: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum a quantity of shape (rows,) over the rows of each question: shape (questions,)."""
        totals = np.bincount(self.question_index, weights=quantity, minlength=len(self.question_ids))
        return totals.astype(np.float64)

    @property
    def counts(self) -> NDArray[np.float64]:
        """The number of rows of each question, of shape (questions,)."""
        return self.totals(np.ones(len(self.reward)))

    def _with_reward(self, reward: NDArray[np.float64]) -> PrefixRows:
        return PrefixRows(
            reward,
            self.successes,
            self.follow_ups,
            self.question,
            self.terminal,
            self.levels,
            self.quantiles,
        )
