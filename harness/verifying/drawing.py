"""Random choices of a verification, which follow from its seed and from what they are made for."""

from __future__ import annotations

import numpy as np

from prmcal.harness.storage.store import content_key, seed_from_key

__all__ = ["drawing"]


def drawing(seed: int, *about: str) -> np.random.Generator:
    """Return random numbers that follow from the seed of the verification and from what they are drawn for."""
    return np.random.default_rng(seed_from_key(content_key([seed, *about])))
