"""Commands of prmcal and workers of runs, as processes that are forked from one which has imported what they need.

A process that starts from nothing spends most of the time of a small grid on imports. All processes of pytest-xdist
fork from the same one. Tests that start ``prmcal`` as a user's shell does have processes of their own.
"""

from __future__ import annotations

import atexit
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from multiprocessing import forkserver, process, resource_tracker
from multiprocessing.context import ForkServerContext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

SECONDS = 1800
"""The longest time that a command may take."""
IMPORTED = [
    "tests.forked",
    "prmcal.harness.execution.worker",
    *(
        "pandas",
        "pyarrow.parquet",
        "scipy.stats",
        "sklearn.isotonic",
        "prmcal.db.catalog",
        "prmcal.db.writer",
        "prmcal.harness.execution.run",
        "duckdb",
        "pyarrow.dataset",
        "pandas.core.methods.to_dict",
        "prmcal.registry.calibrators.reward",
        "prmcal.registry.metrics.coverage",
        "prmcal.harness.site",
    ),
    *(f"prmcal.harness.cli.{name}" for name in ("plan", "run", "leaderboard", "check")),
]
MODELS = [
    "torch",
    "transformers.models.qwen2.modeling_qwen2",
    "transformers.models.auto.modeling_auto",
    "peft",
]
"""They take longest, and few test files need them."""
ALONE = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
"""The environment of the process. Torch would have threads, which no fork copies. One of pyarrow is prepared for it."""
_ADDRESS = "PRMCAL_TESTS_FORKED_FROM"
_server: Any = forkserver._forkserver


class _Forked(ForkServerContext):
    """The context in place of ``spawn``.

    Each process has the environment, the folder and the blocked signals of the one that starts it.
    """

    def Process(  # type: ignore[override]  # noqa: N802
        self, *, target: Callable[..., object], args: tuple[Any, ...] = (), kwargs: Any = None, **options: Any
    ) -> Any:
        if _server._forkserver_address is None:
            if _ADDRESS in os.environ:
                _use(os.environ[_ADDRESS])
            else:
                _start(IMPORTED)
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        given = (dict(os.environ), str(Path.cwd()), blocked, partial(target, **(kwargs or {})), args)
        return super().Process(target=_begin, args=given, **options)


_CONTEXT = _Forked()


def share() -> None:
    """Start the process that all processes of pytest-xdist fork from, before they start."""
    if not hasattr(_server, "_forkserver_authkey"):  # Python 3.14 has a key, which it does not share.
        _start([*IMPORTED, *MODELS])
        os.environ[_ADDRESS] = _server._forkserver_address


def fork_workers() -> None:
    """Let workers of runs, and processes that check tables or compute again, be forked from now on."""
    from prmcal.harness.execution import local
    from prmcal.harness.merging import again, tables

    for module in (local, again, tables):
        module.multiprocessing = SimpleNamespace(get_context=lambda method: _CONTEXT)  # type: ignore[attr-defined]


def begun_command(
    arguments: list[str], environment: Mapping[str, str], folder: Path, streams: Path, code: str = ""
) -> process.BaseProcess:
    """Start ``prmcal``, or a script, in a folder. It writes its streams to the files ``out`` and ``errors``."""
    given = (code, arguments, dict(environment), str(folder), str(streams / "out"), str(streams / "errors"))
    command: process.BaseProcess = _CONTEXT.Process(target=_run, args=given)
    command.start()
    return command


def run_command(
    arguments: list[str], environment: Mapping[str, str], folder: Path, code: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run ``prmcal``, or a script, in a folder and return its exit code and both streams."""
    with tempfile.TemporaryDirectory() as streams:
        out, errors = Path(streams) / "out", Path(streams) / "errors"
        command = begun_command(arguments, environment, folder, Path(streams), code)
        command.join(SECONDS)
        if command.exitcode is None:
            command.kill()
            raise TimeoutError(f"prmcal {arguments} did not end within {SECONDS} s")
        return subprocess.CompletedProcess(arguments, command.exitcode, out.read_text(), errors.read_text())


def _start(modules: list[str]) -> None:
    before = dict(os.environ)
    os.environ.update(ALONE)
    forkserver.set_forkserver_preload([*modules, "tests.frozen"])
    forkserver.ensure_running()
    os.environ.clear()
    os.environ.update(before)


def _use(address: str) -> None:
    """Fork from a process that another one has started."""
    _server._forkserver_address = address
    if _server._forkserver_alive_fd is None:
        # Each process receives one, and needs it only if it has started the server.
        _server._forkserver_alive_fd = os.open(os.devnull, os.O_RDONLY)
    _server.ensure_running = resource_tracker.ensure_running


def _begin(
    environment: Mapping[str, str],
    folder: str,
    blocked: set[int],
    target: Callable[..., object],
    args: tuple[Any, ...],
) -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    _use(_server._forkserver_address)
    _enter(environment, folder)
    target(*args)


def _enter(environment: Mapping[str, str], folder: str) -> None:
    """Be where a process with this environment begins, and import from where it would."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    paths = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.path += [path for path in paths if path not in sys.path]
    if "HF_HOME" in environment and (hub := sys.modules.get("huggingface_hub.constants")):
        vars(hub)["HF_HUB_CACHE"] = str(Path(environment["HF_HOME"], "hub"))  # It was read at the import.


def _run(
    code: str, arguments: list[str], environment: Mapping[str, str], folder: str, out: str, errors: str
) -> NoReturn:
    for stream, path in enumerate((os.devnull, out, errors)):
        mode = os.O_RDONLY if stream == 0 else os.O_WRONLY | os.O_CREAT
        os.dup2(os.open(path, mode), stream)
    _enter(environment, folder)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell has those in the background ignore it.
    fork_workers()
    weakref.finalize._registry.clear()  # type: ignore[attr-defined]  # The one it is forked from frees its libraries.
    process._parent_process = None  # type: ignore[attr-defined]  # To plugins, it is no worker.
    sys.argv = ["prmcal", *arguments]
    try:
        if code:
            exec(code, {"__name__": "__main__"})
        else:
            runpy.run_module("prmcal", run_name="__main__", alter_sys=True)
        sys.exit()
    finally:
        atexit._run_exitfuncs()
