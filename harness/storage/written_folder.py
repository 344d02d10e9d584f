"""A folder that is written as a whole: filled beside its place, and put there when it is complete."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from prmcal.errors import StorageError
from prmcal.harness.storage.store import storage_errors

__all__ = ["WrittenFolder", "write_text"]


class WrittenFolder:
    """A folder that holds what was written before, or nothing yet.

    Parameters
    ----------
    out : Path
        New, empty, or written before under the same mark: then it is replaced as a whole.
    mark : str
        Name of the JSON file in it that lists its files.
    kind : str
        What it is called in messages, such as ``report``.
    option : str
        The option of the command line that names it.

    Raises
    ------
    StorageError
        If `out` holds something else: replacing it would delete what is not ours. Nothing in it was changed.
    """

    def __init__(self, out: Path, mark: str, kind: str, option: str) -> None:
        self._out, self._mark = out, mark
        self._target = out.resolve()
        with storage_errors(out):
            if not self._target.exists():
                return
            if not self._target.is_dir():
                raise StorageError(f"{out} is a file. Choose a folder for {option}.")
            found = sorted(path.relative_to(self._target).as_posix() for path in self._target.rglob("*"))
        try:
            ours = json.loads((self._target / mark).read_text(encoding="utf-8"))["files"]
        except (OSError, ValueError, KeyError, TypeError):
            ours = []
        foreign = [name for name in found if name not in ours]
        if foreign:
            raise StorageError(
                f"{out} holds files that are not of a {kind}, such as {foreign[0]}. Nothing was changed. Choose an "
                f"empty or a new {option} folder."
            )

    def replace(self, fill: Callable[[Path], None], about: Mapping[str, Any]) -> list[Path]:
        """Let `fill` write into a new folder, then put that in the place of the old one.

        Parameters
        ----------
        fill : callable
            Receives the new folder, which must not get folders in it.
        about : mapping
            What stands in the mark beside the names of the files.

        Returns
        -------
        list of Path
            The files, in order of their names.
        """
        target = self._target
        with storage_errors(self._out):
            target.parent.mkdir(parents=True, exist_ok=True)
            fresh = target.with_name(f".{target.name}.{os.getpid()}.new")
            old = target.with_name(f".{target.name}.{os.getpid()}.old")
            try:
                fresh.mkdir()
                fill(fresh)
                files = sorted([*(path.name for path in fresh.iterdir()), self._mark])
                write_text(fresh / self._mark, json.dumps({**about, "files": files}, indent=1) + "\n")
                if target.exists():
                    target.rename(old)
                fresh.rename(target)
            except BaseException:
                shutil.rmtree(fresh, ignore_errors=True)
                if old.exists() and not target.exists():
                    old.rename(target)
                raise
            shutil.rmtree(old, ignore_errors=True)
            return [self._out / name for name in files]


def write_text(path: Path, text: str) -> None:
    """Write a text file, the same on every system."""
    path.write_text(text, encoding="utf-8", newline="\n")
