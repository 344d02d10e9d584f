"""The checks of everything that comes from elsewhere, before a byte of it is kept.

A bundle must have exactly the files of its list. Its record, its plan, its failures and its manifests have the types of
their fields. Its tables have the columns that a run writes, and the values of the list. What is unpacked has the layout
of a run's folder.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prmcal.db.metrics import Leaderboard
from prmcal.db.run_folder import FAILURES_FILE, PLAN_FILE, RECORD_FILE, artifact_folder, artifacts_root
from prmcal.errors import BundleError, RunError, StorageError
from prmcal.harness.execution.ending import Failure
from prmcal.harness.jobs.job import Labels, job_key
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.saved import read_plan
from prmcal.harness.share.bundle import (
    SIGNATURE_FILE,
    SUBMISSION_FILE,
    BundledFile,
    Submission,
    extract,
    read_submission,
    signer_of,
)
from prmcal.harness.share.privacy import ENVIRONMENT
from prmcal.harness.share.tables import checked_digests, needed_tables
from prmcal.harness.storage.folder import RunFolder, one_problem
from prmcal.harness.storage.store import MANIFEST_FILE, Manifest, file_sha256, storage_errors
from prmcal.registry.messages import reading, shown
from prmcal.registry.plugins import KINDS

if TYPE_CHECKING:
    from pydantic import TypeAdapter


_RUN_FILES = (RECORD_FILE, PLAN_FILE, FAILURES_FILE)
ABOUT_FILES = (SUBMISSION_FILE, SIGNATURE_FILE, *_RUN_FILES)
"""The files of an unpacked bundle besides its artifacts."""

_LARGEST_JSON, _LARGEST_SIGNATURE = 2**28, 2**16
"""Bytes. The plan of the paper's grid has 20 million, and the signature of the longest RSA key 4,000."""
_NUMBERS = ("seconds", "size", "samples", "generated_tokens", "scored_tokens")
_LARGEST_NUMBER = 2**53
"""The largest number in a manifest. The database and statistics hold sums of a thousand such numbers."""
_SUFFIXES = (".json", ".parquet", ".safetensors")
_ADVICE = "Ask the submitter for the bundle that `prmcal submit` wrote."


