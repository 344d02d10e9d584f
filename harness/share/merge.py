"""Merge submissions into one leaderboard, so that it is as before or complete whenever the merge is killed.

Nothing is written before all inputs were read and checked. Then the artifacts are added, which nobody reads yet, and
the database is written aside. If it cannot be written, the new artifacts are deleted, and the leaderboard is as before.
At last the submissions, the plan and the database are put in place, each in one step. A merge that was killed is
continued by the same command, and each step leaves alone what is there already.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import sqlalchemy as sa

from prmcal.db.reader import reading
from prmcal.db.run_folder import (
    FAILURES_FILE,
    LOCK_FILE,
    PLAN_FILE,
    RECORD_FILE,
    artifacts_root,
    published_path,
)
from prmcal.db.tables import Submission, Verification
from prmcal.errors import DatabaseError, RunError
from prmcal.harness.share.board import Recorded, read_recorded, write_board
from prmcal.harness.share.bundle import SIGNATURE_FILE
from prmcal.harness.share.checks import ABOUT_FILES
from prmcal.harness.share.submissions import (
    Submitted,
    incoming,
    is_merged,
    merged_submissions,
    read_inputs,
    submissions_root,
    verifications_root,
)
from prmcal.harness.share.union import Union, union_of
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import (
    MANIFEST_FILE,
    ArtifactRef,
    Manifest,
    Store,
    link_or_copy,
    storage_errors,
    write_atomically,
)

_OLD = "-replaced"


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
            RunFolder(out).refuse_newer()
            _recover(out)
            summary = _merge(out, inputs, begin)
        finally:
            shutil.rmtree(incoming(out), ignore_errors=True)
            if not is_merged(out):  # Nothing was merged.
                (out / LOCK_FILE).unlink(missing_ok=True)
                with suppress(OSError):
                    for path in sorted(artifacts_root(out).glob("*"), reverse=True):
                        path.rmdir()
                    artifacts_root(out).rmdir()
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
        _recover(directory)
        try:
            union = union_of(merged_submissions(directory))
            if not union.submissions:
                raise RunError(
                    f"{directory} has no submission. Merge one: prmcal merge {directory} DIR_OR_BUNDLE"
                )
            _write_aside(directory, union, _recorded(directory), verify=True)
            _publish(directory)
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
    own = {each.submission_id: each for each in merged_submissions(out)}
    given, records = read_inputs(inputs, out)
    recorded = {each.verification_id: each for each in map(read_recorded, records)}
    came: dict[str, Submitted] = {}
    for each in given:  # Of several copies of a submission, a signed one stays.
        came[each.submission_id] = min(came.get(each.submission_id, each), each, key=_signature)
    added = {name: each for name, each in came.items() if name not in own}
    again = {name: each for name, each in came.items() if name in own}
    signed = {name: each for name, each in again.items() if _signature(each) < _signature(own[name])}
    own |= {name: replace(own[name], submission=each.submission) for name, each in signed.items()}
    union = union_of([*own.values(), *added.values()])
    if not union.submissions:
        raise RunError("There is no submission to merge: a verification alone makes no leaderboard.")
    store = Store(out)
    known = {each.verification_id: each for each in _recorded(out)}
    every = [each for _, each in sorted((known | recorded).items())]
    new: list[ArtifactRef] = []
    with storage_errors(out):
        try:
            counts = _add_artifacts(store, union, own, again, new)
            current = not counts[0] and _is_current(out, union, every)
            if not current:
                _write_aside(out, union, every)
        except BaseException:
            for ref in new:
                shutil.rmtree(store.folder(ref.kind, ref.key), ignore_errors=True)
            raise
        for each in added.values():
            _commit(each, out)
        for name, each in signed.items():
            signature = (each.folder / SIGNATURE_FILE).read_text()
            write_atomically(submissions_root(out) / name / SIGNATURE_FILE, signature)
        verifications_root(out).mkdir(exist_ok=True)
        for name in recorded.keys() - known.keys():
            write_atomically(verifications_root(out) / f"{name}.json", recorded[name].content.decode())
        if not current:
            _publish(out)
    new_cells, same_cells = _count_cells(union, own, added)
    return MergeSummary(
        added=tuple(added.values()),
        known=tuple(own[each.submission_id] for each in given if each.submission_id in own),
        verifications=len(recorded.keys() - known.keys()),
        union=union,
        new_cells=new_cells,
        same_cells=same_cells,
        artifacts=counts[0],
        same_artifacts=counts[1],
        missing=_missing(store, union),
        seconds=time.monotonic() - begin,
    )


def _signature(submission: Submitted) -> tuple[bool, str]:
    """Return the place of the signature of a submission among those of its copies. The smallest one is kept."""
    signed_by = submission.submission.signed_by
    return signed_by is None, signed_by or ""


def _add_artifacts(
    store: Store,
    union: Union,
    own: Mapping[str, Submitted],
    again: Mapping[str, Submitted],
    new: list[ArtifactRef],
) -> tuple[int, int]:
    """Add what is missing. Return the number of artifacts that were added or completed, and of those that were there.

    The submissions in `again` were merged before. They supply what the folder has lost since. The addresses that had
    nothing are added to `new`.
    """
    found = [0, 0]
    for submission in union.submissions:
        supply = again.get(submission.submission_id)
        for ref in submission.contents:
            place = union.stored(submission, ref)
            there = store.manifest(place.kind, place.key, verify=False) is not None
            lost = supply is not None and not there
            # An artifact that was merged before needs another place only if there are several contents.
            if lost or submission.submission_id not in own or ref in union.conflicts:
                if not there:
                    new.append(place)
                source = supply if supply is not None and lost else submission
                found[not _add_artifact(store, place, source.files_of(ref))] += 1
    return found[0], found[1]


def _add_artifact(store: Store, ref: ArtifactRef, files: Mapping[str, Path | bytes]) -> bool:
    """Add the files of an artifact to a store, in which a less complete form of the same content may be.

    Files are linked where this is possible, and copied elsewhere. The artifact is there as a whole or not at all. Its
    cost is that of the form with the fewest seconds, so that the result does not depend on the order. Return whether
    anything was added.
    """
    source = files[MANIFEST_FILE]
    given = Manifest(**json.loads(source if isinstance(source, bytes) else source.read_bytes()))
    own = {name: source for name, source in files.items() if name != MANIFEST_FILE}
    target = store.folder(ref.kind, ref.key)
    known = store.manifest(ref.kind, ref.key, verify=False)
    if known is None:
        _write(target, own, given)
        return True
    better = {
        name: source
        for name, source in own.items()
        if name not in known.files
        or (given.files[name][1] != known.files[name][1] and _columns(source) > _columns(target / name))
    }
    figures = min(known, given, key=_cost)
    if not better and _cost(figures) == _cost(known):
        return False
    kept = {**{name: target / name for name in known.files}, **better}
    listed = {name: (given if name in better else known).files[name] for name in sorted(kept)}
    _write(target, kept, replace(figures, files=listed))
    return bool(better)


def _columns(source: Path | bytes) -> int:
    """Return the number of columns of a table; 0 for another file."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    if isinstance(source, Path) and source.suffix != ".parquet":
        return 0
    return len(parquet.read_schema(pa.BufferReader(source) if isinstance(source, bytes) else source).names)


