"""Small runs to merge: a whole grid, other grids, and altered copies. Runs and their copies share artifacts."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import sqlalchemy as sa
import yaml

from prmcal.db.reader import reading
from prmcal.db.run_folder import LOCK_FILE, artifacts_root, published_path
from prmcal.db.tables import Base
from prmcal.harness.execution.run import rebuild_database
from prmcal.harness.planning.plan import PlannedCell
from prmcal.harness.planning.reading import grid_of
from prmcal.harness.planning.saved import existing_plan
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import ArtifactRef, Store
from tests.conftest import PLUGINS
from tests.one_process import run_here

GRID: dict[str, Any] = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text()) | {
    "calibrators": ["uncalibrated", "isotonic"],
    "calibration": {"name": "synthetic-questions", "questions": 6, "trajectories": 2, "follow_ups": 2},
    "datasets": [
        {"name": "synthetic-questions", "questions": 6},
        {
            "name": "long",
            "plugin": "synthetic-questions",
            "arguments": {"longest": 12},
            "questions": 5,
        },
    ],
    "measurement": {"measured": 2, "follow_ups": 2, "replicates": 100},
    "scaling": {"samples": 4, "targets": [0.9], "levels": [0.1]},
    "shards": {"questions": 20, "trajectories": 8},
    "league": True,
}


def run(out: Path, changes: Mapping[str, Any] | None = None, of: Path | None = None, only: Any = None) -> Path:
    """Run the grid with some changes. Artifacts of equal keys are taken from another run, if it is given."""
    if of is not None:
        shutil.copytree(artifacts_root(of), artifacts_root(out), copy_function=os.link)
    run_here(grid_of(GRID | dict(changes or {}), "the grid"), out, only=only)
    return out


def copied(directory: Path, out: Path) -> Path:
    """Copy a run. What tests write replaces the files, and does not change them in place.

    The file of the lock is not shared: two processes of the tests would wait for each other.
    """
    without_lock = shutil.ignore_patterns(LOCK_FILE)
    return Path(shutil.copytree(directory, out, copy_function=os.link, dirs_exist_ok=True, ignore=without_lock))


def part(directory: Path, out: Path, keep: Callable[[PlannedCell], bool]) -> Path:
    """Copy a run as if it had computed only what some cells need."""
    copied(directory, out)
    plan = existing_plan(RunFolder(out))
    needed = {shard.ref for shard in plan.part([cell for cell in plan.cells if keep(cell)]).shards()}
    for shard in plan.shards():
        if shard.ref not in needed:
            shutil.rmtree(Store(out).folder(shard.ref))
    rebuild_database(out)
    return out


def refs_of(directory: Path, kind: str, **labels: str) -> list[ArtifactRef]:
    """The artifacts of a kind of job with these labels."""
    jobs = existing_plan(RunFolder(directory)).jobs
    return [
        ref
        for job in jobs
        if job.kind == kind and all(getattr(job.labels, name) == value for name, value in labels.items())
        for ref in job.refs
    ]


def shifted(directory: Path, refs: Sequence[ArtifactRef], table: str, column: str, shift: float) -> Path:
    """Alter the numbers in a column of some artifacts, together with their hashes."""
    for ref in refs:
        file = Store(directory).folder(ref) / f"{table}.parquet"
        found = parquet.read_table(file)
        place = found.column_names.index(column)
        values = pa.array(found[column].to_numpy() + shift, found[column].type)
        file.unlink()
        parquet.write_table(found.set_column(place, column, values), file)
        sealed(file.parent, file.name)
    return directory


def sealed(folder: Path, name: str) -> None:
    """Write the size and the hash of a file of an artifact into its manifest."""
    manifest = json.loads((folder / "artifact.json").read_text())
    content = (folder / name).read_bytes()
    manifest["files"][name] = [len(content), hashlib.sha256(content).hexdigest()]
    (folder / "artifact.json").unlink()
    (folder / "artifact.json").write_text(json.dumps(manifest, sort_keys=True))


OTHER_IN_EACH_RUN = {"runs", "schema_version"}
"""Tables that two runs of one grid do not have alike."""
_COLUMNS = {"source", "seconds", "position"}


def rows(directory: Path) -> dict[str, list[str]]:
    """The content of a database by table, without what differs between runs: ids, seconds and the order of lists."""
    with reading(published_path(directory)) as connection:
        return {
            table.name: sorted(
                repr([value for name, value in row.items() if name not in _COLUMNS])
                for row in connection.execute(sa.select(table)).mappings()
            )
            for table in Base.metadata.sorted_tables
            if table.name not in OTHER_IN_EACH_RUN
        }


def cells(directory: Path) -> dict[str, dict[str, Any]]:
    """The rows of the table of cells by their ids."""
    with reading(published_path(directory)) as connection:
        query = sa.select(Base.metadata.tables["cells"])
        return {row["cell_id"]: dict(row) for row in connection.execute(query).mappings()}
