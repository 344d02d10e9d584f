"""An output folder: whose grid it belongs to, and that one run at a time writes to it."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import yaml

from prmcal.db.run_folder import LOCK_FILE, RECORD_FILE, is_running
from prmcal.errors import RunError
from prmcal.harness.storage.store import storage_errors, write_atomically

__all__ = ["RunFolder", "RunRecord"]

# One who looks whether a run holds the lock holds it himself for an instant.
_ATTEMPTS, _SECONDS_BETWEEN = 5, 0.02


@dataclass(frozen=True)
class RunRecord:
    """What the folder's latest run was about: enough to plan it again.

    Attributes
    ----------
    grid : dict
        The grid, as data, limit applied.
    plugin_files : list of str
        Absolute paths given with ``--plugin``.
    run_id, started_at : str
        Of the latest run.
    """

    grid: dict[str, Any]
    plugin_files: list[str]
    run_id: str
    started_at: str


class RunFolder:
    """The folder given with ``--out``.

    Parameters
    ----------
    directory : Path
        Created by the first run.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.database = directory / "results.duckdb"
        self.published = directory / "leaderboard.duckdb"

    def results(self) -> Path:
        """The published database.

        Raises
        ------
        RunError
            If no grid was ever run here.
        """
        if not self.published.exists():
            self.record()
        return self.published

    def record(self) -> RunRecord:
        """The latest run's record.

        Raises
        ------
        RunError
            If no grid was ever run here.
        """
        try:
            return RunRecord(**json.loads((self.directory / RECORD_FILE).read_text(encoding="utf-8")))
        except FileNotFoundError as error:
            raise RunError(
                f"No grid was run in {self.directory}. Start one: prmcal run GRID --out {self.directory}"
            ) from error
        except (OSError, ValueError, TypeError) as error:
            raise RunError(
                f"{self.directory / RECORD_FILE} is damaged ({error}). Run the grid again."
            ) from error

    def claim(self, grid: str) -> None:
        """Make sure that the folder is new or belongs to the grid of that name.

        Raises
        ------
        RunError
            If it belongs to another grid, or holds something else.
        """
        if (self.directory / RECORD_FILE).exists():
            owner = self.record().grid["name"]
            if owner != grid:
                raise RunError(
                    f"{self.directory} belongs to the grid '{owner}', not to '{grid}'. "
                    "Choose another --out folder."
                )
        elif self.directory.is_dir() and any(path.name != LOCK_FILE for path in self.directory.iterdir()):
            raise RunError(
                f"{self.directory} holds other files and no run of prmcal. Choose an empty or a new --out folder."
            )

    def write_record(self, record: RunRecord) -> None:
        """Replace the record."""
        write_atomically(
            self.directory / RECORD_FILE, json.dumps(vars(record), indent=1, sort_keys=True) + "\n"
        )

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder for one run. The lock goes with the process, however it ends.

        Raises
        ------
        RunError
            If another run holds it.
        """
        with storage_errors(self.directory):
            if self.directory.exists() and not self.directory.is_dir():
                raise RunError(f"{self.directory} is a file. Choose a folder for --out.")
            self.directory.mkdir(parents=True, exist_ok=True)
            file = (self.directory / LOCK_FILE).open("a+")
        with file:
            try:
                _take(file)
            except BlockingIOError as error:
                file.seek(0)
                raise RunError(
                    f"{self.directory} is locked by another run (process {file.read().strip() or 'unknown'}). "
                    f"Wait for it, or watch it: prmcal status {self.directory}"
                ) from error
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            yield

    def running(self) -> bool:
        """Whether a run holds the lock now."""
        return is_running(self.directory)


def _take(file: IO[str]) -> None:
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if attempt == _ATTEMPTS:
                raise
        time.sleep(_SECONDS_BETWEEN)


def grid_text(grid: Mapping[str, Any]) -> str:
    """A grid as YAML, as the database keeps it."""
    text: str = yaml.safe_dump(dict(grid), sort_keys=False, allow_unicode=True)
    return text
