"""The contract of a search: a strategy that generates step by step and lets the PRM say which prefixes go on."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.strategy import Reads, Strategy

__all__ = ["SearchStrategy"]


class SearchStrategy(Strategy):
    """Beam search over steps (section 2 of the paper); a class that derives from it decides how wide it is.

    Every round, each live prefix gets some continuations, the PRM scores them, and the best prefixes go on. A prefix
    that holds a final answer is finished: it keeps its score and its place among the best, and is continued no more.
    The search ends when all of the best are finished; the answer is the best of them. It begins with K copies of the
    bare question, so that the first round draws K x M steps.

    What ranks is the PRM's score; with "rewards" in `reads` it is the median of the calibrated rewards, and the score
    where they are equal.

    Parameters
    ----------
    width : int, default=8
        K, the prefixes that go on. At most.
    expansions : int, default=8
        M, the continuations of each. At most.
    every : int, default=1
        Steps that a continuation takes before the PRM is asked again.
    most_steps : int, default=64
        A trajectory with so many steps is finished, with or without an answer.
    """

    reads: ClassVar[tuple[Reads, ...]] = ("scores",)

    def __init__(self, width: int = 8, expansions: int = 8, every: int = 1, most_steps: int = 64) -> None:
        self.width = width
        self.expansions = expansions
        self.every = every
        self.most_steps = most_steps

    def check_arguments(self) -> None:
        """Refuse a search that goes nowhere."""
        for name in ("width", "expansions", "every", "most_steps"):
            value = getattr(self, name)
            if value < 1:
                raise ValueError(f"The '{name}' parameter must be an int in [1, inf). Got {value} instead.")

    def expand(self, rewards: NDArray[np.float64], target: float | None) -> int:
        """How many continuations each live prefix gets, in [1, M]; M if it is not overridden.

        Parameters
        ----------
        rewards : ndarray of shape (live,), float64
            Calibrated rewards of the live prefixes at the level beta, or their uncalibrated rewards without
            "rewards" in `reads`. NaN where a prefix is too long for the PRM.
        target : float or None
            Target probability C in (0, 1), if the strategy is `targeted`.
        """
        return self.expansions

    def keep(self, rewards: NDArray[np.float64], target: float | None) -> int:
        """How many of the best prefixes go on, in [1, K]; K if it is not overridden.

        Parameters
        ----------
        rewards : ndarray of shape (candidates,), float64
            As for `expand`, of at most the K best candidates, from the highest down, NaN last.
        target : float or None
        """
        return self.width
