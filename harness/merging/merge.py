"""Merge submissions into one leaderboard, so that it is as before or complete whenever the merge is killed.

Nothing is written before all inputs were read and checked. Then the artifacts are added, which nobody reads yet; then
the submissions, each as a whole; and at last the plan and the database, which are replaced in one step each. A merge
that was killed is continued by the same command, and each step leaves alone what is there already.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import sqlalchemy as sa

from prmcal.db.reader import reading
from prmcal.db.run_folder import LOCK_FILE, published_path
from prmcal.db.tables import Submission, Verification
from prmcal.errors import DatabaseError, RunError
from prmcal.harness.bundles.format import SIGNATURE_FILE
from prmcal.harness.bundles.unpacking import ABOUT_FILES
from prmcal.harness.merging.artifacts import add_artifact, recover
from prmcal.harness.merging.conflicts import Conflict, conflicts_in
from prmcal.harness.merging.recording import write_leaderboard
from prmcal.harness.merging.submissions.folder import (
    incoming,
    is_merged,
    submissions_root,
    verifications_root,
)
from prmcal.harness.merging.submissions.inputs import merged_submissions, read_inputs
from prmcal.harness.merging.submissions.submitted import Submitted
from prmcal.harness.merging.submissions.verifications import Recorded, read_recorded
from prmcal.harness.merging.union import Union, union_of
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import Store, storage_errors, write_atomically

__all__ = ["MergeSummary", "merge", "rebuild_merged"]


@dataclass(frozen=True)
class MergeSummary:
    """What a merge did.

    Attributes
    ----------
    added, known : tuple of Submitted
        The submissions that are new, and those of the inputs that were merged before.
    verifications : int
        The records of verifications that are new.
    union : Union
        The leaderboard.
    new_cells, same_cells : int
        The finished cells of the added submissions that the leaderboard did not have, and those that it had, or that
        several of them have with equal results.
    artifacts, same_artifacts : int
        The artifacts that were added or completed, and those that were there.
    missing : dict of str to int
        How many artifacts the folder lacks of each submission, by its id. Merging that submission again supplies them.
    conflicts : tuple of Conflict
    seconds : float
    """

    added: tuple[Submitted, ...]
    known: tuple[Submitted, ...]
    verifications: int
    union: Union
    new_cells: int
    same_cells: int
    artifacts: int
    same_artifacts: int
    missing: dict[str, int]
    conflicts: tuple[Conflict, ...]
    seconds: float


def merge(out: Path, inputs: Sequence[Path]) -> MergeSummary:
    """Merge runs, bundles, unpacked or not, merged leaderboards and verifications into a leaderboard.

    Parameters
    ----------
    out : Path
        A new or an empty folder, or a merged leaderboard, which is extended.
    inputs : sequence of Path

    Raises
    ------
    PrmcalError
        If `out` is something else, is locked or was written by a newer version of prmcal, or an input is damaged or
        altered. Nothing was merged then.
    StorageError
        If the disk is full. The leaderboard is as before then, and the same command continues.
    """
    begin = time.monotonic()
    _check_out(out)
    new = not out.exists()
    with RunFolder(out).lock():
        try:
            summary = _merge(out, inputs, begin)
        finally:
            shutil.rmtree(incoming(out), ignore_errors=True)
            if not is_merged(out):  # Nothing was merged.
                (out / LOCK_FILE).unlink(missing_ok=True)
                if new:
                    with suppress(OSError):
                        out.rmdir()
    return summary


def rebuild_merged(directory: Path) -> int:
    """Write the database of a merged leaderboard again from its submissions. Return the number of cells.

    Raises
    ------
    BundleError
        If a submission in the folder is damaged.
    DatabaseVersionError
        If a newer version of prmcal wrote the database. It stays then.
    StorageError
        If the database cannot be written.
    """
    with RunFolder(directory).lock():
        RunFolder(directory).refuse_newer()
        with storage_errors(directory):
            recover(directory)
        union = union_of(merged_submissions(directory))
        if not union.submissions:
            raise RunError(
                f"{directory} has no submission. Merge one: prmcal merge {directory} DIR_OR_BUNDLE"
            )
        try:
            write_leaderboard(directory, union, _recorded(directory), verify=True)
        finally:
            shutil.rmtree(incoming(directory), ignore_errors=True)
    return len(union.plan.cells)


def _check_out(out: Path) -> None:
    if not out.is_dir() or is_merged(out):
        return
    if any(path.name not in (LOCK_FILE, incoming(out).name, "artifacts") for path in out.iterdir()):
        raise RunError(
            f"{out} holds files that are not from a merged leaderboard. Nothing was changed. Choose a new or an empty "
            "folder for the merged leaderboard."
        )


def _merge(out: Path, inputs: Sequence[Path], begin: float) -> MergeSummary:
    RunFolder(out).refuse_newer()
    with storage_errors(out):
        recover(out)
        shutil.rmtree(incoming(out), ignore_errors=True)
        incoming(out).mkdir()
    own = {each.submission_id: each for each in merged_submissions(out)}
    given = read_inputs(inputs, out)
    recorded = [read_recorded(path) for path in given.verifications]
    came = _by_id(given.submissions)
    added = {name: each for name, each in came.items() if name not in own}
    again = {name: each for name, each in came.items() if name in own}
    signed = {name: each for name, each in again.items() if _signature(each) < _signature(own[name])}
    own |= {name: replace(own[name], submission=each.submission) for name, each in signed.items()}
    union = union_of([*own.values(), *added.values()])
    if not union.submissions:
        raise RunError("There is no submission to merge: a verification alone makes no leaderboard.")
    store = Store(out)
    with storage_errors(out):
        counts = _add_artifacts(store, union, own, again)
        for each in added.values():
            _commit(each, out)
        for name, each in signed.items():
            write_atomically(
                submissions_root(out) / name / SIGNATURE_FILE, (each.folder / SIGNATURE_FILE).read_text()
            )
        new_records = _add_records(out, recorded)
    every = _recorded(out)
    if counts[0] or not _is_current(out, union, every):
        write_leaderboard(out, union, every)
    new_cells, same_cells = _count_cells(union, own, added)
    return MergeSummary(
        added=tuple(added.values()),
        known=tuple(own[each.submission_id] for each in given.submissions if each.submission_id in own),
        verifications=new_records,
        union=union,
        new_cells=new_cells,
        same_cells=same_cells,
        artifacts=counts[0],
        same_artifacts=counts[1],
        missing=_missing(store, union),
        conflicts=tuple(conflicts_in(union, store)),
        seconds=time.monotonic() - begin,
    )


def _by_id(submissions: Sequence[Submitted]) -> dict[str, Submitted]:
    """Return one copy of each submission, in the order in which they were given: a signed one if there is any."""
    found: dict[str, Submitted] = {}
    for each in submissions:
        known = found.get(each.submission_id)
        if known is None or _signature(each) < _signature(known):
            found[each.submission_id] = each
    return found


def _signature(submission: Submitted) -> tuple[bool, str]:
    """Return the place of the signature of a submission among those of its copies. The smallest one is kept."""
    signed_by = submission.submission.signed_by
    return signed_by is None, signed_by or ""


def _add_artifacts(
    store: Store, union: Union, own: dict[str, Submitted], again: dict[str, Submitted]
) -> tuple[int, int]:
    """Add what is missing, and return the number of artifacts that were added and of those that were there.

    The submissions in `again` were merged before. They supply what the folder has lost since.
    """
    found = [0, 0]
    for submission in union.submissions:
        supply = again.get(submission.submission_id)
        for ref in submission.contents:
            place = union.stored(submission, ref)
            lost = supply is not None and store.manifest(place.kind, place.key, verify=False) is None
            # An artifact that was merged before needs another place only if it is in conflict.
            if lost or submission.submission_id not in own or ref in union.conflicts:
                source = supply if supply is not None and lost else submission
                found[not add_artifact(store, place, source.files_of(ref))] += 1
    return found[0], found[1]


def _missing(store: Store, union: Union) -> dict[str, int]:
    places = {
        each.submission_id: {union.stored(each, ref) for ref in each.contents} for each in union.submissions
    }
    there = store.manifests(set().union(*places.values()), verify=False)
    return {name: len(refs - there.keys()) for name, refs in places.items() if not refs <= there.keys()}


def _commit(submission: Submitted, out: Path) -> None:
    """Put a submission, whose artifacts are there, into its place."""
    root = submissions_root(out)
    root.mkdir(exist_ok=True)
    fresh = root / f".{submission.submission_id}"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    for name in ABOUT_FILES:
        if (submission.folder / name).exists():
            shutil.copyfile(submission.folder / name, fresh / name)
    fresh.rename(root / submission.submission_id)


def _add_records(out: Path, recorded: Sequence[Recorded]) -> int:
    root = verifications_root(out)
    root.mkdir(exist_ok=True)
    new = {
        each.verification_id: each
        for each in recorded
        if not (root / f"{each.verification_id}.json").exists()
    }
    for each in new.values():
        write_atomically(root / f"{each.verification_id}.json", each.content.decode())
    return len(new)


def _recorded(directory: Path) -> list[Recorded]:
    return [read_recorded(path) for path in sorted(verifications_root(directory).glob("*.json"))]


def _is_current(out: Path, union: Union, recorded: Sequence[Recorded]) -> bool:
    """Return whether the database has exactly these submissions, with their signatures, and verifications."""
    try:
        with reading(published_path(out)) as connection:
            signatures = sa.select(Submission.submission_id, Submission.signed_by)
            submissions = set(map(tuple, connection.execute(signatures)))
            verifications = set(connection.execute(sa.select(Verification.verification_id)).scalars())
    except DatabaseError:
        return False
    return submissions == {
        (each.submission_id, each.submission.signed_by) for each in union.submissions
    } and verifications == {each.verification_id for each in recorded}


def _count_cells(union: Union, own: dict[str, Submitted], added: dict[str, Submitted]) -> tuple[int, int]:
    """Return how many finished cells of the added submissions are new, and how many are there already."""
    new = same = 0
    for merged in union.cells.values():
        before = any(each.submission_id in own for each in merged.done)
        came = sum(each.submission_id in added for each in merged.done)
        new += came > 0 and not before
        same += came - (came > 0 and not before)
    return new, same
