"""Seeds of completions for engines that take one with every request."""

from __future__ import annotations

import numpy as np

__all__ = ["completion_seed"]

_WORD = 2**32


def completion_seed(seed: int, prefix: int, completion: int) -> int:
    """A seed of 31 bits, which every engine takes, for the n-th completion of a prefix.

    It is a function of its three arguments alone, so that the first 8 of 64 completions are those that n = 8 gives.
    """
    # Each in words of its own: numpy would run the words of a long seed into those that follow.
    sequence = np.random.SeedSequence([seed % _WORD, seed // _WORD % _WORD, prefix, completion])
    return int(sequence.generate_state(1)[0] >> 1)
