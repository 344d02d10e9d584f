"""Prefixes with known success probabilities."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from scipy.special import expit, logit

from prmcal.registry.contracts.metric import PrefixRows
from tests.arrays import Floats

FOLLOW_UPS = 8
REWARDS = [0.0, 0.1, 0.25, 0.3, 0.5, 0.7, 0.99, 1.0]


def clustered(
    questions: int, seed: int, shift: float = 0.0, spread: float = 0.7
) -> tuple[PrefixRows, Floats]:
    """Rewards that are the expectation of p, except for a shift of the log-odds, and p.

    Prefixes of one question differ from their rewards in the same direction.
    """
    random = np.random.default_rng(seed)
    question = np.repeat(np.arange(questions), random.integers(1, 15, questions))
    expected = np.clip(expit(random.normal(0.5, 1.5, len(question))), 0.02, 0.98)
    off = spread * np.minimum(expected, 1 - expected) * random.choice([-1, 1], questions)[question]
    p = expected + off
    n = np.full(len(p), FOLLOW_UPS)
    return PrefixRows(expit(logit(expected) + shift), random.binomial(n, p), n, question), p


@st.composite
def any_rows(draw: st.DrawFn, most: int = 25) -> PrefixRows:
    """Few distinct rewards, so that ties are common, and other numbers of follow-ups."""
    size = draw(st.integers(1, most))
    reward = draw(st.lists(st.sampled_from(REWARDS), min_size=size, max_size=size))
    n = draw(st.lists(st.sampled_from([1, 4, 8]), min_size=size, max_size=size))
    k = [draw(st.integers(0, each)) for each in n]
    question = draw(st.lists(st.integers(0, 4), min_size=size, max_size=size))
    return PrefixRows(np.array(reward), np.array(k), np.array(n), np.array(question))


def repeated(rows: PrefixRows, times: list[int]) -> PrefixRows:
    """The rows of each question as often as `times` says, each time as a question of its own."""
    places = [
        (place, copy) for place, question in enumerate(rows.question_index) for copy in range(times[question])
    ]
    chosen = np.array([place for place, _ in places])
    names = np.array([10 * rows.question_index[place] + copy for place, copy in places])
    return PrefixRows(
        rows.reward[chosen],
        rows.successes[chosen],
        rows.follow_ups[chosen],
        names,
        rows.terminal[chosen],
        rows.levels,
        rows.quantiles[chosen],
    )
