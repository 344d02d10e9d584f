"""The check of the folder of a run, which may come from a stranger, before a byte of it is taken over.

Its record, plan and failures have fields of the right types, and every key is the hash of its inputs. Artifacts have
the files of their manifests with the same hashes, and no others, no links and no odd names. Tables can be read.
"""

import re
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from pydantic import TypeAdapter

from prmcal.db.reader import reading as open_database
from prmcal.db.run_folder import FAILURES_FILE, PLAN_FILE, RECORD_FILE
from prmcal.errors import DamagedDatabaseError, DataError, MissingDatabaseError, PrmcalError, RunError
from prmcal.harness.execution.ending import Failure
from prmcal.harness.execution.recorder import JOB_TABLES
from prmcal.harness.jobs.job import JobLabels, shard_key
from prmcal.harness.merging.tables import check_tables
from prmcal.harness.planning.plan import Plan, PlannedCell, PlannedPlugin, PlannedQuestions
from prmcal.harness.planning.saved import existing_plan
from prmcal.harness.storage.folder import RunFolder, RunRecord, one_problem
from prmcal.harness.storage.store import MANIFEST_FILE, ArtifactRef, Manifest, Store, content_key
from prmcal.registry.contracts.data import Level
from prmcal.registry.messages import reading, shown
from prmcal.registry.plugins import KINDS

_MEASURED = ("calibration_metrics", "strategy", "search_results", "league")
_NEEDED: Mapping[str, Sequence[str]] = {
    **{kind: tables for kind, tables in JOB_TABLES.items() if kind != "curves"},
    **dict.fromkeys(_MEASURED, ("results", "question_results", "replicates")),
}
"""Tables that each artifact has, by the kind of its job."""
ENVIRONMENT = {"prmcal_version": "", "packages": {}, "hardware": {}}
"""The parts of the environment of a run, with defaults for a record that lacks them."""
_LARGEST_JSON = 2**28
"""Bytes. The plan of the paper's grid has 20 million."""
_SUFFIXES = (".json", ".npy", ".npz", ".parquet", ".safetensors", ".skops")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}", re.ASCII)
ADVICE = "Nothing was merged. If the folder is yours, run its grid again: only what is damaged is computed."
_FAILURES = TypeAdapter(dict[str, Failure])


@dataclass(frozen=True, eq=False)
class Source:
    """The folder of a run that was checked."""

    folder: Path
    record: RunRecord
    plan: Plan
    manifests: Mapping[ArtifactRef, Manifest]
    """The manifests of the finished shards of the plan."""
    failures: Mapping[str, Failure]
    """The reasons why shards failed, by their keys."""


def read_source(directory: Path) -> Source:
    """Read the folder of a run, and check everything that a merge takes from it.

    Raises a PrmcalError if no grid was run in it, a run writes to it now, another version of prmcal wrote it, or
    something in it is damaged, altered or not from a run.
    """
    folder = RunFolder(directory)
    if folder.running():
        raise RunError(f"A run writes to {directory} now. Merge it when it has ended.")
    for name in (RECORD_FILE, PLAN_FILE, FAILURES_FILE):
        path = directory / name
        if path.is_symlink() or (path.is_file() and path.stat().st_size > _LARGEST_JSON):
            raise DataError(f"{path} is a link, or too large to be read. {ADVICE}")
    record = folder.record()
    # What a merge takes over does not come from the database. But an older one comes with an older plan.
    with suppress(MissingDatabaseError, DamagedDatabaseError), open_database(folder.published):
        pass
    with reading(f"{directory} cannot be merged", ADVICE), one_problem():
        _check_record(record)
        plan = existing_plan(folder)
        _check_plan(plan)
        path = directory / FAILURES_FILE
        failures = _FAILURES.validate_json(path.read_bytes(), strict=True) if path.exists() else {}
    manifests = _checked_artifacts(folder.store, plan)
    return Source(directory, record, plan, manifests, failures)


def _check_record(record: RunRecord) -> None:
    for run in (record, *record.sources):
        if not isinstance(run.grid.get("name"), str):
            raise ValueError(f"{RECORD_FILE} has a grid without a name")
        for name, value in run.environment.items():
            if name not in ENVIRONMENT or not isinstance(value, type(ENVIRONMENT[name])):
                raise ValueError(f"{RECORD_FILE} has an environment that no run has, with {shown(name)}")
        content_key([run.grid, run.environment])  # This fails for a number that is not finite.


