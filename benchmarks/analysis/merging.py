"""Merging many bundles: seconds, memory and disk, beside loading them one after the other.

    python -m benchmarks.analysis.merging RUN --bundles 50 [--out FOLDER]

Each bundle is the run with another seed: the keys of all shards are computed again, so that they are honest, and the
rows are those of the run. Naively, each bundle is unpacked and loaded into a database of its own.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from prmcal.db.reader import reading
from prmcal.db.run_folder import artifact_folder, published_path
from prmcal.db.tables import Base
from prmcal.harness.bundles import About, unpack, write_bundle
from prmcal.harness.execution.rebuild import rebuild_database
from prmcal.harness.jobs.job import Job, Shard, job_key, shard_key
from prmcal.harness.merging.merge import merge
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.saved import read_plan, write_plan
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.keys import ArtifactRef

__all__ = ["reseeded"]


def reseeded(run: Path, out: Path, seed: int) -> Path:
    """Write a copy of a run as if its grid had another seed. Artifacts are linked."""
    record = RunFolder(run).record()
    plan = read_plan(run, record.grid)
    assert plan is not None
    refs: dict[ArtifactRef, ArtifactRef] = {}
    jobs: dict[int, Job[Any]] = {}
    for job in plan.jobs:
        shards = tuple(_reseeded(shard, seed, refs) for shard in job.shards)
        inputs = tuple(jobs[id(source)] for source in job.inputs)
        jobs[id(job)] = Job(job_key([shard.ref for shard in shards]), job.labels, shards, inputs)
    cells = tuple(replace(cell, job=jobs[id(cell.job)]) for cell in plan.cells)
    seconds = {refs[ref]: each for ref, each in (plan.model_seconds or {}).items()}
    copied = Plan(tuple(jobs.values()), cells, plan.plugins, plan.datasets, plan.metrics)
    for old, new in refs.items():
        source = artifact_folder(run, old.kind, old.key)
        if source.exists():
            shutil.copytree(source, artifact_folder(out, new.kind, new.key), copy_function=os.link)
    ended = datetime.fromisoformat(record.finished_at) + timedelta(minutes=seed)
    changed = replace(
        record, grid={**record.grid, "seed": seed}, run_id=f"{seed:012x}", finished_at=ended.isoformat()
    )
    RunFolder(out).write_record(changed)
    write_plan(out, changed.grid, copied, seconds)
    return out


def _reseeded(shard: Shard[Any], seed: int, refs: dict[ArtifactRef, ArtifactRef]) -> Shard[Any]:
    identity = {name: seed if name == "seed" else value for name, value in shard.identity.items()}
    inputs = {role: tuple(refs[ref] for ref in given) for role, given in shard.inputs.items()}
    key = shard_key(shard.ref.kind, shard.version, identity, inputs)
    refs[shard.ref] = ArtifactRef(shard.ref.kind, key)
    return replace(shard, ref=refs[shard.ref], inputs=inputs, identity=identity)


def rows_of(directory: Path) -> int:
    """Count the rows of all tables of a database."""
    with reading(published_path(directory)) as connection:
        counts = [
            connection.scalar(sa.select(sa.func.count()).select_from(table))
            for table in Base.metadata.sorted_tables
        ]
    return sum(count or 0 for count in counts)


def size_of(paths: Iterable[Path]) -> float:
    """Return the size of files in MB."""
    return sum(path.stat().st_size for path in paths) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--bundles", type=int, default=50)
    parser.add_argument(
        "--naive", type=int, default=3, help="How many bundles are loaded naively, for the mean."
    )
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(dir=given.out))
    bundles = []
    for seed in range(1, given.bundles + 1):
        folder = reseeded(given.run, root / f"run-{seed}", seed)
        bundles.append(root / f"{seed}.bundle")
        write_bundle(folder, None, bundles[-1], About(f"submitter {seed}", "CC-BY-4.0"))
        shutil.rmtree(folder)
    print(f"{given.bundles} bundles of {size_of(bundles) / len(bundles):.1f} MB", flush=True)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    begin = time.monotonic()
    summary = merge(root / "merged", bundles)
    seconds = time.monotonic() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows = rows_of(root / "merged")
    database = published_path(root / "merged").stat().st_size / 1e6
    print(
        f"merged: {seconds:.1f} s, {len(summary.union.cells):,} cells, {rows:,} rows, database {database:.0f} MB, "
        f"peak memory {peak:.0f} MB ({before:.0f} MB before)",
        flush=True,
    )
    begin = time.monotonic()
    for number, bundle in enumerate(bundles[: given.naive]):
        unpack(bundle, root / f"naive-{number}")
        rebuild_database(root / f"naive-{number}")
    naive = (time.monotonic() - begin) / min(given.naive, len(bundles)) * len(bundles)
    print(f"naively, one after the other: {naive:.1f} s ({naive / seconds:.2f} times as long)")
    shutil.rmtree(root)


if __name__ == "__main__":
    main()
