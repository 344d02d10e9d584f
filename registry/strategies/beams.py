"""Beam search, and beam search whose width IAS adapts to the calibrated rewards (section 4.1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.search import SearchStrategy
from prmcal.registry.strategies.budgets import beams_needed, expansions_needed

__all__ = ["BeamSearch", "BeamSearchWithIASOfK", "BeamSearchWithIASOfM"]


class BeamSearch(SearchStrategy):
    """Keep the K best prefixes, and draw M continuations of each (Snell et al., 2024; section 2 of the paper)."""

    citation = "Snell et al. (2024), arXiv:2408.03314"


class BeamSearchWithIASOfK(SearchStrategy):
    """Keep only as many of the best prefixes as the target needs, K_IAS, with a fixed M."""

    citation = "Park et al. (2025), NeurIPS, arXiv:2506.09338"
    reads = ("scores", "rewards")
    targeted = True

    def keep(self, rewards: NDArray[np.float64], target: float | None) -> int:
        """Return K_IAS, the smallest k with N_IAS(r_k, C) <= k M, at most K, where r_k is the k-th highest reward."""
        assert target is not None
        return beams_needed(rewards, target, self.expansions, self.width)


class BeamSearchWithIASOfM(SearchStrategy):
    """Draw as many continuations of each prefix as the worst kept prefix needs, M_IAS, with a fixed K."""

    citation = "Park et al. (2025), NeurIPS, arXiv:2506.09338"
    reads = ("scores", "rewards")
    targeted = True

    def expand(self, rewards: NDArray[np.float64], target: float | None) -> int:
        """Return M_IAS = min(ceil(N_IAS(r_min, C) / K), M), where K is the number of kept prefixes."""
        assert target is not None
        return expansions_needed(rewards, target, self.expansions)
