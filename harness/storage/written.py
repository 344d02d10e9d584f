"""Folders that are replaced as a whole, such as reports: a new folder is filled, and then takes the old one's place."""

import ctypes
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prmcal.errors import StorageError
from prmcal.harness.storage.store import storage_errors

_MARK = "report.json"


class ReportFolder:
    """The folder of a report: new, empty, or of an earlier report, which is replaced.

    ``report.json`` lists its files. Raises a StorageError if `out` is a file, or holds files that are not listed: they
    would be lost. Nothing is changed then.
    """

    def __init__(self, out: Path) -> None:
        self._out, self._target = out, out.resolve()
        with storage_errors(out):
            if not self._target.exists():
                return
            if not self._target.is_dir():
                raise StorageError(f"{out} is a file. Choose a folder for --out.")
            names = sorted(_names_in(self._target))
        try:
            ours = json.loads((self._target / _MARK).read_text(encoding="utf-8"))["files"]
        except (OSError, ValueError, KeyError, TypeError):
            ours = []
        foreign = [name for name in names if name not in ours]
        if foreign:
            raise StorageError(
                f"{out} holds files that do not belong to a report, such as {foreign[0]}. Nothing was changed. Choose "
                "a new or an empty --out folder."
            )

    def replace(self, fill: Callable[[Path], None], about: Mapping[str, Any]) -> list[Path]:
        """Fill a new folder and put it in the place of the old one.

        `fill` gets the new folder and writes files to it, also in subfolders. `about` is further content of
        ``report.json``. Returns the files, sorted by their paths.

        Raises a StorageError if the disk is full or not writable. The old folder stays then.
        """
        target = self._target
        with storage_errors(self._out):
            with fresh_folder(target) as fresh:
                fill(fresh)
                files = sorted([*_names_in(fresh), _MARK])
                (fresh / _MARK).write_text(json.dumps({**about, "files": files}, indent=1) + "\n", encoding="utf-8")
                replace_folder(fresh, target)
            return [self._out / name for name in files]


@contextmanager
def fresh_folder(target: Path) -> Iterator[Path]:
    """Yield an empty folder beside `target`. The block fills it and puts it in the place of `target`.

    A folder that a killed process has left is deleted first.
    """
    fresh = target.with_name(f".{target.name}.prmcal-new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    try:
        yield fresh
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def replace_folder(fresh: Path, target: Path) -> None:
    """Put a folder in a place. A folder that is there is deleted. If this fails, the old folder stays."""
    old = target.with_name(f".{target.name}.prmcal-old")
    try:
        if target.exists():  # What a killed process has left is not the only copy then.
            shutil.rmtree(old, ignore_errors=True)
        if target.exists() and not _exchanged(fresh, target):
            target.rename(old)
        if not target.exists():
            fresh.rename(target)
    except BaseException:
        if old.exists() and not target.exists():
            old.rename(target)
        raise
    for folder in (old, fresh):
        shutil.rmtree(folder, ignore_errors=True)


def _exchanged(folder: Path, other_folder: Path) -> bool:
    """Exchange two folders in one step, so that none is lost if the process is killed. Return whether it worked.

    The exchange works only on Linux, and not on every file system.
    """
    exchange = getattr(ctypes.CDLL(None), "renameat2", None)
    here, flag = -100, 2  # AT_FDCWD and RENAME_EXCHANGE
    return exchange is not None and exchange(here, os.fsencode(folder), here, os.fsencode(other_folder), flag) == 0


def _names_in(folder: Path) -> list[str]:
    """Return the paths of the files in a folder, relative to it, and of its folders without files."""
    return [
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if not path.is_dir() or path.is_symlink() or not any(path.iterdir())
    ]
