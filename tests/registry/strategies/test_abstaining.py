"""Abstaining best-of-n: its bound is the lowest one, and its risk is what it promises."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import PoolStrategy, Setting
from prmcal.registry.plugins import strategies
from prmcal.registry.strategies.best_of import best_of_n
from prmcal.registry.strategies.thresholds import risk_bound
from tests.arrays import Bools, Floats
from tests.registry.create import create_as
from tests.registry.strategies.sequential.every_order import world

SCORES = st.sampled_from([-1.0, 0.0, 0.5, 0.5, 2.0, np.nan])


def losses(scores: Floats, correct: Bools, n: int, bound: float) -> Floats:
    """The chance that each question is answered wrongly, over all draws. Equal best scores are equally likely."""
    found = []
    for own, right in zip(scores, correct, strict=True):
        each: list[float] = []
        for drawn in combinations(range(len(own)), n):
            best = max((own[i] for i in drawn if not np.isnan(own[i])), default=np.nan)
            tied = [i for i in drawn if own[i] == best]
            each.append(float(best > bound) * float(np.mean([not right[i] for i in tied])) if tied else 0.0)
        found.append(float(np.mean(each)))
    return np.array(found)


@given(arrays(np.float64, (5, 3), elements=SCORES), arrays(np.bool_, (5, 3)), st.integers(1, 3))
def test_no_lower_bound_keeps_the_promise(scores: Floats, correct: Bools, n: int) -> None:
    for risk in (0.1, 0.25, 0.4, 0.8):
        bound = risk_bound(scores, correct, n, risk)
        kept = [
            each
            for each in (-np.inf, -1.0, 0.0, 0.5, 2.0)
            if (losses(scores, correct, n, each).sum() + 1) / 6 <= risk + 1e-12
        ]
        if not kept:
            assert bound == np.inf
        else:
            highest = losses(scores, correct, n, bound).sum()
            assert (highest + 1) / 6 <= risk + 1e-12
            assert highest == pytest.approx(losses(scores, correct, n, min(kept)).sum())


def tuned(calibration: Pool, risk: float, samples: int | None = None) -> PoolStrategy:
    strategy = create_as(PoolStrategy, strategies, "abstaining best-of-n", risk=risk, samples=samples)
    strategy.tune(calibration, Setting(16))
    return strategy


@pytest.mark.parametrize("risk", [0.1, 0.3])
def test_the_promised_risk_is_kept_on_average_and_is_not_wasted(risk: float) -> None:
    realised = []
    for seed in range(150):
        drawn = world(seed, 90, 4, skill=1.5)
        calibration, test = drawn.drawn(slice(0, 60), slice(None)), drawn.drawn(slice(60, 90), slice(None))
        result = tuned(calibration, risk).answer(test, Setting(4))
        assert result.abstained is not None
        realised.append(float((1 - result.accuracy - result.abstained).mean()))
    error = np.std(realised) / np.sqrt(len(realised))
    assert risk - 2 / 61 - 3 * error < np.mean(realised) < risk + 3 * error


def test_without_need_to_abstain_it_is_best_of_n() -> None:
    calibration, test = world(1, 60, 4), world(2, 20, 16)
    result = tuned(calibration, 0.95).answer(test, Setting(16))
    assert result.accuracy == pytest.approx(best_of_n(test.scores, test.correct, [4])[:, 0])
    assert result.abstained == pytest.approx(np.zeros(20)) and result.samples.tolist() == [4.0] * 20


def test_a_smaller_risk_gives_fewer_answers_which_are_right_more_often() -> None:
    calibration, test = world(3, 200, 4), world(4, 100, 16)
    shares, precisions = [], []
    for risk in (0.3, 0.15, 0.05):
        result = tuned(calibration, risk).answer(test, Setting(16))
        assert result.abstained is not None
        shares.append(1 - result.abstained.mean())
        precisions.append(result.accuracy.mean() / shares[-1])
    assert shares == sorted(shares, reverse=True) and precisions == sorted(precisions)
    few = tuned(world(3, 10, 4), 0.05).answer(test, Setting(16))  # 1 / 11 exceeds the risk.
    assert few.abstained is not None and few.abstained.min() == 1.0


def test_more_samples_than_can_be_promised_are_refused() -> None:
    with pytest.raises(ValueError, match="the risk can be promised for at most 4 samples"):
        tuned(world(5, 30, 4), 0.1, samples=8).answer(world(6, 5, 16), Setting(16))
    curve = tuned(world(5, 30, 4), 0.1).sweep(world(6, 5, 16), Setting(16))
    assert [each.samples[0] for each in curve] == [1.0, 2.0, 3.0, 4.0]
