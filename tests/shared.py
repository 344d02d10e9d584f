"""What is made once for all processes of the tests: folders of results, and servers that show them.

Tests must not write to such a folder. A test that writes uses a copy, which takes milliseconds.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest


def common_folder(factory: pytest.TempPathFactory) -> Path:
    """Return the folder that all processes of this run of the tests share."""
    own = factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process at a time do something."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a folder that `make` fills. The first process that needs it makes it, and the others wait."""
    folder = common_folder(factory) / "made" / name
    folder.parent.mkdir(exist_ok=True)
    made = folder.with_suffix(".made")
    with locked(folder.with_suffix(".lock")):
        if not made.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            made.touch()
    return folder


@contextmanager
def served_once(
    factory: pytest.TempPathFactory, name: str, serve: Callable[[], AbstractContextManager[str]]
) -> Iterator[str]:
    """Yield the address of a server. The first process that needs it starts it, and ends it when no other uses it."""
    path = common_folder(factory) / f"served-{name}"
    lock = path.with_suffix(".lock")
    with path.with_suffix(".users").open("w") as users, ExitStack() as server:
        with locked(lock):
            starts = not path.exists()
            if starts:
                path.write_text(server.enter_context(serve()))
            else:
                fcntl.flock(users, fcntl.LOCK_SH)
        yield path.read_text()
        while starts:
            with locked(lock):
                try:
                    fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    pass
                else:
                    path.unlink()
                    return
            time.sleep(0.2)
