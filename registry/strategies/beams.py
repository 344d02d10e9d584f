"""Beam search, and how IAS makes it as wide as the calibrated rewards ask for (section 4.1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.search import SearchStrategy
from prmcal.registry.strategies.budgets import beams_needed, expansions_needed

__all__ = ["BeamSearch", "BeamSearchWithIASOfK", "BeamSearchWithIASOfM"]


class BeamSearch(SearchStrategy):
    """K prefixes go on, M continuations of each are drawn (Snell et al., 2024; section 2)."""


class BeamSearchWithIASOfK(SearchStrategy):
    """As many of the best prefixes go on as the target asks for: K_IAS, with M fixed."""

    reads = ("scores", "rewards")
    targeted = True

    def keep(self, rewards: NDArray[np.float64], target: float | None) -> int:
        """K_IAS = min({K} and all k with N_IAS(r_k, C) <= k M)."""
        assert target is not None
        return beams_needed(rewards, target, self.expansions, self.width)


class BeamSearchWithIASOfM(SearchStrategy):
    """Each prefix gets as many continuations as the worst of them asks for: M_IAS, with K fixed."""

    reads = ("scores", "rewards")
    targeted = True

    def expand(self, rewards: NDArray[np.float64], target: float | None) -> int:
        """M_IAS = min(ceil(N_IAS(r_min, C) / K), M), K the number of live prefixes."""
        assert target is not None
        return expansions_needed(rewards, target, self.expansions)
