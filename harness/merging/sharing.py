"""Merging with a leaderboard in a server, so that it and the folder end up with the union of both.

The server has the files of the folder from which everything else follows: submissions, verifications and artifacts. A
writer takes the lock, merges what the server has into its folder, and writes the union back in one transaction. So each
writer builds on all that came before, and the order of the writers does not matter.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import sqlalchemy as sa

from prmcal.db.postgresql.shared import SharedTransaction, writing
from prmcal.db.reader import reading
from prmcal.db.run_folder import RECORD_FILE, artifacts_root, published_path
from prmcal.errors import DamagedDatabaseError, RunError
from prmcal.harness.merging.merge import MergeSummary, merge
from prmcal.harness.merging.submissions.folder import (
    is_merged,
    submission_folders,
    submissions_root,
    verifications_root,
)
from prmcal.harness.storage.store import file_sha256, link_or_copy, storage_errors

__all__ = ["Shared", "share"]


@dataclass(frozen=True)
class Shared:
    """The files that a folder and a server exchanged.

    Attributes
    ----------
    fetched : MergeSummary or None
        The merge of what the folder lacked; None if it lacked nothing.
    sent, removed : int
        The files that the server lacked or had in another form, and those that are no longer part of the leaderboard.
    """

    fetched: MergeSummary | None
    sent: int
    removed: int


def share(out: Path, url: sa.URL, waiting: Callable[[str], None]) -> Shared:
    """Give a folder and a server the union of their leaderboards.

    Parameters
    ----------
    out : Path
        A merged leaderboard, or a new folder, which gets the leaderboard of the server.
    url : URL
        The database. It may be empty.
    waiting : callable
        Called with a line that tells for whom this writer waits, if another one writes now.

    Raises
    ------
    PrmcalError
        If `out` is the folder of a run, neither side has results, or what the server has cannot be merged. The server
        is unchanged then.
    DatabaseError
        If the server cannot be read or written. It is unchanged then, and the same command continues.
    """
    if not is_merged(out) and (out / RECORD_FILE).exists():
        raise RunError(
            f"{out} is the folder of a run, and a merged leaderboard is needed. Merge the run into a folder OUT: "
            f"prmcal merge OUT {out} --database ADDRESS"
        )
    with writing(url, waiting) as server:
        there, here = server.files(), _files(out)
        lacking = {name for name, digest in there.items() if here.get(name) != digest}
        fetched = None
        if lacking:
            fetched = _merge_from(server, there, lacking, out)
            here = _files(out)
        if not submission_folders(out):
            raise RunError(
                f"There is nothing to share: neither {out} nor {url} has results. Say what to merge: "
                f"prmcal merge {out} DIR_OR_BUNDLE... --database ADDRESS"
            )
        sent = sorted(name for name, digest in here.items() if there.get(name) != digest)
        for name in sent:
            server.store(name, here[name], out / name)
        gone = there.keys() - here.keys()
        for name in gone:
            server.remove(name)
        if sent or gone or not there:
            with reading(published_path(out)) as file:
                server.replace_content(file)
    return Shared(fetched, len(sent), len(gone))


def _files(out: Path) -> dict[str, str]:
    """Return the SHA-256 of the files that others need to extend the leaderboard, by their paths in the folder."""
    roots = (submissions_root(out), verifications_root(out), artifacts_root(out)) if is_merged(out) else ()
    found = {}
    with storage_errors(out):
        for root in roots:
            for path in root.rglob("*"):
                name = path.relative_to(out).as_posix()
                # What begins with a dot is not finished.
                if path.is_file() and not any(part.startswith(".") for part in PurePosixPath(name).parts):
                    found[name] = file_sha256(path)
    return found


def _merge_from(
    server: SharedTransaction, there: dict[str, str], lacking: set[str], out: Path
) -> MergeSummary:
    """Make the server's leaderboard a folder, of which what this one has already is not copied, and merge it."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with storage_errors(out), tempfile.TemporaryDirectory(dir=out.parent, prefix=".shared-") as temporary:
        folder = Path(temporary)
        for name in there:
            target = folder / _checked(name)
            target.parent.mkdir(parents=True, exist_ok=True)
            if name in lacking:
                server.fetch(name, target)
                if file_sha256(target) != there[name]:
                    raise DamagedDatabaseError(
                        f"The file {name} of the shared leaderboard is damaged. Restore the database from a backup."
                    )
            else:
                link_or_copy(out / name, target)
        return merge(out, [folder])


def _checked(name: str) -> str:
    path = PurePosixPath(name)
    if (
        path.is_absolute()
        or ".." in path.parts
        or path.parts[0] not in ("submissions", "verifications", "artifacts")
    ):
        raise DamagedDatabaseError(
            f"The shared leaderboard has a file '{name}', which is no part of a leaderboard. Nothing was merged."
        )
    return name
