"""How well the coordinator keeps the workers of a cluster busy.

python -m benchmarks.cluster.efficiency

First real workers: a grid without models on one node with 1 and with 2 cores, with its artifacts sent back. Then 8, 64
and 256 simulated workers, whose shards of ten seconds only sleep. Four processes stand for them, because a machine has
no memory for 256. The schedule, the messages of Ray, the record in the database and its publishing are real.
The efficiency is the time that the shards need on so many workers, divided by the wall time from the first shard on.
"""

from __future__ import annotations

import asyncio
import io
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.analysis.many_shards import PLUGINS, grid
from prmcal.harness.cluster.executor import RayExecutor
from prmcal.harness.cluster.nodes import ClusterSettings
from prmcal.harness.execution.machine import Seat, Slot
from prmcal.harness.execution.recorder import Recorder
from prmcal.harness.execution.run import run_grid
from prmcal.harness.execution.schedule import Outcome, Schedule
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.planner import build_plan
from prmcal.harness.storage.folder import RunFolder, RunRecord
from prmcal.harness.storage.store import Manifest, Store
from prmcal.registry.plugins import load_plugin_file

SECONDS, ROUNDS, PROCESSES = 10.0, 6, 4


class Sleeper:
    """Stands for many workers: computes nothing, and answers after some seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def ready(self) -> bool:
        """Answer at once."""
        return True

    async def note(self) -> str:
        """Return no progress."""
        return ""

    async def compute(self, shard: Shard[Parameters]) -> Outcome:
        """Sleep."""
        await asyncio.sleep(self._seconds)
        return Outcome(shard.ref, Manifest({}, self._seconds, shard.size))


class SimulatedCluster(RayExecutor):
    """A cluster with more workers than this machine has cores."""

    def __init__(self, directory: Path, workers: int, seconds: float) -> None:
        super().__init__(directory, grid(100), [PLUGINS])
        self._count = workers
        self._seconds = seconds
        self._sleepers: list[Any] = []

    def _slots(self) -> list[Slot]:
        (node,) = self._census.usable
        return [Slot(number, node) for number in range(self._count)]

    def _new_actor(self, seat: Seat, name: str, settings: Any) -> Any:
        if len(self._sleepers) < PROCESSES:
            options = {"num_cpus": 0, "max_concurrency": 1000}
            self._sleepers.append(self._ray.remote(Sleeper).options(**options).remote(self._seconds))
        return self._sleepers[seat.slots[0].number % PROCESSES]


def independent_shards(count: int) -> Plan:
    """Return a plan of this many shards that wait for nothing."""
    plan = build_plan(grid(33 * count // 4))
    jobs = [job for job in plan.jobs if job.kind == "rollout"]
    kept, found = [], 0
    for job in jobs:
        if found < count:
            kept.append(job)
            found += len(job.shards)
    return Plan(tuple(kept), (), plan.plugins, plan.datasets)


def simulate(workers: int, seconds: float, shards: int) -> None:
    """Print the efficiency with sleeping shards."""
    with tempfile.TemporaryDirectory() as name:
        folder = RunFolder(Path(name))
        plan = independent_shards(shards)
        recorder = Recorder(folder, plan, Store(folder.directory), _record())
        schedule = Schedule(plan, ())
        recorder.begin({})
        begin = 0.0
        with SimulatedCluster(folder.directory, workers, seconds) as executor:
            for event in executor.run(schedule):
                begin = begin or min(schedule.started.values(), default=0.0)
                if isinstance(event, Outcome):
                    recorder.note(event)
            wall = time.monotonic() - begin
        count = len(plan.shards())
    ideal = -(-count // workers) * seconds
    print(
        f"{workers:4} workers, {count:6,} shards of {seconds:g} s: {wall:6.1f} s, {count / wall:6.1f} shards/s, "
        f"efficiency {ideal / wall:.1%}, {1000 * (wall - ideal) * workers / count:7.1f} ms of a worker lost per shard",
        flush=True,
    )


def real(cores: int) -> None:
    """Print the throughput of real workers on one node."""
    spec = grid(500)
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "out"
        settings = ClusterSettings(workers=cores)
        with RayExecutor(out, spec, [PLUGINS], settings) as executor:
            done = run_grid(spec, out, cores, [PLUGINS], executor, stream=io.StringIO())
        rate = done.computed / done.seconds
        print(
            f"{cores:4} real workers, {done.computed:,} shards: {done.seconds:.1f} s, {rate:.1f} shards/s",
            flush=True,
        )


def _record() -> RunRecord:
    return RunRecord(grid(100).model_dump(mode="json"), [str(PLUGINS)], "run", "2026-01-02T00:00:00+00:00")


def main() -> None:
    load_plugin_file(PLUGINS)
    for cores in (1, 2):
        real(cores)
    simulate(1, 0.0, 1000)
    for workers in (8, 64, 256):
        simulate(workers, SECONDS, ROUNDS * workers)


if __name__ == "__main__":
    main()
