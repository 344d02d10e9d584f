"""The benchmark of the coordinator runs to its end, here with a size that takes a second."""

from __future__ import annotations

from benchmarks.analysis import many_shards


def test_the_work_of_the_coordinator_is_measured() -> None:
    shards, seconds, _ = many_shards.measure(100)
    assert shards > 100
    assert {"plan the grid", "record all outcomes", "prmcal status"} <= set(seconds)
