"""The share of the time that repeated work takes."""

from __future__ import annotations

import time

import pytest

from prmcal.harness.execution.progress import Pace


class Clock:
    """A clock that only the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(time, "monotonic", found)
    return found


def test_work_is_repeated_after_a_pause_or_after_its_share_of_the_time(clock: Clock) -> None:
    pace = Pace(share=0.02, pause=5)
    assert not pace.due
    for cost, pause in ((0.01, 5), (1, 50)):
        clock.now += 60
        assert pace.due
        with pace.work():
            clock.now += cost
        clock.now += pause - 0.1
        assert not pace.due
        clock.now += 0.1
        assert pace.due
