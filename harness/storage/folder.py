"""The output folder of a run: the grid that it belongs to, the lock that admits one run at a time, and its JSON."""

import fcntl
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from prmcal.db import run_folder
from prmcal.errors import RunError, StorageError
from prmcal.harness.storage.store import Store, storage_errors, write_atomically
from prmcal.registry.messages import excerpt, shown

# A process that checks whether the folder is locked holds the lock for a moment.
_ATTEMPTS, _SECONDS_BETWEEN = 5, 0.02


def first_problem(errors: Sequence[Any]) -> str:
    """Return the first of pydantic's errors as a sentence, which names the first wrong value."""
    problem = errors[0]
    name = ".".join(str(key) for key in problem["loc"] if key != "body")
    value = "" if problem["type"] == "json_invalid" else f" Got {shown(problem['input'])}."
    return f"{excerpt(name)}: {problem['msg']}.{value}".removeprefix(": ")


@contextmanager
def one_problem() -> Iterator[None]:
    """Replace pydantic's error on JSON data by one line, which names the first wrong value.

    Raises a ValueError if the block raises a ValidationError.
    """
    from pydantic import ValidationError

    try:
        yield
    except ValidationError as error:
        raise ValueError(first_problem(error.errors())) from error


@dataclass(frozen=True)
class RunRecord:
    """The record of the latest run of a folder, from which it can be planned again."""

    grid: dict[str, Any]
    """The data of the grid, including its limit."""
    plugin_files: list[str]
    """Absolute paths of the files given with ``--plugin``. Reading the folder does not need them."""
    run_id: str
    started_at: str
    """Start of the run in UTC, in ISO format."""
    workers: int = 1
    """Its worker processes."""
    only: dict[str, list[str]] = field(default_factory=dict)
    """The names of `--only`, by their kind. Empty for all cells."""
    environment: dict[str, Any] = field(default_factory=dict)
    """The version of prmcal, the versions of the installed packages, and the hardware, as columns of the database."""
    finished_at: str = ""
    """End of the run in UTC, in ISO format. Empty until all results are recorded."""
    sources: "list[RunRecord]" = field(default_factory=list)
    """The records of other runs that measured some of the results."""


class RunFolder:
    """The folder given with ``--out``. The first run creates it.

    `database` is the file that the run writes, `published` the copy of it that readers open, and `store` has the
    artifacts.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store = Store(directory)
        self.database = run_folder.database_path(directory)
        self.published = run_folder.published_path(directory)

    def results(self) -> Path:
        """Return the path of the published database. A run that has just begun may not have written it yet.

        Raises a RunError if the folder has no database, because no grid was run in it or the file was deleted.
        """
        if not self.published.exists():
            self.record()  # This is an error if no grid was run.
            if not self.running():
                raise RunError(f"{self.published} is missing. Write it again: prmcal rebuild {self.directory}")
        return self.published

    def record(self) -> RunRecord:
        """Read the record of the latest run.

        Raises a RunError if no grid was run in the folder, the record is damaged, or the path is a file.
        """
        from pydantic import TypeAdapter

        if self.directory.is_file():
            raise RunError(
                f"{self.directory} is a file, but the folder of a run is needed. If it is an archive, unpack it first."
            )
        try:
            content = json.loads((self.directory / run_folder.RECORD_FILE).read_text(encoding="utf-8"))
            with one_problem():
                record = TypeAdapter(RunRecord).validate_python(content)
            for run in (record, *record.sources):
                for time_of_run in filter(None, (run.started_at, run.finished_at)):
                    datetime.fromisoformat(time_of_run).astimezone(UTC)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise RunError(
                f"No grid was run in {self.directory}. Start one: prmcal run GRID --out {self.directory}"
            ) from error
        except (OSError, ValueError, OverflowError, RecursionError) as error:
            raise RunError(
                f"{self.directory / run_folder.RECORD_FILE} is damaged ({excerpt(str(error))}). Remove it, and run the "
                "grid again with the same --out folder: finished work is kept."
            ) from error
        return record

    def claim(self, grid: str) -> None:
        """Check that the folder is empty, or belongs to the grid of that name.

        A folder with artifacts and without a record belongs to no grid: the record was damaged and removed. Nor does
        a folder with only the first files of a killed run.

        Raises a RunError if it belongs to another grid, or holds files that are not from a run.
        """
        if (self.directory / run_folder.RECORD_FILE).exists():
            owner = self.record().grid.get("name")
            if owner != grid:
                why = f"{self.directory} belongs to the grid '{owner}', not to '{grid}'"
                raise RunError(f"{why}. Choose another --out folder.")
            return
        if not self.directory.is_dir() or run_folder.artifacts_root(self.directory).is_dir():
            return
        beginning = (run_folder.LOCK_FILE, f".{run_folder.RECORD_FILE}.", self.database.name)
        if not all(path.name.startswith(beginning) for path in self.directory.iterdir()):
            raise RunError(
                f"{self.directory} holds files that are not from a run. Choose a new or an empty --out folder."
            )

    def write_record(self, record: RunRecord) -> None:
        """Replace the record."""
        # The order of the grid is kept, because the database has the grid as text.
        write_atomically(self.directory / run_folder.RECORD_FILE, json.dumps(asdict(record), indent=1) + "\n")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Create and lock the folder for one run. The lock is released when the process ends, even if it is killed.

        Raises a RunError if another run holds the lock, or the path is a file. Raises a StorageError if the folder
        cannot be created or written. A folder that was created for it is removed then.
        """
        with storage_errors(self.directory):
            new = not self.directory.exists()
            if not new and not self.directory.is_dir():
                raise RunError(f"{self.directory} is a file. Choose a new folder, or the folder of a run.")
            self.directory.mkdir(parents=True, exist_ok=True)
            try:
                file = self._locked()
            except OSError:
                if new:
                    with suppress(OSError):
                        (self.directory / run_folder.LOCK_FILE).unlink(missing_ok=True)
                        self.directory.rmdir()
                raise
        with file:
            yield

    def _locked(self) -> IO[bytes]:
        # Without a buffer, closing the file writes nothing, which would fail again on a full disk.
        file = (self.directory / run_folder.LOCK_FILE).open("a+b", buffering=0)
        try:
            try:
                _take(file)
            except BlockingIOError as error:
                file.seek(0)
                holder = file.read().decode(errors="replace").strip() or "unknown"
                raise RunError(
                    f"{self.directory} is locked by another run (process {holder}). "
                    f"Wait until it ends; `prmcal status {self.directory}` shows its progress."
                ) from error
            file.truncate(0)
            file.write(f"{os.getpid()}\n".encode())
        except BaseException:
            file.close()
            raise
        return file

    def running(self) -> bool:
        """Return whether a run holds the lock now."""
        return run_folder.is_running(self.directory)


def _take(file: IO[bytes]) -> None:
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if attempt == _ATTEMPTS:
                raise
        except OSError as error:
            raise StorageError(
                f"The disk of {file.name} cannot lock files ({error.strerror}), and locks keep two runs apart. Give an "
                "output folder on another disk."
            ) from error
        time.sleep(_SECONDS_BETWEEN)
