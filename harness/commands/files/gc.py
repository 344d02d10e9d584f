"""``prmcal gc``: delete the artifacts and the checkpoints that the grid of a folder does not need."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from prmcal.db.run_folder import artifacts_root, checkpoints_root, finished_artifacts
from prmcal.db.text.formats import counted, file_size
from prmcal.errors import RunError, StorageError
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.saved import read_plan
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.terminal.prose import wrapped
from prmcal.harness.terminal.tables import text_table

__all__ = ["Unneeded", "delete_unneeded"]

_CHECKPOINTS = "checkpoints"
# The folder of an artifact or of checkpoints, or the temporary folder of an artifact, which a killed run leaves.
_NAME = re.compile(r"(?P<key>[0-9a-f]{24})|\.[0-9a-f]{24}-\w+")


@dataclass(frozen=True)
class Unneeded:
    """Folders that the grid does not need.

    Attributes
    ----------
    kind : str
        The kind of job, or "checkpoints".
    folders : tuple of Path
    size : int
        The bytes of all files in them.
    """

    kind: str
    folders: tuple[Path, ...]
    size: int


def delete_unneeded(directory: Path, tell: Callable[[str], None], agreed: Callable[[], bool] | None) -> int:
    """Tell what the grid of a folder does not need, and delete it if this is agreed.

    What belongs to earlier forms of the grid is not needed, nor is what killed runs left half written. Other files are
    left alone.

    Parameters
    ----------
    directory : Path
        The output folder of a run.
    tell : callable
        Receives the text for the user.
    agreed : callable or None
        Returns whether to delete. It is called if there is something to delete. None to delete nothing.

    Returns
    -------
    int
        The number of deleted folders.

    Raises
    ------
    RunError
        If no grid was run in the folder, a run holds its lock, or its plan was not saved.
    StorageError
        If a folder cannot be deleted.
    """
    folder = RunFolder(directory)
    folder.record()  # It raises if there is no run: the lock would create the folder.
    with folder.lock():
        record = folder.record()
        plan = read_plan(directory, record.grid)
        if plan is None:
            raise RunError(
                f"The grid in {directory} was run by an earlier version of prmcal, which did not save what the grid "
                "needs. Run the grid again, which keeps finished work. Then use this command."
            )
        found = list(_unneeded(directory, plan))
        if not found:
            tell(wrapped(f"The grid '{record.grid['name']}' needs everything in {directory}."))
            return 0
        tell(_listed(found, record.grid["name"]))
        if agreed is None:
            again = f"prmcal gc {shlex.quote(str(directory))} --yes"
            tell(wrapped(f"Nothing was deleted. To delete these folders: {again}"))
            return 0
        if not agreed():
            tell("Nothing was deleted.")
            return 0
        for each in found:
            for path in each.folders:
                _delete(path)
        number, size = _total(found)
        tell(f"Deleted {counted(number, 'folder')} ({file_size(size)}).")
        return number


def _unneeded(directory: Path, plan: Plan) -> Iterator[Unneeded]:
    needed = {(shard.ref.kind, shard.ref.key) for shard in plan.shards()}
    root = artifacts_root(directory)
    for kind in sorted(path.name for path in _folders(root)):
        yield from _found(kind, root / kind, {key for of_kind, key in needed if of_kind == kind})
    kinds = {kind for kind, _ in needed}
    finished = {(kind, key) for kind in kinds for key in finished_artifacts(directory, kind)}
    yield from _found(_CHECKPOINTS, checkpoints_root(directory), {key for _, key in needed - finished})


def _found(kind: str, root: Path, needed: set[str]) -> Iterator[Unneeded]:
    known = ((path, _NAME.fullmatch(path.name)) for path in _folders(root))
    folders = tuple(path for path, name in known if name and name["key"] not in needed)
    if folders:
        yield Unneeded(kind, folders, sum(_size(path) for path in folders))


def _folders(root: Path) -> list[Path]:
    if not root.is_dir():
        return []
    return sorted(path for path in root.iterdir() if path.is_dir() and not path.is_symlink())


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


def _listed(found: list[Unneeded], grid: str) -> str:
    number, size = _total(found)
    rows = [[each.kind.replace("_", " "), f"{len(each.folders):,}", file_size(each.size)] for each in found]
    rows.append(["all", f"{number:,}", file_size(size)])
    head = wrapped(f"The grid '{grid}' does not need these artifacts and checkpoints:")
    return f"{head}\n\n{text_table(['kind', 'folders', 'size'], rows)}\n"


def _total(found: list[Unneeded]) -> tuple[int, int]:
    return sum(len(each.folders) for each in found), sum(each.size for each in found)


def _delete(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise StorageError(
            f"{folder} cannot be deleted ({error.strerror or error}). Remove it, and run the same command again."
        ) from error
