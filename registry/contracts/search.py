"""The contract of a search: a strategy that generates step by step and continues the prefixes that the PRM prefers."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.ranges import Count
from prmcal.registry.contracts.strategy import Reads, Strategy

__all__ = ["SearchStrategy"]


class SearchStrategy(Strategy):
    """Beam search over steps (section 2 of the paper). A subclass decides the width of the search.

    In each round every live prefix gets some continuations, the PRM scores them, and the best prefixes are kept. A
    prefix with a final answer is finished: it keeps its score and its rank, and it is not continued. The search ends
    when all of the best prefixes are finished, and the best of them is the answer. It begins with K copies of the bare
    question, so that the first round samples K x M steps.

    Prefixes are ranked by the PRM's score. With "rewards" in `reads` they are ranked by the median of their calibrated
    rewards, and by the score where these are equal.

    Parameters
    ----------
    width : int, default=8
        K, the largest number of prefixes that are kept.
    expansions : int, default=8
        M, the largest number of continuations of each prefix.
    every : int, default=1
        Steps of a continuation before the PRM scores it.
    most_steps : int, default=64
        A trajectory with this number of steps is finished, with or without an answer.

    Attributes
    ----------
    baseline : str
        The registered search of fixed width whose budget this one's is divided by. It is built with this search's
        `settings`.
    """

    reads: ClassVar[tuple[Reads, ...]] = ("scores",)
    baseline: ClassVar[str] = "beam search"

    def __init__(
        self, width: Count = 8, expansions: Count = 8, every: Count = 1, most_steps: Count = 64
    ) -> None:
        self.width = width
        self.expansions = expansions
        self.every = every
        self.most_steps = most_steps

    @property
    def settings(self) -> dict[str, int]:
        """The arguments that all searches have, by name."""
        return {
            "width": self.width,
            "expansions": self.expansions,
            "every": self.every,
            "most_steps": self.most_steps,
        }

    def expand(self, rewards: NDArray[np.float64], target: float | None) -> int:
        """Return how many continuations each live prefix gets, in [1, M]. By default M.

        Parameters
        ----------
        rewards : ndarray of shape (live,), float64
            Calibrated rewards of the live prefixes at the level beta, or their uncalibrated rewards without "rewards"
            in `reads`. NaN where a prefix is too long for the PRM.
        target : float or None
            Target probability C in (0, 1), if the strategy is `targeted`.
        """
        return self.expansions

    def keep(self, rewards: NDArray[np.float64], target: float | None) -> int:
        """Return how many of the best prefixes are kept, in [1, K]. By default K.

        Parameters
        ----------
        rewards : ndarray of shape (candidates,), float64
            Rewards of at most the K best candidates, as in `expand`, in descending order with NaN last.
        target : float or None
            As in `expand`.
        """
        return self.width
