"""The layout of a merged leaderboard. It is a run's folder, and has besides:

submissions/<id>/submission.json, submission.json.sig, run.json, plan.json, failures.json
verifications/<id>.json

A submission is there as a whole or not at all. Its artifacts are in ``artifacts/`` before it is there.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["incoming", "is_merged", "submission_folders", "submissions_root", "verifications_root"]

GRID_NAME = "merged leaderboard"
"""The name in the record. No grid file can have it, because it contains a space. So no run can claim the folder."""


def submissions_root(directory: Path) -> Path:
    """Return the folder of all submissions, whether it exists or not."""
    return directory / "submissions"


def verifications_root(directory: Path) -> Path:
    """Return the folder of all records of verifications, whether it exists or not."""
    return directory / "verifications"


def incoming(directory: Path) -> Path:
    """Return the folder for what is not merged yet. A merge that was killed may leave it."""
    return directory / ".incoming"


def submission_folders(directory: Path) -> list[Path]:
    """Return the folders of the merged submissions, sorted by their ids."""
    root = submissions_root(directory)
    return sorted(path for path in root.iterdir() if not path.name.startswith(".")) if root.is_dir() else []


def is_merged(directory: Path) -> bool:
    """Return whether a folder is a merged leaderboard, also if it was not finished."""
    return submissions_root(directory).is_dir()
