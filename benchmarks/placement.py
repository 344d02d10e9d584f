"""Simulated runs: who computes which shard when, by the schedule and the placement of workers of a real run.

The clock is simulated: every shard takes the time that `prmcal plan` assumes, and a model is loaded in two minutes. No
model, no data and no GPU are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path

from benchmarks.measuring import Figure
from prmcal.harness.execution.events import ShardOutcome
from prmcal.harness.execution.machine import Slot, Worker, next_start, slots_of_machine
from prmcal.harness.execution.schedule import Schedule
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.planning.gpu_hours import assumed_work, billions, checkpoint_of, hours_of
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.planner import build_plan
from prmcal.harness.planning.reading import read_grid
from prmcal.harness.storage.store import Manifest

GRID = Path(__file__).parents[1] / "grids" / "paper.yaml"
GPUS = "01234567"
_SECONDS_OF_LOADING = 120.0


@dataclass(frozen=True, slots=True)
class Stint:
    """The time that a worker takes for a shard."""

    shard: Shard[Parameters]
    gpus: tuple[str, ...]
    """The GPUs that the worker holds."""
    begin: float
    end: float
    """In seconds since the run began."""


def simulated(
    plan: Plan, slots: Sequence[Slot], seconds: Callable[[Shard[Parameters]], float], loading: float = 0.0
) -> list[Stint]:
    """Return a simulated run. `seconds` returns the time of a shard, and to load a model takes `loading` seconds."""
    schedule = Schedule(plan, ())
    workers: list[Worker] = []
    stints: list[Stint] = []
    ends: list[tuple[float, int, Worker]] = []
    now = 0.0

    def give(idle: Collection[Worker]) -> None:
        loaded_before = {worker: worker.loaded for worker in idle}
        for worker, shard in schedule.hand_out(idle):
            loads = shard.resource not in ("", loaded_before[worker])
            stint = Stint(shard, worker.seat.gpus, now, now + seconds(shard) + loading * loads)
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
    """Return a simulated run with the plan's estimates of times."""
    seconds = {
        shard.ref: 3600
        * sum(
            hours_of(billions(checkpoint_of(kind, model)) or 0.0, {task: tokens}) / model.gpus
            for kind, model, task, tokens in work
        )
        for shard, work in assumed_work(plan)
    }
    return simulated(plan, slots, lambda shard: seconds[shard.ref], _SECONDS_OF_LOADING)


def busy(stints: Sequence[Stint], end: float, gpus: int) -> float:
    """Return the share of the time of all GPUs until `end` in which a model that is spread over them computes."""
    used = sum(stint.shard.gpus * max(0.0, min(end, stint.end) - stint.begin) for stint in stints)
    return used / (end * gpus)


def last_start_of_small(stints: Sequence[Stint]) -> float:
    """Return the time from which no shard with a model on one GPU waits for a worker."""
    return max(stint.begin for stint in stints if stint.shard.gpus == 1)


def eight_gpus(tiny: bool) -> Figure:
    """Simulate a run of the paper's grid, whose 72B PRM needs four GPUs, against workers of four GPUs each."""
    plan = build_plan(read_grid(GRID), stand_ins=True)
    plan = plan.part(plan.cells_with({"llm": ["Llama-3.2-1B"]})) if tiny else plan
    by_shard, by_four = (simulate(plan, slots_of_machine(GPUS, workers)) for workers in (len(GPUS), 2))
    assert {stint.shard.ref for stint in by_shard} == {stint.shard.ref for stint in by_four}, "the shards are equal"
    seconds, peer_seconds = (max(stint.end for stint in stints) for stints in (by_shard, by_four))
    share = busy(by_shard, last_start_of_small(by_shard), len(GPUS))
    return Figure(
        "a simulated run of the grid `paper` on 8 GPUs, from its begin to its end",
        seconds,
        "workers of four GPUs each, which its largest model needs",
        peer_seconds,
        f"GPUs are busy {share:.1%} of the time while work for one GPU waits",
    )
