"""Merge submissions into one leaderboard, so that it is as before or complete whenever the merge is killed.

All inputs are read and checked in a folder aside. Then their artifacts are added, which nobody reads yet, and the
database is written aside. If this fails, the new artifacts are deleted, and the leaderboard is as before. At last the
submissions, the plan and the database are put in place, each in one step. A merge that was killed is continued by the
same command.
"""

import shutil
import time
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from prmcal.db import run_folder
from prmcal.errors import RunError
from prmcal.harness.share import submissions
from prmcal.harness.share.board import write_board
from prmcal.harness.share.bundle import SIGNATURE_FILE
from prmcal.harness.share.union import Union, union_of
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import ArtifactRef, Store, link_or_copy, storage_errors

_ASIDE = ".incoming"
"""The folder for what is not merged yet. A merge that was killed may leave it."""


@dataclass(frozen=True)
class MergeSummary:
    """The outcome of a merge."""

    added: tuple[submissions.Submitted, ...]
    known: tuple[submissions.Submitted, ...]
    """The submissions that are new, and those of the inputs that were merged before."""
    verifications: int
    """The records of verifications that are new."""
    union: Union
    """The leaderboard."""
    seconds: float


def merge(out: Path, inputs: Sequence[Path]) -> MergeSummary:
    """Merge runs, bundles, unpacked or not, merged leaderboards and verifications into a leaderboard.

    `out` is a new or an empty folder, or a merged leaderboard, which is extended. Without any inputs, the leaderboard
    is written again from its submissions, whose hashes are compared.

    Raises a PrmcalError if `out` is something else, is locked or was written by a newer version of prmcal, or an input
    is damaged or altered. Nothing was merged then. Raises a StorageError if the disk is full. The leaderboard is as
    before then, and the same command continues.
    """
    begin = time.monotonic()
    aside, new = out / _ASIDE, not out.exists()
    ours = (run_folder.LOCK_FILE, _ASIDE, run_folder.artifacts_root(out).name)
    foreign = out.is_dir() and any(path.name not in ours for path in out.iterdir())
    if foreign and not submissions.is_merged(out):
        raise RunError(
            f"{out} holds files that are not from a merged leaderboard. Nothing was changed. Choose a new or an empty "
            "folder for the merged leaderboard."
        )
    with RunFolder(out).lock():
        try:
            RunFolder(out).refuse_newer()
            with storage_errors(out):
                shutil.rmtree(aside, ignore_errors=True)
                aside.mkdir()
            return _merge(out, inputs, aside, begin)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
            if not submissions.is_merged(out):  # Nothing was merged.
                shutil.rmtree(run_folder.artifacts_root(out), ignore_errors=True)
                (out / run_folder.LOCK_FILE).unlink(missing_ok=True)
                if new:
                    shutil.rmtree(out)


def rebuild_merged(directory: Path) -> int:
    """Write the artifacts and the database of a merged leaderboard again. Return the number of cells.

    Raises a PrmcalError as :func:`merge` does.
    """
    return len(merge(directory, []).union.plan.cells)


def _merge(out: Path, inputs: Sequence[Path], aside: Path, begin: float) -> MergeSummary:
    own = {each.submission_id: each for each in submissions.merged_submissions(out)}
    given, records = submissions.read_inputs(inputs, aside)
    known = submissions.read_verifications(submissions.verifications_root(out).glob("*.json"))
    recorded = submissions.read_verifications(records)
    copies: dict[str, submissions.Submitted] = {}
    # Of several copies, a signed one stays.
    for each in sorted(
        [*own.values(), *given],
        key=lambda each: (not each.submission.signed_by, each.submission.signed_by or ""),
    ):
        copies.setdefault(each.submission_id, each)
    added = {name: each for name, each in copies.items() if name not in own}
    if not copies:
        raise RunError("There is no submission to merge: a verification alone makes no leaderboard.")
    union = union_of(copies.values())
    store, board = Store(out), aside / "board"
    new: list[ArtifactRef] = []
    with storage_errors(out):
        try:
            _add_artifacts(store, aside, union, added, new, verify=not inputs)
            board.mkdir()
            write_board(board, store, union, {name: found for name, (_, found) in (known | recorded).items()})
        except BaseException:
            for ref in new:
                shutil.rmtree(store.folder(ref), ignore_errors=True)
            raise
        submissions.submissions_root(out).mkdir(exist_ok=True)
        submissions.verifications_root(out).mkdir(exist_ok=True)
        for name, each in copies.items():
            target = submissions.submissions_root(out) / name
            if name in added:
                each.folder.rename(target)
            elif each is not own[name]:
                (each.folder / SIGNATURE_FILE).replace(target / SIGNATURE_FILE)
        for name, (path, _) in recorded.items():
            shutil.copyfile(path, aside / "record")
            (aside / "record").replace(submissions.verifications_root(out) / f"{name}.json")
        # Readers open the database, so it comes last.
        files = (run_folder.PLAN_FILE, run_folder.RECORD_FILE, run_folder.FAILURES_FILE)
        for path in (*(board / name for name in files), run_folder.published_path(board)):
            path.replace(out / path.name)
    return MergeSummary(
        added=tuple(added.values()),
        known=tuple(each for each in given if each.submission_id in own),
        verifications=len(recorded.keys() - known.keys()),
        union=union,
        seconds=time.monotonic() - begin,
    )


def _add_artifacts(
    store: Store, aside: Path, union: Union, added: Collection[str], new: list[ArtifactRef], verify: bool
) -> None:
    """Make the artifacts of submissions appear in a store, and list the addresses that had nothing in `new`.

    An artifact that several submissions have is there in its most complete form, that of the oldest submission with it.
    """
    owners: dict[ArtifactRef, list[tuple[submissions.Submitted, ArtifactRef]]] = defaultdict(list)
    for each in union.submissions:
        for ref in each.contents:
            owners[union.stored(each, ref)].append((each, ref))
    there = store.manifests(owners, verify)
    for place, having in owners.items():
        if place in there and not any(each.submission_id in added for each, _ in having):
            continue
        # What a bundle can leave out of an artifact is its texts, or the whole of a fit.
        complete = "models" if place.kind == "fit" else "texts"
        best, ref = max(having, key=lambda each: bool(getattr(each[0].submission, complete)))
        source = Store(best.folder)
        manifest = source.manifest(ref, verify)
        if manifest is None:
            raise RunError(
                f"The submission {best.folder} is damaged. Delete this folder, and merge the submission again."
            )
        if there.get(place) != manifest:
            if place not in there:
                new.append(place)
            fresh = aside / "artifact"
            fresh.mkdir()
            for name in manifest.files:
                (fresh / name).parent.mkdir(parents=True, exist_ok=True)
                link_or_copy(source.folder(ref) / name, fresh / name)
            store.adopt(place, fresh, manifest)
