"""From the folder of a run to a bundle: which cells, the part of the plan that they need, and what stays out.

Hidden states always stay out, because no metric reads them. The texts of trajectories and searches, and the fits that
change the PRM, stay out unless they are asked for. The manifest of an artifact lists what the bundle has of it.
"""

import json
import tempfile
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from prmcal import __version__
from prmcal.db.run_folder import FAILURES_FILE, PLAN_FILE, RECORD_FILE, artifact_folder
from prmcal.errors import RunError
from prmcal.harness.execution.ending import Failure, failed_cells, read_failures, write_failures
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import FitParameters, HiddenParameters, Parameters
from prmcal.harness.planning.plan import Cell, Plan, with_inputs
from prmcal.harness.planning.saved import existing_plan, write_plan
from prmcal.harness.share import bundle, checks
from prmcal.harness.share.tables import HASHES, TEXT, digest_of, file_digest, text_hashes
from prmcal.harness.storage.folder import RunFolder, RunRecord
from prmcal.harness.storage.store import (
    MANIFEST_FILE,
    ArtifactRef,
    Manifest,
    Store,
    file_sha256,
    replacing,
    storage_errors,
)

if TYPE_CHECKING:
    import pyarrow as pa


_SECTIONS = {name: f"{name}s" for name in ("llm", "prm", "calibrator", "dataset")} | {
    "strategy": "strategies"
}
_HASHED = "trajectories.parquet"
_WITH_TEXT = (_HASHED, "searches.parquet")
_PARQUET = ".parquet"
_Entry = tuple[Path | bytes, bundle.BundledFile]
"""A file of a bundle, and what the bundle says of it."""


@dataclass(frozen=True)
class Bundled:
    """The contents of a bundle."""

    submission: bundle.Submission
    cells: int
    failed: int
    """The number of its cells, and of those among them that failed."""
    entries: dict[str, Path | bytes]
    """All files of the bundle."""


def write_bundle(
    directory: Path,
    cells: Collection[str] | None,
    out: Path,
    about: bundle.About,
    texts: bool = False,
    models: bool = False,
    key: Path | None = None,
    with_paths: bool = False,
) -> Bundled:
    """Write cells of a run and all that is behind them into one file. Equal arguments give equal bytes.

    `cells` has the ids of the cells; None is for all finished ones. If `out` exists, it must be a file, which is
    replaced. `texts` includes the texts of questions, trajectories and searches, and the reference answers, and
    `models` the fits that change the PRM. An SSH key signs the bundle. With `with_paths`, arguments of plugins may tell
    of this machine, such as the path of a model.

    Raises a RunError if the folder has no run, is in use by a run, has a damaged artifact, or lacks artifacts of the
    cells. Raises a BundleError if the bundle would tell of this machine, or the key cannot sign it. Raises a
    StorageError if `out` is a folder or a device, or the disk is full or not writable.
    """
    made = bundled(directory, cells, about, texts, models, with_paths)
    if key is not None:
        content = made.submission.to_bytes()
        signature = bundle.sign(content, key)
        signed_by = bundle.signer_of(content, signature, "the new bundle")
        made.entries[bundle.SIGNATURE_FILE] = signature
        made = replace(made, submission=replace(made.submission, signed_by=signed_by))
    with storage_errors(out.parent):
        out.parent.mkdir(parents=True, exist_ok=True)
    with replacing(out) as temporary, temporary.open("wb") as file:
        bundle.write_archive(made.entries, file)
    return made


def bundled(
    directory: Path,
    cells: Collection[str] | None,
    about: bundle.About,
    texts: bool = False,
    models: bool = False,
    with_paths: bool = True,
    unfinished: bool = False,
) -> Bundled:
    """Return what a bundle of a run's cells contains. See :func:`write_bundle`.

    Without `with_paths`, arguments that tell of this machine are refused. This is for what leaves the machine. With
    `unfinished`, cells that failed are in it even if no cells are chosen.
    """
    folder, store = RunFolder(directory), Store(directory)
    record = folder.record()
    if folder.running():
        raise RunError(f"A run writes to {directory} now. Submit it when it has ended.")
    plan = existing_plan(folder)
    failures = read_failures(directory)
    shards = [shard.ref for shard in plan.shards()]
    manifests = store.manifests(shards, verify=False)
    for ref in shards:
        if ref not in manifests and store.folder(ref).exists():
            raise _damaged(store.folder(ref))
    part = _part_for(plan, _chosen_cells(plan, cells, manifests, failures, unfinished))
    machine = checks.Machine.this()
    kept = _run_files(record, part, failures, machine, texts)
    if not with_paths:
        for name in (RECORD_FILE, PLAN_FILE):
            checks.check_values(name, json.loads(bytes(kept[name][0])), machine)
    present = [shard for shard in part.shards() if shard.ref in manifests]
    with ThreadPoolExecutor() as pool:
        found = pool.map(lambda shard: _kept_of(store, shard, manifests[shard.ref], texts, models), present)
    for shard, own in zip(present, found, strict=True):
        place = artifact_folder(Path(), shard.ref.kind, shard.ref.key).as_posix()
        for name, (content, about_it) in own.items():
            if isinstance(content, Path) and not with_paths:
                checks.check_file(f"{place}/{name}", content, machine)
            kept[f"{place}/{name}"] = content, about_it
    files = {name: each for name, (_, each) in kept.items()}
    submission = bundle.Submission(
        **asdict(about), files=files, texts=texts, models=models, prmcal_version=__version__
    )
    failed = sum(any(ref not in manifests for ref in cell.job.refs) for cell in part.cells)
    entries = {name: content for name, (content, _) in kept.items()}
    entries[bundle.SUBMISSION_FILE] = submission.to_bytes()
    return Bundled(submission, len(part.cells), failed, entries)


