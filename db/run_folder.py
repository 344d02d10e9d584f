"""What the folder of a run tells beside its database, at any moment: whether a run holds it, and what is finished."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

__all__ = ["LOCK_FILE", "RECORD_FILE", "finished_artifacts", "is_running", "plugin_files"]

LOCK_FILE, RECORD_FILE = "run.lock", "run.json"


def is_running(directory: Path) -> bool:
    """Whether a run holds the folder now."""
    try:
        with (directory / LOCK_FILE).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def finished_artifacts(directory: Path, kind: str) -> set[str]:
    """Keys of the finished shards of one kind of job. A folder gets its name when it is whole."""
    try:
        return {path.name for path in (directory / "artifacts" / kind).iterdir() if path.name[0] != "."}
    except OSError:
        return set()


def plugin_files(directory: Path) -> list[str]:
    """Files that the latest run was given with ``--plugin``; none if the folder does not say."""
    try:
        record = json.loads((directory / RECORD_FILE).read_text(encoding="utf-8"))
        return [str(file) for file in record["plugin_files"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []
