"""The two database files of an output folder."""

from __future__ import annotations

from pathlib import Path

__all__ = ["database_path", "published_path"]


def database_path(directory: Path) -> Path:
    """Return the writer's file: complete, and locked while a transaction runs."""
    return directory / "results.duckdb"


def published_path(directory: Path) -> Path:
    """Return the copy for readers: replaced as a whole, never written in place."""
    return directory / "leaderboard.duckdb"
