"""Merge the folders of runs into one, which is then like the folder of a run.

If the process is killed at any moment, the folder is the old one or the new one. All runs are checked before a byte is
written. A folder beside the merged one gets links to their artifacts, one plan and one record. Its database is built
from the artifacts, and this checks the columns of their tables. Then it replaces the old folder.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from prmcal.db import run_folder
from prmcal.errors import DataError, LoadError, RunError
from prmcal.harness.execution.ending import write_failures
from prmcal.harness.execution.run import rebuild_database
from prmcal.harness.merging.checks import ADVICE, ENVIRONMENT, read_source
from prmcal.harness.merging.union import Union, union_of
from prmcal.harness.planning.saved import write_plan
from prmcal.harness.storage.folder import RunFolder, RunRecord
from prmcal.harness.storage.store import MANIFEST_FILE, Store, content_key, link_or_copy, storage_errors
from prmcal.harness.storage.written import fresh_folder, replace_folder
from prmcal.registry.messages import reading


def merge(folders: Sequence[Path], out: Path) -> Union:
    """Merge the folders of runs into `out`: a new or an empty folder, or the folder of a run. It counts as first.

    Raises a PrmcalError if `out` is something else, a run is in progress, or a folder is damaged, altered, from another
    version or does not fit the others. Raises a StorageError if the disk is full or not writable. Nothing is changed
    then. The same command continues a merge that was killed.
    """
    target = out.resolve()
    extends = (target / run_folder.RECORD_FILE).exists()
    if target.exists() and not extends and not (target.is_dir() and not any(target.iterdir())):
        raise RunError(f"{out} holds files that are not from a run. Choose a new or an empty --out folder.")
    unique = {folder.resolve(): folder for folder in ([out] if extends else []) + list(folders)}
    sources = list(map(read_source, unique.values()))
    with reading("The runs cannot be merged", ADVICE):
        union = union_of(sources)
    with storage_errors(out), fresh_folder(target) as fresh:
        _fill(fresh, union)
        if extends:
            with RunFolder(target).lock():
                _take_over(target, fresh)
                replace_folder(fresh, target)
        else:
            replace_folder(fresh, target)
    return union


def _fill(folder: Path, union: Union) -> None:
    store = Store(folder)
    for ref, source in union.holders.items():
        artifact, copy = Store(source.folder).folder(ref), store.folder(ref)
        for name in (*source.manifests[ref].files, MANIFEST_FILE):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            link_or_copy(artifact / name, copy / name)
    record = _record(union)
    write_plan(folder, record.grid, union.plan)
    RunFolder(folder).write_record(record)
    write_failures(folder, union.failures)
    try:
        with reading("The runs cannot be merged", ADVICE):
            rebuild_database(folder)
    except LoadError as error:  # A table has other columns than those of a run.
        raise DataError(f"The runs cannot be merged: {error} {ADVICE}") from error


def _record(union: Union) -> RunRecord:
    """Return the record of a merged folder. The record of equal grids has their grid, so that a run can continue it.

    Plugin files are not named: they would be executed, and may come from a stranger.
    """
    records = {
        run.run_id: replace(run, plugin_files=[], sources=[], environment={**ENVIRONMENT, **run.environment})
        for source in union.sources
        for run in (*source.record.sources, source.record)
    }
    grids = [grid for source in union.sources for grid in source.record.grid.get("grids", [source.record.grid])]
    unique = list({content_key(grid): grid for grid in grids}.values())
    # No grid can have this name, because it contains a space. So no run can claim the folder.
    names = " and ".join(dict.fromkeys(grid["name"] for grid in unique))
    end = max(run.finished_at or run.started_at for run in records.values())
    grid = unique[0] if len(unique) == 1 else {"name": f"merge of {names}", "grids": unique}
    run_id, sources = content_key(list(records))[:12], list(records.values())
    return RunRecord(grid, plugin_files=[], run_id=run_id, started_at=end, finished_at=end, sources=sources)


def _take_over(old: Path, new: Path) -> None:
    """Link all other files of a folder, such as its log, into the folder that replaces it."""
    written = {run_folder.LOCK_FILE, run_folder.RECORD_FILE, run_folder.PLAN_FILE, run_folder.FAILURES_FILE}
    written |= {run_folder.database_path(old).name, run_folder.published_path(old).name}
    for path in old.rglob("*"):
        inside = path.relative_to(old)
        if path.is_file() and inside.parts[0] not in written and not (new / inside).exists():
            (new / inside).parent.mkdir(parents=True, exist_ok=True)
            link_or_copy(path, new / inside)
