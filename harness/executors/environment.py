"""What a process that computes beside others starts with."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType

__all__ = ["ONE_THREAD", "starting_with"]

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
"""With one thread each, results do not depend on the number of cores, and processes do not disturb each other."""


@contextmanager
def starting_with(variables: Mapping[str, str]) -> Iterator[None]:
    """Let processes that are started meanwhile have some environment variables, and nothing of this program.

    Otherwise they would import the program that starts them, and a script that runs a grid would run it again.
    """
    before, program = dict(os.environ), sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    os.environ.update(variables)
    try:
        yield
    finally:
        sys.modules["__main__"] = program
        os.environ.clear()
        os.environ.update(before)
