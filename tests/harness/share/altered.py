"""Altered copies of runs, bundles and merged leaderboards."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from prmcal.harness.execution.ending import Failure, write_failures
from prmcal.harness.storage.store import ArtifactRef


def with_other_rewards(run: Path, out: Path, rows: int, shift: float) -> Path:
    """Copy a run, and alter the rewards of a score artifact together with its hashes."""
    shutil.copytree(run, out)
    used = [
        folder for folder in (out / "artifacts" / "score").iterdir() if f'"{folder.name}"' in plan_text(out)
    ]
    _alter(min(used) / "rewards.parquet", "reward", shift, rows)
    return out


def with_other_values(run: Path, out: Path, refs: Iterable[ArtifactRef], shift: float) -> Path:
    """Copy a run, and alter the values of some results together with their hashes."""
    shutil.copytree(run, out)
    for ref in refs:
        _alter(out / "artifacts" / ref.kind / ref.key / "results.parquet", "value", shift)
    return out


def without(run: Path, out: Path, refs: Sequence[ArtifactRef], reason: str) -> Path:
    """Copy a run as if these artifacts could not be computed."""
    shutil.copytree(run, out)
    for ref in refs:
        shutil.rmtree(out / "artifacts" / ref.kind / ref.key)
    write_failures(out, {ref.key: Failure(reason, "plugin") for ref in refs})
    return out


def measured_at(run: Path, ended: str) -> Path:
    """Change when a run ended, which decides its place among others."""
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**record, "finished_at": ended}))
    return run


def _alter(file: Path, column: str, shift: float, rows: int | None = None) -> None:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    table = parquet.read_table(file)
    values = table[column].to_numpy().copy()
    values[:rows] += shift
    place = table.column_names.index(column)
    parquet.write_table(table.set_column(place, column, pa.array(values)), file)
    manifest = json.loads((file.parent / "artifact.json").read_text())
    content = file.read_bytes()
    manifest["files"][file.name] = [len(content), hashlib.sha256(content).hexdigest()]
    (file.parent / "artifact.json").write_text(json.dumps(manifest, sort_keys=True))


def plan_text(directory: Path) -> str:
    """The saved plans of a run, or of the submissions of a merged leaderboard."""
    return "".join(path.read_text() for path in directory.rglob("plan.json"))
