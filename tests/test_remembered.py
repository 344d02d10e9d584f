"""Results are remembered by the content of the arguments, within a limit of memory, and nobody can alter them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from prmcal.db.statistics.bootstrap import Bootstrap
from prmcal.remembered import Memory, remembered, reuse_last


@dataclass(frozen=True, eq=False)
class Curve:
    """An argument and a result with arrays inside."""

    weights: NDArray[Any]
    share: float


class Doubling:
    """A function that counts its calls."""

    def __init__(self, limit: int = 2**20) -> None:
        self.calls = 0
        self.memory = Memory(limit)
        self.of = remembered(self._double, self.memory)

    def _double(self, values: object) -> Curve:
        self.calls += 1
        numbers = values.weights * values.share if isinstance(values, Curve) else np.asarray(values, np.float64)
        return Curve(2 * numbers, 2.0)


def test_equal_arguments_are_computed_once() -> None:
    doubling = Doubling()
    first = doubling.of(np.arange(4.0))
    assert doubling.of(np.arange(4.0)) is first
    assert doubling.of(np.arange(8.0)[::2] / 2) is first
    read_only = np.arange(4.0)
    read_only.flags.writeable = False
    assert doubling.of(read_only) is first
    curve = Curve(np.arange(4.0), 0.5)
    assert doubling.of(curve) is doubling.of(Curve(np.arange(4.0), 0.5))
    assert doubling.calls == 2
    assert first.weights.tolist() == [0.0, 2.0, 4.0, 6.0]


@pytest.mark.parametrize(
    "others",
    [
        (
            np.zeros(4),
            np.zeros((2, 2)),
            np.zeros((4, 1)),
            np.zeros(4, np.float32),
            np.zeros(4, np.int64),
            np.zeros(8),
        ),
        (1, 1.0, True, np.float32(1), np.ones(()), (1,), ((1,),), (1, 1)),
        (np.array([0.0]), np.array([-0.0]), 0.0, -0.0),
        (Curve(np.ones(1), 0.25), Curve(np.ones(1), 0.5), Curve(np.ones(2), 0.5), Curve(np.full(1, 0.5), 1.0)),
        (np.array([1.0, 2.0]), np.array([2.0, 1.0]), (1.0, 2.0), np.empty(0), np.empty((0, 2)), ()),
    ],
)
def test_other_content_types_and_shapes_are_other_arguments(others: tuple[object, ...]) -> None:
    doubling = Doubling()
    for value in others:
        doubling.of(value)
    assert doubling.calls == len(others)


def test_nobody_can_alter_a_result() -> None:
    doubling = Doubling()
    values = np.arange(4.0)
    result = doubling.of(values)
    with pytest.raises(ValueError, match="read-only"):
        result.weights[0] = 5.0
    values[0] = 5.0
    assert doubling.of(values).weights[0] == 10.0
    assert doubling.calls == 2


def test_the_least_recently_used_results_make_room() -> None:
    doubling = Doubling(limit=3 * 9000)
    one, two, three, four = (np.full(1000, float(number)) for number in range(4))
    for values in (one, two, three, one, four):
        doubling.of(values)
    assert doubling.calls == 4
    assert doubling.memory.used_bytes <= doubling.memory.limit
    for values in (one, three, four):
        doubling.of(values)
    assert doubling.calls == 4
    doubling.of(two)
    assert doubling.calls == 5


def test_a_result_that_is_too_large_displaces_nothing() -> None:
    doubling = Doubling(limit=9000)
    small, large = np.ones(1000), np.ones(2000)
    doubling.of(small)
    for _ in range(2):
        assert doubling.of(large).weights.sum() == 4000
    doubling.of(small)
    assert doubling.calls == 3


def test_a_result_is_computed_once_for_weights_that_cannot_change() -> None:
    calls = []

    def size(weights: np.ndarray) -> float:
        calls.append(weights)
        return float(weights.sum())

    total = reuse_last(size)
    weights = Bootstrap(3, seed=0).weights(4)
    assert total(weights) == total(weights) == 12.0 and len(calls) == 1
    changing = weights.copy()
    total(changing)
    changing[:] = 0
    assert total(changing) == 0.0 and len(calls) == 3
