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


def work_for(seconds: float, cost_per_second: float, clock: Clock) -> tuple[Pace, list[float]]:
    """Work as often as it is due, for some time. The work costs more the longer the run has lasted."""
    begin, pace, times = clock.now, Pace(share=0.02, pause=5), []
    while clock.now < begin + seconds:
        if pace.due:
            times.append(clock.now - begin)
            with pace.work():
                clock.now += cost_per_second * (clock.now - begin)
            assert len(times) < 3 or pace.seconds < 0.021 * (clock.now - begin)
        clock.now += 0.5
    return pace, times


def test_work_that_costs_little_is_repeated_after_each_pause(clock: Clock) -> None:
    _, times = work_for(100, 1e-6, clock)
    assert len(times) > 15
    assert times[0] == 5


def test_work_that_grows_takes_its_share_and_is_still_repeated(clock: Clock) -> None:
    pace, times = work_for(100_000, 2e-3, clock)
    assert 0.01 * 100_000 < pace.seconds < 0.02 * 100_000
    assert times[0] == 5


def test_the_pause_comes_after_work_that_failed_too(clock: Clock) -> None:
    pace = Pace(share=0.02, pause=5)
    clock.now += 5
    with pytest.raises(OSError, match="full"), pace.work():
        clock.now += 1
        raise OSError("full")
    assert pace.seconds == 1
    clock.now += 90
    assert not pace.due
    clock.now += 10
    assert pace.due