def _cost(manifest: Manifest) -> tuple[float, ...]:
    return tuple(value for name, value in vars(manifest).items() if name != "files")


def _write(target: Path, files: Mapping[str, Path | bytes], manifest: Manifest) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    # Its name begins with a dot, so that it is no artifact, and has a hyphen, so that it is deleted if it stays.
    fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        for name, source in files.items():
            (fresh / name).parent.mkdir(parents=True, exist_ok=True)
            if isinstance(source, bytes):
                (fresh / name).write_bytes(source)
            else:
                link_or_copy(source, fresh / name)
        (fresh / MANIFEST_FILE).write_text(json.dumps(asdict(manifest), sort_keys=True))
        fresh.chmod(0o755)
        if target.exists():
            old = target.with_name(f".{target.name}{_OLD}")
            target.rename(old)
            fresh.rename(target)
            shutil.rmtree(old)
        else:
            fresh.rename(target)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


def _recover(directory: Path) -> None:
    """Bring back what a killed merge was about to replace, delete what it left, and make an empty folder aside."""
    with storage_errors(directory):
        for old in artifacts_root(directory).glob(f"*/.*{_OLD}"):
            target = old.with_name(old.name[1 : -len(_OLD)])
            if target.exists():
                shutil.rmtree(old)
            else:
                old.rename(target)
        Store(directory).remove_leftovers()
        for leftover in verifications_root(directory).glob(".*.json.*"):
            leftover.unlink()
        shutil.rmtree(incoming(directory), ignore_errors=True)
        incoming(directory).mkdir()


def _missing(store: Store, union: Union) -> dict[str, int]:
    places = {
        each.submission_id: {union.stored(each, ref) for ref in each.contents} for each in union.submissions
    }
    there = store.manifests(set().union(*places.values()), verify=False)
    return {name: len(refs - there.keys()) for name, refs in places.items() if not refs <= there.keys()}


def _write_aside(out: Path, union: Union, recorded: Sequence[Recorded], verify: bool = False) -> None:
    aside = incoming(out) / "board"
    aside.mkdir()
    write_board(aside, Store(out), union, recorded, verify)


def _publish(out: Path) -> None:
    """Put the plan, the record, the failures and the database in place, the database last."""
    aside = incoming(out) / "board"
    with storage_errors(out):
        for name in (PLAN_FILE, RECORD_FILE, FAILURES_FILE):
            (aside / name).replace(out / name)
        published_path(aside).replace(published_path(out))


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


def _count_cells(
    union: Union, own: Mapping[str, Submitted], added: Mapping[str, Submitted]
) -> tuple[int, int]:
    """Return how many finished cells of the added submissions are new, and how many are there already."""
    new = same = 0
    for merged in union.cells.values():
        before = any(each.submission_id in own for each in merged.done)
        came = sum(each.submission_id in added for each in merged.done)
        new += came > 0 and not before
        same += came - (came > 0 and not before)
    return new, same
