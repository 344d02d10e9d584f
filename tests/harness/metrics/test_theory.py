"""Propositions 1 to 3 and Theorem 1 of the paper, by simulation where every success probability is known.

The policy succeeds from a prefix with a known probability, and the selector is perfect: it finds a right trajectory
whenever there is one. A simulated share is allowed four standard errors.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prmcal.registry.strategies.scaling import (
    adaptive_samples,
    beams_needed,
    expansions_needed,
    samples_needed,
)
from tests.arrays import Bools, Floats, Ints

TRIALS = 4000
CHANCES = [0.003, 0.02, 0.1, 0.3, 0.5, 0.8, 0.97]
TARGETS = [0.12, 0.5, 0.9, 0.99]
SHARE = st.floats(1e-3, 1 - 1e-3)


def succeeds(chance: Floats, tries: Ints | int, random: np.random.Generator) -> Bools:
    """Whether one of some tries is right, in each trial."""
    found: Bools = random.binomial(tries, chance) > 0
    return found


def reaches(found: Bools, target: float) -> bool:
    return bool(found.mean() >= target - 4 * np.sqrt(target * (1 - target) / len(found)))


@pytest.mark.parametrize("chance", CHANCES)
@pytest.mark.parametrize("target", TARGETS)
def test_proposition_1_best_of_n_ias_reaches_its_target(chance: float, target: float) -> None:
    n = int(adaptive_samples(chance, target, 10**6))
    assert reaches(succeeds(np.full(TRIALS, chance), n, np.random.default_rng(1)), target)


@given(SHARE, SHARE)
def test_proposition_1_needs_no_fewer_than_the_sample_complexity(chance: float, target: float) -> None:
    most = 10**5
    failing = (1 - chance) ** np.arange(1, most + 1)
    smallest = int(np.argmax(1 - failing >= target)) + 1
    assert int(adaptive_samples(chance, target, most)) >= smallest - (
        abs(1 - failing[smallest - 2] - target) < 1e-9 if smallest > 1 else 0
    )


@given(st.lists(SHARE, min_size=1, max_size=8), st.sampled_from(TARGETS))
def test_proposition_2_expanding_every_prefix_by_m_ias_reaches_its_target(chances: list[float], target: float) -> None:
    prefixes = np.array(chances)
    expansions = expansions_needed(prefixes, target, 10**6)
    assert 1 - np.prod((1 - prefixes) ** expansions) >= target - 1e-9
    fewer = expansions - 1  # K prefixes as bad as the worst would then fall short
    assert fewer == 0 or 1 - (1 - prefixes.min()) ** (fewer * len(prefixes)) < target + 1e-9


@given(st.lists(SHARE, min_size=1, max_size=8), st.sampled_from(TARGETS), st.integers(1, 16))
def test_proposition_3_keeping_k_ias_prefixes_reaches_its_target(
    chances: list[float], target: float, expansions: int
) -> None:
    prefixes = np.sort(chances)[::-1]
    kept = beams_needed(prefixes, target, expansions, len(prefixes))
    assert 1 <= kept <= len(prefixes)
    enough = [bool(samples_needed(p, target) * (1 - 1e-9) <= k * expansions) for k, p in enumerate(prefixes, start=1)]
    if any(enough):
        assert kept == enough.index(True) + 1
        assert 1 - np.prod((1 - prefixes[:kept]) ** expansions) >= target - 1e-9
    else:
        assert kept == len(prefixes)


def test_n_ias_at_its_edges() -> None:
    assert adaptive_samples([0.0, 1.0, 1e-300], 0.99, 64).tolist() == [64, 1, 64]
    # Clipped at 1e-4: a probability just above 0 asks for a lot, never for everything there is.
    assert samples_needed(1e-12, 0.99) == samples_needed(0.0, 0.99) == pytest.approx(46049.4, abs=0.1)
    near = float(np.nextafter(1.0, 0.0))
    assert samples_needed(0.5, near) == pytest.approx(53.0)
    assert adaptive_samples(0.9, near, 64) == 16
    assert expansions_needed([0.0, 0.9], 0.99, 8) == 8
    assert expansions_needed([np.nan, 0.9], 0.99, 8) == 8
    assert expansions_needed([1.0], 0.99, 8) == 1
    assert beams_needed([0.9, 0.1], 0.99, 2, 8) == 1
    assert beams_needed([0.0, 0.0, 0.0], 0.99, 2, 2) == 2
    assert beams_needed([np.nan], 0.99, 8, 8) == 1
