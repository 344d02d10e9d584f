"""From the folder of a run to a bundle."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from prmcal import __version__
from prmcal.db.run_folder import FAILURES_FILE, PLAN_FILE, RECORD_FILE, artifact_folder
from prmcal.errors import RunError
from prmcal.harness.bundles.archive import write_archive
from prmcal.harness.bundles.choosing import (
    chosen_cells,
    grid_of,
    part_for,
    plan_with_identities,
    unfinished_cells,
)
from prmcal.harness.bundles.contents import Wanted, described, intact_manifests, kept_of
from prmcal.harness.bundles.format import SIGNATURE_FILE, SUBMISSION_FILE, About, BundledFile, Submission
from prmcal.harness.bundles.privacy import Machine, check_file, check_plan, check_values, public_environment
from prmcal.harness.bundles.signatures import sign
from prmcal.harness.execution.failures import Failure, read_failures, write_failures
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.saved import write_plan
from prmcal.harness.storage.folder import RunFolder, RunRecord
from prmcal.harness.storage.store import Store, replacing, storage_errors

__all__ = ["Bundled", "bundled", "write_bundle"]


@dataclass(frozen=True)
class Bundled:
    """What a bundle contains.

    Attributes
    ----------
    submission : Submission
    cells, failed : int
        The number of its cells, and of those among them that failed.
    entries : dict of str to Path or bytes
        All files of the bundle.
    """

    submission: Submission
    cells: int
    failed: int
    entries: dict[str, Path | bytes]


def write_bundle(
    directory: Path,
    cells: Collection[str] | None,
    out: Path,
    about: About,
    texts: bool = False,
    models: bool = False,
    key: Path | None = None,
    with_paths: bool = False,
) -> Bundled:
    """Write cells of a run and all that is behind them into one file. Equal arguments give equal bytes.

    Parameters
    ----------
    directory : Path
        The output folder of a run.
    cells : collection of str or None
        The ids of the cells; None for all finished ones.
    out : Path
        The bundle. If it exists, it must be a file, which is replaced.
    about : About
    texts : bool
        Whether to include the texts of questions, trajectories and searches, and the reference answers.
    models : bool
        Whether to include the fits that change the PRM.
    key : Path, optional
        The SSH key that signs the bundle.
    with_paths : bool
        Whether arguments of plugins may tell of this machine, such as the path of a model.

    Raises
    ------
    RunError
        If the folder has no run of this version, is in use by a run, has a damaged artifact, or lacks artifacts of the
        cells.
    BundleError
        If the bundle would tell of this machine, or the key cannot sign it.
    StorageError
        If `out` is a folder or a device, or the disk is full or not writable.
    """
    made = bundled(directory, cells, about, texts, models, with_paths)
    if key is not None:
        signature, signer = sign(made.submission.to_bytes(), key)
        made = replace(
            made,
            submission=replace(made.submission, signed_by=signer.fingerprint),
            entries={**made.entries, SIGNATURE_FILE: signature},
        )
    with storage_errors(out.parent):
        out.parent.mkdir(parents=True, exist_ok=True)
    with replacing(out) as temporary, temporary.open("wb") as file:
        write_archive(made.entries, file)
    return made


def bundled(
    directory: Path,
    cells: Collection[str] | None,
    about: About,
    texts: bool = False,
    models: bool = False,
    with_paths: bool = True,
) -> Bundled:
    """Return what a bundle of a run's cells contains. See :func:`write_bundle`.

    Without `with_paths`, arguments that tell of this machine are refused. This is for what leaves the machine.
    """
    folder, store = RunFolder(directory), Store(directory)
    record = folder.record()
    if folder.running():
        raise RunError(f"A run writes to {directory} now. Submit it when it has ended.")
    plan = plan_with_identities(directory, record)
    failures = read_failures(directory)
    manifests = intact_manifests(store, (shard.ref for shard in plan.shards()))
    part = part_for(plan, chosen_cells(plan, cells, manifests, failures))
    machine = Machine.this()
    if not with_paths:
        check_plan(part, machine)

    entries, files = _run_files(record, part, failures, machine, texts)
    if not with_paths:
        for name in (RECORD_FILE, PLAN_FILE):
            check_values(name, json.loads(entries[name]), machine)
    content: dict[str, Path | bytes] = dict(entries)
    left_out: dict[str, BundledFile] = {}
    shards = [shard for shard in part.shards() if shard.ref in manifests]
    with ThreadPoolExecutor() as pool:
        found = list(
            pool.map(lambda shard: kept_of(store, shard, manifests[shard.ref], Wanted(texts, models)), shards)
        )
    for shard, kept in zip(shards, found, strict=True):
        place = artifact_folder(Path(), shard.ref.kind, shard.ref.key).as_posix()
        for name, each in kept.entries.items():
            if isinstance(each, Path) and not with_paths:
                check_file(f"{place}/{name}", each, machine)
            content[f"{place}/{name}"] = each
        files |= {f"{place}/{name}": each for name, each in kept.files.items()}
        left_out |= {f"{place}/{name}": each for name, each in kept.left_out.items()}
    submission = Submission.of(about, files, left_out, texts, models, __version__)
    failed = len(unfinished_cells(part, manifests))
    return Bundled(submission, len(part.cells), failed, {**content, SUBMISSION_FILE: submission.to_bytes()})


def _run_files(
    record: RunRecord, part: Plan, failures: Mapping[str, Failure], machine: Machine, texts: bool
) -> tuple[dict[str, bytes], dict[str, BundledFile]]:
    """Return the record, the plan and the failures as a bundle has them, and what it says of these files."""
    public = RunRecord(
        grid=grid_of(record.grid, part),
        plugin_files=[],
        run_id=record.run_id,
        started_at=record.started_at,
        workers=record.workers,
        environment=public_environment(record.environment, machine),
        finished_at=record.finished_at,
    )
    own = {shard.ref.key for shard in part.shards()}
    cleaned = {
        key: replace(failure, reason=machine.cleaned(failure.reason))
        for key, failure in failures.items()
        if key in own
    }
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        RunFolder(folder).write_record(public)
        write_plan(folder, public.grid, part, part.model_seconds or {}, texts)
        write_failures(folder, cleaned)
        entries = {name: (folder / name).read_bytes() for name in (RECORD_FILE, PLAN_FILE, FAILURES_FILE)}
    return entries, {name: described(content) for name, content in entries.items()}
