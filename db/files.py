"""What stands where in an output folder: the two database files, and the artifacts that they were made from."""

from __future__ import annotations

from pathlib import Path

__all__ = ["artifact_folder", "database_path", "published_path"]


def database_path(directory: Path) -> Path:
    """Return the writer's file: complete, and locked while a transaction runs."""
    return directory / "results.duckdb"


def published_path(directory: Path) -> Path:
    """Return the copy for readers: replaced as a whole, never written in place."""
    return directory / "leaderboard.duckdb"


def artifact_folder(directory: Path, kind: str, key: str) -> Path:
    """Return where the artifact of a job's shard is, or will be."""
    return directory / "artifacts" / kind / key