@dataclass(frozen=True)
class _Parts:
    """The parts of a plan. The parts are checked again, because data from a file can have values of other types."""

    __pydantic_config__: ClassVar = {"arbitrary_types_allowed": True, "revalidate_instances": "always", "strict": True}
    cells: tuple[PlannedCell, ...]
    plugins: Mapping[str, tuple[PlannedPlugin[Any], ...]]
    datasets: list[PlannedQuestions]
    questions: list[tuple[str, str, str, Level | None, str | None, tuple[str, ...], tuple[tuple[str, str], ...]]]
    jobs: list[tuple[JobLabels, str, int]]


def _check_plan(plan: Plan) -> None:
    TypeAdapter(_Parts).validate_python(
        _Parts(
            plan.cells,
            plan.plugins,
            [replace(data, questions=()) for data in plan.datasets],
            [astuple(question) for data in plan.datasets for question in data.questions],
            [(job.labels, job.shards[0].resource, job.shards[0].version) for job in plan.jobs],
        )
    )
    for shard in plan.shards():
        key = shard_key(shard.parameters.kind, shard.version, shard.identity, shard.inputs)
        if shard.ref != ArtifactRef(shard.parameters.kind, key):
            raise ValueError(f"{PLAN_FILE} has the key {shown(shard.ref.key)}, which is not the hash of its inputs")
    for cell in plan.cells:
        if cell.labels != cell.job.labels or not cell.labels.llm or not cell.labels.dataset:
            raise ValueError(f"{PLAN_FILE} has the cell {shown(cell.cell_id)}, which no grid plans")
    names = [f"cell {cell.cell_id}" for cell in plan.cells]
    names += [f"data set {data.name}/{data.split}" for data in plan.datasets]
    names += [f"{kind} {plugin.name}" for kind, plugins in plan.plugins.items() for plugin in plugins]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"{PLAN_FILE} has the {twice[0]} twice")
    if plan.plugins.keys() - KINDS.keys():
        raise ValueError(f"{PLAN_FILE} has plugins of an unknown kind")


def _checked_artifacts(store: Store, plan: Plan) -> dict[ArtifactRef, Manifest]:
    """Return the manifests of the artifacts of a plan that are there.

    Raises a DataError if an artifact differs from its manifest, or has files that no run writes.
    """
    refs = [shard.ref for shard in plan.shards() if store.folder(shard.ref).exists()]
    with ThreadPoolExecutor() as pool:
        names = dict(zip(refs, pool.map(lambda ref: list(_names_in(store.folder(ref))), refs), strict=True))
    manifests = store.manifests(refs)
    for ref in refs:
        manifest, needed_tables = manifests.get(ref), {f"{table}.parquet" for table in _NEEDED.get(ref.kind, ())}
        if manifest is None or {*manifest.files, MANIFEST_FILE} != set(names[ref]):
            raise DataError(f"The artifact {store.folder(ref)} does not have the files of its manifest. {ADVICE}")
        if not needed_tables <= manifest.files.keys():
            raise DataError(f"The artifact {store.folder(ref)} lacks a table. {ADVICE}")
    tables = [store.folder(ref) / name for ref in refs for name in names[ref] if name.endswith(".parquet")]
    try:
        check_tables(tables)
    except PrmcalError as error:
        raise DataError(f"{store.directory}: {error} {ADVICE}") from error
    return manifests


def _names_in(folder: Path) -> Iterator[str]:
    """Yield the paths of the files in the folder of an artifact, relative to it.

    Raises a DataError for a link, a device, an odd name, or a file that no run writes.
    """
    if folder.is_symlink() or folder.parent.is_symlink():
        raise DataError(f"{folder} is a link, which no run writes. {ADVICE}")
    for path in folder.rglob("*"):
        mode = path.lstat().st_mode
        inside = path.relative_to(folder)
        if not all(map(_NAME.fullmatch, inside.parts)) or not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
            raise DataError(f"{folder} has {shown(inside.as_posix())}, which no run writes. {ADVICE}")
        if stat.S_ISREG(mode):
            json_too_large = path.suffix == ".json" and path.stat().st_size > _LARGEST_JSON
            if path.suffix not in _SUFFIXES or json_too_large:
                raise DataError(f"{path} is of a kind or a size that no run writes. {ADVICE}")
            yield inside.as_posix()
