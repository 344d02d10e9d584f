"""Seeds of single completions, for engines that take a seed with every request."""

from __future__ import annotations

import numpy as np

__all__ = ["completion_seed"]

_WORD = 2**32


def completion_seed(seed: int, prefix: int, completion: int) -> int:
    """Return the seed of one completion of a prefix, a number of 31 bits, which every engine accepts.

    It depends on the three arguments alone, so the first 8 of 64 completions have the seeds of n = 8.
    """
    # Two words for every seed. NumPy would use a varying number of words, so that different arguments could collide.
    sequence = np.random.SeedSequence([seed % _WORD, seed // _WORD % _WORD, prefix, completion])
    return int(sequence.generate_state(1)[0] >> 1)
