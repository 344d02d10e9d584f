"""The time left of a run, against the times that the shards of the grid `nano` once took."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from prmcal.harness.execution.schedule import Outcome, Schedule
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.planning.costs import CostModel, remaining_work, seconds_left
from prmcal.harness.planning.planner import build_plan
from prmcal.harness.planning.reading import find_grid, grid_of, read_grid
from prmcal.harness.storage.store import ArtifactRef, Manifest

RECORDED = Path(__file__).with_name("nano_seconds.json")
WORKERS = 2
# What the recorded run had.
CALIBRATORS = ("uncalibrated", "temperature", "ats", "isotonic", "histogram", "quantile-lora")
STRATEGIES = (
    *("pass@1", "majority vote", "best-of-n", "weighted best-of-n", "best-of-n + IAS", "oracle IAS"),
    *("fixed n of equal cost", "beam search", "beam search + IAS-of-K", "beam search + IAS-of-M"),
)


@dataclass(frozen=True)
class Moment:
    """The time left at a moment of a run: as it was estimated, and as it turned out."""

    second: float
    estimate: float | None
    truth: float


def _name(entry: str | dict[str, str]) -> str:
    return entry if isinstance(entry, str) else entry["name"]


@pytest.fixture(scope="module")
def moments() -> list[Moment]:
    """A run of a part of the grid `nano` on two workers, replayed with the recorded seconds of its shards."""
    data = yaml.safe_load(find_grid("nano").read_text())
    data["calibrators"] = [each for each in data["calibrators"] if _name(each) in CALIBRATORS]
    data["strategies"] = [each for each in data["strategies"] if _name(each) in STRATEGIES]
    plan = build_plan(grid_of(data | {"league": False}, "the grid"))
    recorded: dict[str, list[list[float]]] = json.loads(RECORDED.read_text())
    seconds: dict[ArtifactRef, float] = {}
    counted: dict[str, int] = defaultdict(int)
    for job in {job.key: job for job in plan.jobs}.values():
        shards = recorded[str(job)][counted[str(job)]]
        counted[str(job)] += 1
        seconds.update({shard.ref: each for shard, each in zip(job.shards, shards, strict=True)})

    schedule, cost = Schedule(plan, ()), CostModel(plan, {})
    loaded = dict.fromkeys(range(WORKERS), "")
    running: dict[int, tuple[float, float, bool, Shard[Parameters]]] = {}
    now, found, next_look = 0.0, [], 0.0
    while not schedule.finished:
        for worker in set(loaded) - set(running):
            shard = schedule.take(loaded[worker])
            if shard is not None:
                loading = shard.resource not in ("", loaded[worker])
                loaded[worker] = shard.resource or loaded[worker]
                running[worker] = now + seconds[shard.ref], now, loading, shard
        if now >= next_look:
            next_look = now + 15
            elapsed = {shard.ref: now - begin for _, begin, _, shard in running.values()}
            found.append((now, seconds_left(schedule.unfinished, cost, WORKERS, elapsed)))
        first = min(running, key=lambda worker: running[worker][0])
        now, begin, loading, shard = running.pop(first)
        manifest = Manifest({}, now - begin, shard.size, loading=loading)
        cost.learn(shard.ref, manifest)
        schedule.finish(Outcome(shard.ref, manifest))
    return [Moment(second, estimate, now - second) for second, estimate in found]


def test_the_time_left_is_known_after_a_tenth_of_the_time(moments: list[Moment]) -> None:
    whole = moments[0].truth
    assert all(moment.estimate is not None for moment in moments if moment.second >= 0.1 * whole)


def test_the_first_shards_alone_give_no_time_left() -> None:
    """They are small and slow for their work, so the rest would look several times as long as it is."""
    plan = build_plan(read_grid(find_grid("hello")))
    cost = CostModel(plan, {})
    shards = list(plan.shards())
    rollout = next(shard for shard in shards if shard.ref.kind == "rollout")
    cost.learn(rollout.ref, Manifest({}, 1.0, rollout.size))
    left = [shard for shard in shards if shard is not rollout]
    assert (cost.seconds(left) or 0.0) > 19
    assert seconds_left(left, cost, WORKERS) is None
    cost.learn(rollout.ref, Manifest({}, 1000.0, rollout.size))
    few = [shard for shard in left if shard.ref.kind == "rollout"]
    assert seconds_left(few, cost, WORKERS) is not None


def test_a_large_batch_takes_less_than_its_share_of_a_small_one() -> None:
    plan = build_plan(read_grid(find_grid("hello")))
    rollouts = sorted(
        (each for each in plan.shards() if each.ref.kind == "rollout"), key=lambda each: each.size
    )
    few, many = rollouts[0], rollouts[-1]
    cost = CostModel(plan, {})
    cost.learn(few.ref, Manifest({}, 1.0, few.size))
    seconds = cost.seconds([many])
    assert seconds is not None
    assert 1 < seconds < 0.9 * many.size / few.size


@pytest.mark.parametrize(("begin", "end", "factor"), [(0.1, 0.75, 2.0), (0.75, 0.95, 2.5)])
def test_the_time_left_is_right_within_a_factor(
    moments: list[Moment], begin: float, end: float, factor: float
) -> None:
    whole = moments[0].truth
    looked = [moment for moment in moments if begin * whole <= moment.second <= end * whole]
    assert looked
    for moment in looked:
        assert moment.estimate is not None
        assert 1 / factor <= moment.estimate / moment.truth <= factor, moment


def test_the_last_shard_in_a_chain_decides() -> None:
    """A fit that takes longer than all else shared among the workers is what a run waits for."""
    plan = build_plan(read_grid(find_grid("hello")))
    schedule, cost = Schedule(plan, ()), CostModel(plan, {}, on_gpus=True)
    few, many = (seconds_left(schedule.unfinished, cost, workers) for workers in (1, 10_000))
    assert few is not None
    assert many is not None
    assert few > 2 * many > 0
    first = schedule.take()
    assert first is not None
    known = cost.seconds([first])
    assert known is not None
    left = seconds_left(schedule.unfinished, cost, 1, {first.ref: known / 2})
    assert left == pytest.approx(few - known / 2)


def test_the_time_left_is_that_of_all_workers_or_of_the_longest_chain() -> None:
    """Against its definition, shard by shard, after a part of the grid is finished."""
    plan = build_plan(read_grid(find_grid("nano")))
    shards = list(plan.shards())
    cost = CostModel(plan, {}, on_gpus=True)
    for number, shard in enumerate(shards[::3]):
        cost.learn(shard.ref, Manifest({}, 0.1 * (1 + number % 7), shard.size, loading=number % 5 == 0))
    left = [shard for number, shard in enumerate(shards) if number % 3]
    needed = {shard.ref: cost.seconds([shard]) or 0.0 for shard in left}
    ends: dict[ArtifactRef, float] = {}
    for shard in left:
        before = [ends.get(ref, 0.0) for refs in shard.inputs.values() for ref in refs]
        ends[shard.ref] = needed[shard.ref] + max(before, default=0.0)
    for workers in (1, 10, 10_000):
        expected = max(sum(needed.values()) / workers, *ends.values())
        assert seconds_left(left, cost, workers) == pytest.approx(expected)


def test_the_tokens_that_are_left_follow_those_of_finished_shards() -> None:
    plan = build_plan(read_grid(find_grid("hello")))
    shards = [each for each in plan.shards() if each.ref.kind == "rollout"]
    assumed = next(each for each in remaining_work(plan, (), CostModel(plan, {})) if each.kind == "rollout")
    first = shards[0]
    finished = Manifest({}, 1.0, first.size, samples=first.size, generated_tokens=9 * first.size)
    cost = CostModel(plan, {first.ref: finished})
    left = next(each for each in remaining_work(plan, {first.ref}, cost) if each.kind == "rollout")
    assert left.samples == assumed.samples - first.size
    assert left.tokens == 9 * left.samples
