"""What needs no model, computed again from the stored inputs and compared with what is stored. Nothing is written."""

import math
import multiprocessing
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

from prmcal.errors import PrmcalError, RunError
from prmcal.harness.execution.worker import ONE_THREAD, as_stored, starting_with
from prmcal.harness.jobs import compute
from prmcal.harness.jobs.context import Context
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import MeasuringParameters, Parameters
from prmcal.harness.merging.tables import differences
from prmcal.harness.planning.saved import existing_plan
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import Store
from prmcal.registry.contracts.data import Question
from prmcal.registry.messages import excerpt, message_of
from prmcal.registry.plugins import load_plugin_file

_context: Context
"""The context of a worker process."""


@dataclass(frozen=True)
class Compared:
    """The results that were computed again."""

    agree: int
    """How many equal the stored results, except for rounding."""
    differing: Mapping[str, Sequence[str]]
    """How the other results differ, in words, by the names of their cells or of their jobs."""
    unchecked: Mapping[str, int]
    """How many could not be computed again, by the reason."""


def compare_again(directory: Path, plugin_files: Sequence[Path] = ()) -> Compared:
    """Compute the metrics, strategies and curves of a run again, and compare them with the stored ones.

    Raises a RunError if no grid was run in the folder, or a process dies, for example because no memory is left.
    """
    plan, store = existing_plan(RunFolder(directory)), Store(directory)
    shards = [shard for shard in plan.shards() if isinstance(shard.parameters, MeasuringParameters)]
    manifests = store.manifests(shard.ref for shard in shards)
    shards = [shard for shard in shards if shard.ref in manifests]
    questions = {(data.name, data.split): data.questions for data in plan.datasets}
    names = {cell.job.refs[0]: cell.cell_id for cell in reversed(plan.cells)}
    agree, differing, unchecked = 0, {}, Counter[str]()
    workers, spawn = min(os.cpu_count() or 1, max(1, len(shards))), multiprocessing.get_context("spawn")
    begin_args = (directory, questions, plugin_files)
    with starting_with(ONE_THREAD), ProcessPoolExecutor(workers, spawn, _begin, begin_args) as pool:
        try:
            for shard, (reason, lines) in zip(shards, pool.map(_compare, shards, chunksize=4), strict=True):
                agree += not reason and not lines
                if reason:
                    unchecked[reason] += 1
                elif lines:
                    differing[names.get(shard.ref, str(plan.job_of(shard.ref)))] = lines
        except BrokenProcessPool as error:
            raise RunError(
                "A process that computed results again ended, usually because the machine ran out of memory."
            ) from error
    return Compared(agree, differing, dict(unchecked))


def _begin(
    directory: Path, questions: Mapping[tuple[str, str], Sequence[Question]], plugin_files: Sequence[Path]
) -> None:
    global _context
    for file in plugin_files:
        load_plugin_file(file)
    _context = Context(Store(directory), questions=questions)


def _compare(shard: Shard[Parameters]) -> tuple[str, list[str]]:
    """Return why a shard could not be computed again, and how its result differs from the stored one."""
    kind, version = shard.parameters.kind, shard.parameters.version
    if shard.version != version:
        return f"Version {shard.version} of '{kind}' computed it, and this prmcal has version {version}.", []
    try:
        computed = {name: as_stored(frame) for name, frame in compute(shard, _context).tables.items()}
        folder = _context.store.folder(shard.ref)
        stored = {path.stem: _context.store.read(shard.ref, path.stem) for path in folder.glob("*.parquet")}
    except Exception as error:  # of a plugin, or of what is stored
        return excerpt(str(error) if isinstance(error, PrmcalError) else message_of(error)), []
    lines = [f"only one has the table '{name}'" for name in sorted(computed.keys() ^ stored.keys())]
    for name in sorted(computed.keys() & stored.keys()):
        for difference in differences(stored[name], computed[name]):
            column = f"{name}.{difference.column}" if difference.column else name
            size = "" if math.isnan(difference.size) else f" by up to {difference.size:.2g}"
            lines.append(f"{column}: {difference.rows} of {len(stored[name])} rows differ{size}")
    return "", lines
