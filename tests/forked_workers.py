"""Workers of runs that are forked from one process, which has imported what they need.

A worker of the product is a new process, which spends most of the time of a small grid on imports. Tests that
start ``prmcal run`` as a user's shell does have such workers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

PRELOADED = [
    "tests.forked_workers", "prmcal.harness.execution.worker", "scipy.stats", "sklearn.isotonic", "tests.frozen",
]  # fmt: skip
"""The only thread that these modules start is one of jemalloc, which is prepared for forks."""


class ForkedWorkers(ForkServerContext):
    """The context in place of ``spawn``: each process has the environment and the folder of the one that starts it."""

    def Process(self, *, target: Callable[..., object], args: tuple[Any, ...] = (), **options: Any) -> Any:  # type: ignore[override]  # noqa: N802
        given = (dict(os.environ), str(Path.cwd()), target, args)
        return super().Process(target=_begin, args=given, **options)


def fork_workers() -> None:
    """Let workers of runs that this process starts from now on be forked."""
    from prmcal.harness.execution import local

    context = ForkedWorkers()
    context.set_forkserver_preload(PRELOADED)
    local.multiprocessing = SimpleNamespace(get_context=lambda method: context)  # type: ignore[assignment, attr-defined]


def share_server() -> None:
    """Start the process from which workers are forked, for all processes that are forked from this one."""
    fork_workers()
    forkserver.ensure_running()


def use_shared_server() -> None:
    """Use the process that the parent of this one has started."""
    forkserver._forkserver.ensure_running = lambda: None  # type: ignore[method-assign]


def _begin(
    environment: Mapping[str, str], folder: str, target: Callable[..., object], args: tuple[Any, ...]
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    target(*args)
