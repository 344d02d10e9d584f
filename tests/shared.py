"""Folders that are made once for all processes of the tests: a small run, and a merged leaderboard.

Tests must not write to them. A test that writes uses a copy, which takes milliseconds.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a folder that `make` fills. The first process that needs it makes it, and the others wait."""
    common = factory.getbasetemp()
    folder = (common.parent if "PYTEST_XDIST_WORKER" in os.environ else common) / f"made-{name}"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = folder.with_suffix(".made")
        if not made.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            made.touch()
    return folder
