"""Runs of grids in the process of a test, for what a run stores: neither a command nor a worker has to start."""

from __future__ import annotations

import io
from collections.abc import Generator
from pathlib import Path
from typing import Any

from prmcal.harness.execution.ending import RunSummary
from prmcal.harness.execution.events import Event
from prmcal.harness.execution.run import run_grid
from prmcal.harness.execution.schedule import Schedule
from prmcal.harness.execution.worker import run_shard
from prmcal.harness.jobs.context import Context
from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.planning.reading import read_grid
from prmcal.harness.storage.store import Store
from prmcal.registry.plugins import load_plugin_file
from tests.conftest import PLUGINS


class OneProcess:
    """An executor that computes all shards in this process."""

    on_gpus = False

    def __init__(self, directory: Path) -> None:
        self.context = Context(Store(directory))

    def run(self, schedule: Schedule) -> Generator[Event]:
        while (shard := schedule.take()) is not None:
            yield from schedule.report(run_shard(shard, self.context))


def run_here(grid: Path | GridSpec, out: Path, *plugins: Path, **options: Any) -> RunSummary:
    """Run a grid with the synthetic plugins and others, and with options of `run_grid`."""
    files = [PLUGINS / "synthetic.py", *plugins]
    for file in files:
        load_plugin_file(file)
    spec = grid if isinstance(grid, GridSpec) else read_grid(grid)
    return run_grid(spec, out, 1, files, OneProcess(out), io.StringIO(), **options)