def _chosen_cells(
    plan: Plan,
    ids: Collection[str] | None,
    finished: Collection[ArtifactRef],
    failures: Mapping[str, Failure],
    unfinished: bool,
) -> list[Cell]:
    """Return the cells with these ids in the order of the plan; all finished cells for None."""
    done = {cell.cell_id for cell in plan.cells if all(ref in finished for ref in cell.job.refs)}
    failed = failed_cells(plan, failures).keys()
    chosen = ids if ids is not None else done | failed if unfinished else done
    found = [cell for cell in plan.cells if cell.cell_id in chosen]
    waiting = [cell.cell_id for cell in found if cell.cell_id not in done | failed]
    if waiting:
        raise RunError(
            f"Some chosen cells are not finished, such as {waiting[0]}. Run the grid to its end, or choose other cells."
        )
    if not found:
        raise RunError("No cell of the run is finished. `prmcal status DIR` says what is missing.")
    for job in with_inputs(cell.job for cell in found if cell.cell_id in done):
        absent = next((ref for ref in job.refs if ref not in finished), None)
        if absent is not None and job.kind != HiddenParameters.kind:  # They are never submitted.
            raise RunError(
                f"The artifact {absent.kind}/{absent.key} behind a chosen cell is absent. Run the grid again with the "
                "same --out folder: only what is missing is computed."
            )
    return found


def _part_for(plan: Plan, cells: Collection[Cell]) -> Plan:
    """Return the part of a plan that computes some cells, with the plugins and the data sets of this part only."""
    part = plan.part(cells)
    labels = [job.labels for job in part.jobs]
    used = {
        kind: {getattr(each, kind) for each in labels} for kind in ("llm", "prm", "calibrator", "dataset")
    }
    used["strategy"] = {cell.strategy for cell in cells}
    plugins = {
        kind: tuple(each for each in found if kind not in used or each.name in used[kind])
        for kind, found in part.plugins.items()
    }
    splits = {(each.dataset, each.split) for each in labels}
    datasets = tuple(each for each in part.datasets if (each.name, each.split) in splits)
    return replace(part, plugins=plugins, datasets=datasets)


def _table_entry(table: "pa.Table") -> _Entry:
    """Return a table that is written now, without compression, so that its bytes depend on few libraries."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink, compression="none")
    content = sink.getvalue().to_pybytes()
    return content, bundle.described(content, digest_of(table))


def _run_files(
    record: RunRecord, part: Plan, failures: Mapping[str, Failure], machine: checks.Machine, texts: bool
) -> dict[str, _Entry]:
    """Return the record, the plan and the failures as a bundle has them."""
    grid = dict(record.grid)
    for kind, section in _SECTIONS.items():
        if section in grid:
            names = {each.name for each in part.plugins.get(kind, ())}
            grid[section] = [each for each in grid[section] if each["name"] in names]
    public = replace(
        record,
        grid=grid,
        plugin_files=[],
        log="",
        only={},
        retried=None,
        environment=checks.public_environment(record.environment, machine),
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
        write_plan(folder, public.grid, part, texts)
        write_failures(folder, cleaned)
        contents = {name: (folder / name).read_bytes() for name in (RECORD_FILE, PLAN_FILE, FAILURES_FILE)}
        return {name: (content, bundle.described(content)) for name, content in contents.items()}


def _kept_of(
    store: Store, shard: Shard[Parameters], manifest: Manifest, texts: bool, models: bool
) -> dict[str, _Entry]:
    """Return what a bundle keeps of an artifact.

    Raises a RunError if a file of the artifact does not match its hash, or lacks the texts of the run.
    """
    kept: dict[str, _Entry] = {}
    folder = store.folder(shard.ref)
    # Only calibrators that fine-tune the PRM read the trajectories.
    changes_prm = isinstance(shard.parameters, FitParameters) and "rollout" in shard.inputs
    nothing = isinstance(shard.parameters, HiddenParameters) or (changes_prm and not models)
    for name, (size, digest) in sorted(manifest.files.items()):
        path = folder / name
        if file_sha256(path) != digest:
            raise _damaged(folder)
        if nothing:
            continue
        table = _with_texts(path) if name in _WITH_TEXT else None
        if table is not None and name == _HASHED:
            kept[HASHES + _PARQUET] = _table_entry(text_hashes(table))
        if table is not None and not texts:
            kept[name] = _table_entry(table.drop_columns([TEXT]))
        else:
            of_table = file_digest(path) if path.suffix == _PARQUET else None
            kept[name] = path, bundle.BundledFile(size, digest, of_table)
    files = {name: (each.size, each.sha256) for name, (_, each) in kept.items()}
    text = json.dumps(asdict(replace(manifest, files=files)), sort_keys=True).encode()
    return {**kept, MANIFEST_FILE: (text, bundle.described(text))}


def _with_texts(path: Path) -> "pa.Table":
    import pyarrow.parquet as parquet

    table = parquet.read_table(path)
    if TEXT not in table.column_names:
        raise RunError(
            f"{path} has no texts, because it came with a bundle without them, and a new bundle needs their digests. "
            "Give others the bundle itself, or submit the folder of the run that measured it."
        )
    return table


def _damaged(folder: Path) -> RunError:
    return RunError(
        f"The artifact {folder} is damaged. Run the grid again with the same --out folder: `prmcal run` computes only "
        "this part again."
    )