def unpack(bundle: Path, folder: Path, allowed_signers: Path | None = None) -> Submission:
    """Check a bundle and write its files into a folder, which then has the layout of a run's folder.

    Parameters
    ----------
    bundle : Path
    folder : Path
        It is new or empty.
    allowed_signers : Path, optional
        A file of allowed signers in the format of OpenSSH, which gives keys their names.

    Raises
    ------
    BundleError
        If the bundle is not exactly what was submitted, has something that no run writes, or its signature is not
        valid. The folder is as it was before then.
    StorageError
        If the folder holds files, or the disk is full or not writable.
    """
    if not bundle.is_file():
        raise BundleError(f"{bundle} is {'a folder' if bundle.is_dir() else 'no file'}. A bundle is a file.")
    target = folder.resolve()
    with storage_errors(folder):
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise StorageError(
                f"{folder} exists and is not an empty folder. Choose a new folder for the bundle."
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            submission = _checked(fresh, extract(bundle, fresh), str(bundle), allowed_signers)
            fresh.chmod(0o755)
            fresh.replace(target)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
    return submission


def check_unpacked(folder: Path, allowed_signers: Path | None = None) -> Submission:
    """Check a folder as the bundle that was unpacked into it.

    What is there besides the files of a run, such as a database, is not looked at.

    Parameters
    ----------
    folder : Path
    allowed_signers : Path, optional
        See :func:`unpack`.

    Raises
    ------
    BundleError
        If a file was altered, deleted or added, or what :func:`unpack` raises.
    """
    with reading(f"{folder} cannot be read", kind=BundleError):
        about = [folder / name for name in ABOUT_FILES]
        paths = [path for path in (*about, *artifacts_root(folder).rglob("*")) if path.is_file()]
        with ThreadPoolExecutor() as pool:
            hashes = list(pool.map(file_sha256, paths))
        found = {
            path.relative_to(folder).as_posix(): BundledFile(path.stat().st_size, sha256)
            for path, sha256 in zip(paths, hashes, strict=True)
        }
    return _checked(folder, found, str(folder), allowed_signers)


def submission_of(folder: Path, allowed_signers: Path | None = None) -> Submission | None:
    """Return what an unpacked bundle says of itself; None for the folder of a run.

    The signature is checked. The files are not compared with their hashes: see :func:`check_unpacked`.

    Raises
    ------
    BundleError
        If its submission.json is damaged, or the signature is not valid.
    """
    if not (folder / SUBMISSION_FILE).exists():
        return None
    return _submission(folder, str(folder), allowed_signers)


def check_run_files(folder: Path, where: str) -> Plan:
    """Check the record, the plan and the failures of a submission. Return the plan.

    Raises
    ------
    BundleError
        If one of them is damaged, has a value of another type, or tells of a machine.
    """
    from pydantic import TypeAdapter

    with _of_a_run(f"{where}: {RECORD_FILE} is damaged"):
        record = RunFolder(folder).record()
    if record.plugin_files or record.log:
        raise BundleError(f"{where} names files of its submitter's machine, which no bundle needs.")
    if not set(record.environment) <= set(ENVIRONMENT) or not isinstance(record.grid.get("name"), str):
        raise BundleError(f"{where} has a record that prmcal did not write.")
    with _of_a_run(f"{where}: {PLAN_FILE} is damaged"):
        plan = read_plan(folder, record.grid)
    _check_plan(plan, where)
    with reading(f"{where}: {FAILURES_FILE} cannot be read", _ADVICE, BundleError), one_problem():
        TypeAdapter(dict[str, Failure]).validate_json((folder / FAILURES_FILE).read_bytes(), strict=True)
    return plan


def check_manifest(content: bytes, kind: str, files: Mapping[str, tuple[int, str]], where: str) -> None:
    """Check the manifest of an artifact.

    Parameters
    ----------
    content : bytes
    kind : str
        The kind of job.
    files : mapping of str to (int, str)
        The sizes and hashes of the other files of the artifact by their names.
    where : str

    Raises
    ------
    BundleError
        If it has a value of another type or a wrong number, other files, or lacks a table.
    """
    with reading(f"The manifest of {where} cannot be read", _ADVICE, BundleError), one_problem():
        manifest = _manifests().validate_json(content, strict=True)
    for name in _NUMBERS:
        found = getattr(manifest, name)
        if not 0 <= found <= _LARGEST_NUMBER:  # A NaN is not in the range either.
            raise BundleError(
                f"The manifest of {where} has a wrong number: its '{name}' is {shown(found)}, and it must be from 0 to "
                f"{_LARGEST_NUMBER:,}. {_ADVICE}"
            )
    if manifest.files != files:
        raise BundleError(f"The manifest of {where} does not have its files.")
    for table in needed_tables(kind):
        if f"{table}.parquet" not in files:
            raise BundleError(f"{where} lacks the table {table}. {_ADVICE}")


def _checked(
    folder: Path, found: Mapping[str, BundledFile], where: str, allowed_signers: Path | None
) -> Submission:
    for name, most in ((SUBMISSION_FILE, _LARGEST_JSON), (SIGNATURE_FILE, _LARGEST_SIGNATURE)):
        if name in found and found[name].size > most:
            raise BundleError(f"{where}: {name} is too large to be read.")
    if SUBMISSION_FILE not in found:
        raise BundleError(f"{where} is not a bundle: it has no {SUBMISSION_FILE}.")
    submission = _submission(folder, where, allowed_signers)
    _check_files(submission.files, found, where)
    _check_run(folder, submission.files, where)
    tables = [name for name in submission.files if name.endswith(".parquet")]
    digests = checked_digests([folder / name for name in tables], where)
    for name, digest in zip(tables, digests, strict=True):
        if digest != submission.files[name].table:
            raise BundleError(f"{where}: {name} does not have the rows and values that its list says.")
    return submission


def _submission(folder: Path, where: str, allowed_signers: Path | None) -> Submission:
    signature = folder / SIGNATURE_FILE
    with reading(f"{SUBMISSION_FILE} of {where} cannot be read", kind=BundleError):
        content = (folder / SUBMISSION_FILE).read_bytes()
    found = read_submission(content, where)
    if not signature.exists():
        return found
    signer = signer_of(content, signature, where, allowed_signers)
    return replace(found, signed_by=signer.fingerprint, signer=signer.name)


def _check_files(listed: Mapping[str, BundledFile], found: Mapping[str, BundledFile], where: str) -> None:
    """Check that the bundle has the files of its list, and no others."""
    for name in sorted(set(listed) ^ (set(found) - {SUBMISSION_FILE, SIGNATURE_FILE})):
        problem = "lacks a file that its list has" if name in listed else "has a file that its list lacks"
        raise BundleError(f"{where} {problem}: {name}.")
    for name, about in listed.items():
        if replace(about, table=None) != found[name]:
            raise BundleError(f"{where}: {name} has other bytes than its list says.")


def _check_run(folder: Path, files: Mapping[str, BundledFile], where: str) -> None:
    """Check that the files, whose hashes are known to be right, are those of a run."""
    for name in _RUN_FILES:
        if name not in files:
            raise BundleError(f"{where} lacks the file {name}.")
    for name, about in files.items():
        if not name.endswith(_SUFFIXES):
            raise BundleError(f"{where} has a file of a kind that no run writes: {name}.")
        if name.endswith(".json") and about.size > _LARGEST_JSON:
            raise BundleError(f"{where}: {name} is too large to be read.")
    plan = check_run_files(folder, where)
    known = {artifact_folder(folder, shard.ref.kind, shard.ref.key) for shard in plan.shards()}
    artifacts: dict[Path, dict[str, tuple[int, str]]] = {}
    for name, about in files.items():
        if name not in _RUN_FILES:
            path = folder / name
            place = next((parent for parent in path.parents if parent in known), None)
            if place is None:
                raise BundleError(f"{where} has a file that its plan does not need: {name}.")
            artifacts.setdefault(place, {})[path.relative_to(place).as_posix()] = about.size, about.sha256
    for place, own in artifacts.items():
        if own.pop(MANIFEST_FILE, None) is None:
            raise BundleError(f"{where}: {place.relative_to(folder).as_posix()} has no manifest.")
        content = (place / MANIFEST_FILE).read_bytes()
        check_manifest(content, place.parent.name, own, f"{where}: {place.relative_to(folder).as_posix()}")


def _check_plan(plan: Plan, where: str) -> None:
    """Check that the names and numbers of a plan, which become columns, have their types and ranges."""
    from pydantic import TypeAdapter

    from prmcal.harness.planning.grid import Name, StrategyName

    with reading(f"{where}: {PLAN_FILE} is damaged", _ADVICE, BundleError), one_problem():
        labels = [*(job.labels for job in plan.jobs), *(cell.labels for cell in plan.cells)]
        names = {
            name for each in labels for name in (each.llm, each.prm, each.calibrator, each.dataset) if name
        }
        plugins = [(kind, each.data()) for kind, found in plan.plugins.items() for each in found]
        given: tuple[tuple[Any, list[Any]], ...] = (
            (Labels, [asdict(job.labels) for job in plan.jobs]),
            (
                tuple[Leaderboard, str, float | None, float | None],
                [(cell.leaderboard, cell.strategy, cell.target, cell.level) for cell in plan.cells],
            ),
            (
                tuple[str, str, str, dict[str, Any], dict[str, Any], str],
                [
                    (kind, *each["reference"].values(), each["identity"], each["citation"])
                    for kind, each in plugins
                ],
            ),
            (
                tuple[str, str, str, str],
                [(each.name, each.split, each.content_hash, each.grader_version) for each in plan.datasets],
            ),
            (
                tuple[str, str | None, str | None, int | None, str | None],
                [
                    (each.id, each.text, each.answer, each.level, each.subject)
                    for data in plan.datasets
                    for each in data.questions
                ],
            ),
            (Name, sorted(names)),
            (StrategyName, sorted({cell.strategy for cell in plan.cells if cell.strategy})),
        )
        for kind, values in given:
            TypeAdapter(list[kind]).validate_json(json.dumps(values), strict=True)  # type: ignore[valid-type]
        _check_once("cell", [cell.cell_id for cell in plan.cells])
        _check_once("plugin", [f"{kind} {each['reference']['name']}" for kind, each in plugins])
        _check_once("data set", [f"{each.name}/{each.split}" for each in plan.datasets])
        if not plan.plugins.keys() <= KINDS.keys():
            raise ValueError(
                f"it has plugins of an unknown kind, {shown(min(plan.plugins.keys() - KINDS.keys()))}"
            )
        for job in plan.jobs:
            if job.key != job_key(job.refs):
                raise ValueError(f"it has a job, {shown(job.key)}, whose key is not that of its shards")
        for cell in plan.cells:
            if not cell.labels.llm or not cell.labels.dataset or cell.conditions or cell.variant:
                raise ValueError("it has a cell without an LLM or a data set, or one of a merged leaderboard")
            for name, value in (("target", cell.target), ("level", cell.level)):
                if value is not None and not 0 < value < 1:  # A NaN is not in the range either.
                    raise ValueError(f"it has a cell with the {name} {value}, which is not between 0 and 1")


@contextmanager
def _of_a_run(message: str) -> Iterator[None]:
    """Replace the message for the owner of a run, who can run the grid again."""
    with reading(message, _ADVICE, BundleError):
        try:
            yield
        except RunError as error:
            raise error.__cause__ or error from None


def _check_once(what: str, names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"it has the {what} {shown(name)} twice")
        seen.add(name)


@cache
def _manifests() -> TypeAdapter[Manifest]:
    """Return the reader of manifests. It is made once, because that takes longer than reading one."""
    from pydantic import TypeAdapter

    return TypeAdapter(Manifest)
