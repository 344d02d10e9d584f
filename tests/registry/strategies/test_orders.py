from __future__ import annotations

from inspect import unwrap

import numpy as np
import pytest
from numpy.typing import NDArray

from prmcal.registry.strategies import orders
from prmcal.registry.strategies.orders import block_means, mean_of_blocks, orders_of

SIZE, QUESTIONS, SEEDS = 32, 12, 40


@pytest.mark.parametrize("size", [1, 2, 3, 8, 64, 300])
def test_every_trajectory_has_every_position_once_in_each_block(size: int) -> None:
    found = orders_of(size)
    assert found.shape[0] >= 4 and found[..., 0].size >= 256
    each = np.arange(size)
    assert (np.sort(found, axis=1) == each[:, None]).all()
    assert (np.sort(found, axis=2) == each).all()
    assert (found[:, :, 0] == each).all()


def test_two_orders_of_a_block_begin_with_sets_that_have_no_more_in_common_than_by_chance() -> None:
    first = orders_of(64)[:, :, :16]
    drawn = (first[..., None] == np.arange(64)).any(axis=2).astype(np.int64)
    common = (drawn @ drawn.swapaxes(1, 2))[:, ~np.eye(64, dtype=np.bool_)]
    # Orders that go around the ring in steps of one would have 15 with their neighbours.
    assert common.mean() == pytest.approx(16 * 15 / 63, abs=0.01)
    assert common.max() <= 10


def stops_and_answers(order: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the draws and the right answers of a rule that stops at a good score, of shape (2, questions, orders)."""
    random = np.random.default_rng(5)
    chance = random.random(QUESTIONS)[:, None]
    right = random.random((QUESTIONS, SIZE)) < chance
    score = random.normal(np.where(right, 0.3, -0.3))
    best = np.stack([np.maximum.accumulate(each[order], axis=1) for each in score])
    stop = np.minimum((best < 0.8).sum(axis=-1) + 1, SIZE)
    last = np.take_along_axis(best, stop[..., None] - 1, axis=-1)[..., 0]
    of_best = np.stack([grade[np.argsort(values)] for grade, values in zip(right, score, strict=True)])
    rank = np.stack([np.searchsorted(np.sort(values), each) for values, each in zip(score, last, strict=True)])
    return np.stack([stop.astype(np.float64), np.take_along_axis(of_best, rank, axis=1).astype(np.float64)])


def test_the_error_is_what_it_is_said_to_be_and_less_than_of_independent_orders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    estimates, errors, independent = [], [], []
    for seed in range(SEEDS):
        monkeypatch.setattr(orders, "_SEED", seed)
        balanced = unwrap(orders_of)(SIZE).reshape(-1, SIZE)
        mean, error = mean_of_blocks(block_means(stops_and_answers(balanced), SIZE))
        estimates.append(mean.mean(axis=1))
        errors.append(np.sqrt((error**2).sum(axis=1)) / QUESTIONS)
        shuffled = np.random.default_rng(seed).random(balanced.shape).argsort(axis=1)
        independent.append(stops_and_answers(shuffled).mean(axis=(1, 2)))
    spread = np.std(estimates, axis=0, ddof=1)
    said = np.sqrt(np.mean(np.square(errors), axis=0))
    assert (np.abs(np.log(spread / said)) < 0.35).all(), (spread, said)
    assert (spread < 0.8 * np.std(independent, axis=0, ddof=1)).all()
