"""How the work of the coordinator grows: planning, handing out and resuming 2,000 to 200,000 shards.

python -m benchmarks.analysis.many_shards [SHARDS...]

The grid has 3 LLMs and 2 PRMs without models, and one question in each shard. Each size is measured in a process of its
own, in CPU seconds. At most 20,000 artifacts are written, because a file system needs minutes for more.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prmcal.db.writer import Writer
from prmcal.harness.cli.plan import read_status, render_plan
from prmcal.harness.execution.events import ShardOutcome
from prmcal.harness.execution.recorder import Recorder
from prmcal.harness.execution.schedule import Schedule
from prmcal.harness.planning.costs import CostModel, seconds_left
from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.planner import build_plan
from prmcal.harness.planning.saved import write_plan
from prmcal.harness.storage.folder import RunFolder, RunRecord
from prmcal.harness.storage.store import Manifest, Store
from prmcal.registry.plugins import load_plugin_file

PLUGINS = Path(__file__).parents[2] / "tests" / "plugins" / "synthetic.py"
SIZES = (2_000, 20_000, 200_000)
SHARDS_OF_QUESTION = 33
ARTIFACTS, BYTES = 20_000, 3_000


def grid(shards: int) -> GridSpec:
    """Return a grid of about this many shards, nearly all of which need a model."""
    questions = {"plugin": "synthetic-questions", "questions": max(1, shards // SHARDS_OF_QUESTION)}
    return GridSpec.model_validate(
        {
            "name": "many",
            "llms": [_plugin("llm", skill) for skill in (0.7, 0.8, 0.95)],
            "prms": [_plugin("prm", skill) for skill in (0.8, 0.95)],
            "calibrators": ["uncalibrated", "temperature", "isotonic"],
            "calibration": {"name": "calibration", **questions, "trajectories": 4, "follow_ups": 4},
            "datasets": [{"name": "test", **questions}],
            "measurement": {"measured": 4, "follow_ups": 4, "replicates": 200},
            "scaling": {"samples": 8, "targets": [0.99], "levels": [0.1]},
            "shards": {"questions": 1, "trajectories": 4},
        }
    )


def _plugin(kind: str, skill: float) -> dict[str, Any]:
    return {"name": f"{kind}-{skill:g}", "plugin": f"synthetic-{kind}", "arguments": {"skill": skill}}


def hand_out(plan: Plan, workers: int) -> None:
    """Work through a schedule. Each shard takes the workers equally long, and no time."""
    schedule, loaded = Schedule(plan, ()), [""] * workers
    idle, running = deque(range(workers)), deque[tuple[int, ShardOutcome]]()
    while not schedule.finished:
        while idle and (shard := schedule.take(loaded[idle[0]])):
            worker = idle.popleft()
            loaded[worker] = shard.resource or loaded[worker]
            running.append((worker, ShardOutcome(shard.ref, Manifest({}, 1.0))))
        worker, outcome = running.popleft()
        idle.append(worker)
        schedule.finish(outcome)


def write_artifacts(plan: Plan, store: Store) -> None:
    content = bytes(range(250)) * (BYTES // 250)
    for shard in list(plan.shards())[:ARTIFACTS]:
        figures = {"seconds": 1.0}
        store.write(shard.ref, lambda folder: _write(folder / "rewards.parquet", content), figures)


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def record(plan: Plan, folder: RunFolder, record: RunRecord) -> None:
    """Record the outcome of every shard of a plan."""
    writer = Writer(folder.database, folder.published)
    recorder = Recorder(writer, folder, plan, folder.store, record, {})
    with recorder.recording({}):
        for shard in plan.shards():
            recorder.note(ShardOutcome(shard.ref, Manifest({}, 1.0)))
        recorder.ending = "SIGTERM"  # Nothing is compared.


def measure(shards: int) -> tuple[int, dict[str, float], float]:
    """Return the shards, the CPU seconds of each step, and the peak of the memory in MB."""
    load_plugin_file(PLUGINS)
    seconds: dict[str, float] = {}

    @contextmanager
    def timed(step: str) -> Iterator[None]:
        begin = time.process_time()
        yield
        seconds[step] = time.process_time() - begin

    spec = grid(shards)
    with tempfile.TemporaryDirectory() as name:
        folder, store = RunFolder(Path(name)), Store(Path(name))
        with timed("plan the grid"):
            plan = build_plan(spec)
        with timed("hand out to 1 worker"):
            hand_out(plan, 1)
        with timed("hand out to 256 workers"):
            hand_out(plan, 256)
        with timed("learn what shards cost"):
            cost = CostModel(plan, {})
        with timed("estimate the time left"):
            seconds_left(plan.shards(), cost, 256)
        run_record = RunRecord(spec.model_dump(mode="json"), [str(PLUGINS)], "run", "2026-01-02T00:00:00+00:00")
        folder.write_record(run_record)
        with timed("save the plan"):
            write_plan(folder.directory, run_record.grid, plan)
        with timed("record all outcomes"):
            record(plan, folder, run_record)
        write_artifacts(plan, store)
        with timed("look for finished shards"):
            store.manifests(shard.ref for shard in plan.shards())
        with timed("prmcal plan"):
            render_plan(spec, folder.directory)
        with timed("prmcal status"):
            read_status(folder.directory)
    return len(plan.shards()), seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def grow(sizes: tuple[int, ...]) -> None:
    """Print the CPU seconds of each step, and the microseconds for each shard."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as pool:
        measured = list(pool.map(measure, sizes))
    print(f"{'shards':28}" + "".join(f"{shards:22,}" for shards, _, _ in measured))
    for step in measured[0][1]:
        times = (f"{seconds[step]:9.2f} s {1e6 * seconds[step] / shards:8.1f} µs" for shards, seconds, _ in measured)
        print(f"{step:28}" + "".join(f"{time:>22}" for time in times))
    print(f"{'memory of all this':28}" + "".join(f"{memory:19,.0f} MB" for _, _, memory in measured))


def main() -> None:
    grow(tuple(map(int, sys.argv[1:])) or SIZES)


if __name__ == "__main__":
    main()
