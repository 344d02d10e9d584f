"""How busy eight GPUs are in a run of the paper's grid, whose 72B PRM needs four of them.

python -m benchmarks.cluster.placement

The schedule and the placement of workers are those of a real run. The clock is simulated: every shard takes the time
that `prmcal plan` assumes, and a model is loaded in two minutes. Against it stand workers of four GPUs each, as if the
largest model decided for all. No model, no data and no GPU are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path

from prmcal.harness.execution.events import ShardOutcome
from prmcal.harness.execution.machine import Slot, Worker, next_start, slots_of_machine
from prmcal.harness.execution.schedule import Schedule
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.planning.gpu_hours import assumed_work, billions, checkpoint_of, hours_of
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.planner import build_plan
from prmcal.harness.planning.reading import read_grid
from prmcal.harness.storage.store import ArtifactRef, Manifest

GRID = Path(__file__).parents[2] / "grids" / "paper.yaml"
GPUS = "01234567"
SECONDS_OF_LOADING = 120.0
"""Seconds until a model is loaded and its engine has started."""


@dataclass(frozen=True, slots=True)
class Stint:
    """The time that a worker takes for a shard in a simulated run."""

    shard: Shard[Parameters]
    gpus: tuple[str, ...]
    """The GPUs that the worker holds."""
    begin: float
    end: float
    """In seconds since the run began."""


def simulated(
    plan: Plan,
    done: Collection[ArtifactRef],
    slots: Sequence[Slot],
    seconds: Callable[[Shard[Parameters]], float],
    loading: float = 0.0,
) -> list[Stint]:
    """Return who would compute the shards of a plan when, by the schedule and the placement of a real run.

    `done` are the finished shards, `seconds` returns the time of a shard, and to load a model takes `loading` seconds.
    """
    schedule = Schedule(plan, done)
    workers: list[Worker] = []
    stints: list[Stint] = []
    ends: list[tuple[float, int, Worker]] = []
    now = 0.0

    def give(idle: Collection[Worker]) -> None:
        for worker, shard in schedule.hand_out(idle):
            loads = shard.resource not in ("", worker.loaded)
            stint = Stint(shard, worker.seat.gpus, now, now + seconds(shard) + loading * loads)
            worker.shard, worker.loaded = shard, shard.resource or worker.loaded
            heappush(ends, (stint.end, len(stints), worker))
            stints.append(stint)

    while not schedule.finished:
        give(workers)
        while (start := next_start(schedule.ready(), slots, workers)) is not None:
            seat, ended = start
            new = Worker(seat=seat, name=f"worker {seat.slots[0].number + 1}")
            workers = [*(worker for worker in workers if worker not in ended), new]
            give([new])
        now, _, worker = heappop(ends)
        assert worker.shard is not None
        schedule.finish(ShardOutcome(worker.shard.ref, Manifest({}, 0.0)))
        worker.shard = None
    return stints


def simulate(plan: Plan, slots: Sequence[Slot]) -> list[Stint]:
    """Return who would compute what when, with the plan's estimates of times."""
    seconds = {
        shard.ref: 3600
        * sum(
            hours_of(billions(checkpoint_of(kind, model)) or 0.0, {task: tokens}) / model.gpus
            for kind, model, task, tokens in work
        )
        for shard, work in assumed_work(plan)
    }
    return simulated(plan, (), slots, lambda shard: seconds[shard.ref], SECONDS_OF_LOADING)


def busy(stints: Sequence[Stint], end: float, gpus: int) -> float:
    """Return the share of the time of all GPUs until `end` in which a model that is spread over them computes."""
    used = sum(stint.shard.gpus * max(0.0, min(end, stint.end) - stint.begin) for stint in stints)
    return used / (end * gpus)


def last_start_of_small(stints: Sequence[Stint]) -> float:
    """Return the time from which no shard with a model on one GPU waits for a worker."""
    return max(stint.begin for stint in stints if stint.shard.gpus == 1)


def main() -> None:
    """Print the wall time and the share of busy GPUs."""
    plan = build_plan(read_grid(GRID), stand_ins=True)
    for title, workers in (("GPUs by shard", 8), ("four GPUs for every worker", 2)):
        stints = simulate(plan, slots_of_machine(GPUS, workers))
        wall, small = max(stint.end for stint in stints), last_start_of_small(stints)
        print(
            f"{title}: {wall / 3600:.1f} h, {len(GPUS) * wall / 3600:.0f} GPU-hours reserved, busy "
            f"{busy(stints, small, len(GPUS)):.1%} of the time while work for one GPU waits ({small / 3600:.1f} h), "
            f"{busy(stints, wall, len(GPUS)):.1%} of the whole"
        )


if __name__ == "__main__":
    main()
