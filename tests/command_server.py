"""Runs ``prmcal`` in processes that are forked from one that has imported most of what the commands need.

A command that starts from nothing spends most of its time on these imports. ``python -m tests.command_server``
reads one JSON object for each command (``arguments``, ``environment``, ``folder``, and the files ``out`` and
``errors``), and writes its exit code. :class:`CommandServer` is its client.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import NoReturn

from tests.forked_workers import share_server, use_shared_server

ROOT = Path(__file__).parents[1]
SECONDS = 1800
"""The longest time that a command may take."""
IMPORTED = ("pandas", "pyarrow.parquet", "scipy.stats", "prmcal.db.catalog", "prmcal.db.writer")
USED = ("plan", "run", "status", "leaderboard", "check")
"""Commands whose modules are imported too."""
THREADED = {"duckdb", "torch"}
"""Modules that start threads when they are imported, which no fork copies. Those of pyarrow are prepared for forks."""


class CommandServer:
    """The client. The server starts at the first command."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[str] | None = None

    def run(
        self, arguments: list[str], environment: dict[str, str], folder: Path
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in a folder and return its exit code and both streams."""
        if self._server is None:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "tests.command_server"],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        with tempfile.TemporaryDirectory() as streams:
            out, errors = Path(streams) / "out", Path(streams) / "errors"
            request = {
                "arguments": arguments,
                "environment": environment,
                "folder": str(folder),
                "out": str(out),
                "errors": str(errors),
            }
            limit = threading.Timer(SECONDS, self._server.kill)
            limit.start()
            print(json.dumps(request), file=self._server.stdin, flush=True)
            code = self._server.stdout.readline()
            limit.cancel()
            if not code:
                raise TimeoutError(f"prmcal {arguments} did not end within {SECONDS} s")
            return subprocess.CompletedProcess(arguments, int(code), out.read_text(), errors.read_text())

    def close(self) -> None:
        """End the server."""
        if self._server is not None:
            self._server.communicate()


def main() -> None:
    """Run commands until the input ends."""
    from prmcal.harness.cli.app import COMMANDS

    places = {name: place for group in COMMANDS.values() for name, (place, _) in group.items()}
    modules = (f"prmcal.harness.cli.{places[name].partition(':')[0]}" for name in USED)
    for name in (*IMPORTED, *modules):
        importlib.import_module(name)
    assert not THREADED & sys.modules.keys()
    share_server()
    gc.freeze()  # A child that collects these objects, as each does at its end, would copy all of this memory.
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _run(**json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run(arguments: list[str], environment: dict[str, str], folder: str, out: str, errors: str) -> NoReturn:
    for stream, path in enumerate((os.devnull, out, errors)):
        mode = os.O_RDONLY if stream == 0 else os.O_WRONLY | os.O_CREAT
        os.dup2(os.open(path, mode), stream)
    use_shared_server()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = ["prmcal", *arguments]
    runpy.run_module("prmcal", run_name="__main__", alter_sys=True)
    sys.exit()


if __name__ == "__main__":
    main()
