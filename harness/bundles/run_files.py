"""The check that the files of a bundle are those of a run: its record, its plan, and artifacts of this plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from prmcal.db.run_folder import FAILURES_FILE, PLAN_FILE, RECORD_FILE, artifact_folder
from prmcal.errors import BundleError, RunError
from prmcal.harness.bundles.format import BundledFile
from prmcal.harness.bundles.privacy import ENVIRONMENT
from prmcal.harness.execution.failures import Failure
from prmcal.harness.planning.columns import check_columns
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.saved import read_plan
from prmcal.harness.storage.folder import RunFolder, one_problem
from prmcal.harness.storage.store import MANIFEST_FILE, Manifest
from prmcal.registry.messages import reading, shown

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = ["LARGEST_JSON", "RUN_FILES", "check_run"]

LARGEST_JSON = 2**28
"""Bytes. The plan of the paper's grid has 20 million."""

RUN_FILES = (RECORD_FILE, PLAN_FILE, FAILURES_FILE)
"""The files of a run besides its artifacts."""
_NUMBERS = ("seconds", "size", "samples", "generated_tokens", "scored_tokens")
_LARGEST_NUMBER = 2**53
"""The largest number in a manifest. The database and statistics hold sums of a thousand such numbers."""
_ADVICE = "Ask the submitter for the bundle that `prmcal submit` wrote."
_SUFFIXES = (".json", ".parquet", ".safetensors")


def check_run(folder: Path, files: Mapping[str, BundledFile], where: str) -> None:
    """Check the files of a bundle, whose hashes are known to be right.

    Parameters
    ----------
    folder : Path
        Where they are.
    files : mapping of str to BundledFile
    where : str
        The bundle, for the messages.

    Raises
    ------
    BundleError
        If a file is missing, is not one of a run, or says something else than the others.
    """
    for name in RUN_FILES:
        if name not in files:
            raise BundleError(f"{where} lacks the file {name}.")
    for name, about in files.items():
        if not name.endswith(_SUFFIXES):
            raise BundleError(f"{where} has a file of a kind that no run writes: {name}.")
        if name.endswith(".json") and about.size > LARGEST_JSON:
            raise BundleError(f"{where}: {name} is too large to be read.")
    plan = _plan(folder, where)
    _check_failures(folder, where)
    known = {artifact_folder(folder, shard.ref.kind, shard.ref.key) for shard in plan.shards()}
    artifacts: dict[Path, dict[str, BundledFile]] = {}
    for name, about in files.items():
        if name in RUN_FILES:
            continue
        path = folder / name
        place = next((parent for parent in path.parents if parent in known), None)
        if place is None:
            raise BundleError(f"{where} has a file that its plan does not need: {name}.")
        artifacts.setdefault(place, {})[path.relative_to(place).as_posix()] = about
    for place, own in artifacts.items():
        _check_artifact(place, own, f"{where}: {place.relative_to(folder).as_posix()}")


def _check_failures(folder: Path, where: str) -> None:
    """Check that failures.json has a reason and a cause for each key."""
    from pydantic import TypeAdapter

    with reading(f"{where}: {FAILURES_FILE} cannot be read", _ADVICE, BundleError), one_problem():
        TypeAdapter(dict[str, Failure]).validate_json((folder / FAILURES_FILE).read_bytes(), strict=True)


def _plan(folder: Path, where: str) -> Plan:
    with _of_a_run(f"{where}: {RECORD_FILE} is damaged"):
        record = RunFolder(folder).record()
    if record.plugin_files or record.log:
        raise BundleError(f"{where} names files of its submitter's machine, which no bundle needs.")
    if not set(record.environment) <= set(ENVIRONMENT) or not isinstance(record.grid.get("name"), str):
        raise BundleError(f"{where} has a record that prmcal did not write.")
    with _of_a_run(f"{where}: {PLAN_FILE} is damaged"):
        plan = read_plan(folder, record.grid)
    if plan is None:
        raise BundleError(f"{where} has a plan of another grid than its record.")
    check_columns(plan, where, _ADVICE)
    return plan


@contextmanager
def _of_a_run(message: str) -> Iterator[None]:
    """Replace the message for the owner of a run, who can run the grid again."""
    with reading(message, _ADVICE, BundleError):
        try:
            yield
        except RunError as error:
            raise error.__cause__ or error from None


def _check_artifact(place: Path, files: Mapping[str, BundledFile], where: str) -> None:
    """Check that the manifest of an artifact has the files that are there."""
    if MANIFEST_FILE not in files:
        raise BundleError(f"{where} has no manifest.")
    with reading(f"The manifest of {where} cannot be read", _ADVICE, BundleError), one_problem():
        manifest = _manifests().validate_json((place / MANIFEST_FILE).read_bytes(), strict=True)
    for name in _NUMBERS:
        found = getattr(manifest, name)
        if not 0 <= found <= _LARGEST_NUMBER:  # A NaN is not in the range either.
            raise BundleError(
                f"The manifest of {where} has a wrong number: its '{name}' is {shown(found)}, and it must be from 0 to "
                f"{_LARGEST_NUMBER:,}. {_ADVICE}"
            )
    there = {name: (each.size, each.sha256) for name, each in files.items() if name != MANIFEST_FILE}
    if manifest.files != there:
        raise BundleError(f"The manifest of {where} does not have its files.")


@cache
def _manifests() -> TypeAdapter[Manifest]:
    """Return the reader of manifests. It is made once, because that takes longer than reading one."""
    from pydantic import TypeAdapter

    return TypeAdapter(Manifest)
