"""Find the checkpoint from which a killed fit continues: a complete one, of the same fit."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

__all__ = ["file_hash", "newest_whole", "seal"]

_SEAL = "whole.json"


def seal(checkpoint: Path, fit: str) -> None:
    """Mark a checkpoint as complete: write the hashes of its files, and the fit that it belongs to."""
    files = {path.name: file_hash(path) for path in sorted(checkpoint.iterdir()) if path.is_file()}
    half = checkpoint / f"{_SEAL}.part"
    half.write_text(json.dumps({"fit": fit, "files": files}))
    half.rename(checkpoint / _SEAL)


def newest_whole(folder: Path, fit: str) -> Path | None:
    """Return the newest complete checkpoint of a fit, or None. All other checkpoints in the folder are removed."""
    found = sorted(folder.glob("checkpoint-*"), key=_step, reverse=True)
    newest = next((checkpoint for checkpoint in found if _is_whole(checkpoint, fit)), None)
    for checkpoint in found:
        if checkpoint != newest:
            shutil.rmtree(checkpoint, ignore_errors=True)
    return newest


def file_hash(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _step(checkpoint: Path) -> int:
    number = checkpoint.name.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1


def _is_whole(checkpoint: Path, fit: str) -> bool:
    try:
        sealed = json.loads((checkpoint / _SEAL).read_text())
        return sealed["fit"] == fit and all(
            file_hash(checkpoint / name) == digest for name, digest in sealed["files"].items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
