"""``prmcal dashboard``: the web server takes the place of the command."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from prmcal.db.run_folder import LOCK_FILE, RECORD_FILE, published_path
from prmcal.errors import PrmcalError, RunError
from prmcal.harness.cli.serve import check_installed

__all__ = ["check_folder", "serve"]

_SECONDS_TO_ANSWER, _SECONDS_BETWEEN_QUESTIONS = 60, 0.1


def serve(
    directories: Sequence[Path],
    *,
    host: str = "127.0.0.1",
    port: int = 8501,
    base_path: str = "",
    headless: bool = False,
    live: bool = False,
    cell: str | None = None,
) -> NoReturn:
    """Replace this process by the dashboard, so that whatever ends the command ends the server.

    Parameters
    ----------
    directories : sequence of Path
        The output folders of runs.
    host : str
        The address that the server listens at.
    port : int
        The server's port on this machine.
    base_path : str
        The path below which a proxy serves the pages; empty for none.
    headless : bool
        Whether to leave the browser closed.
    live : bool
        Whether there is a page "Try it", which asks the calibrated PRM of the first run.
    cell : str or None
        The cell whose calibrator it uses.

    Raises
    ------
    RunError
        If a folder does not exist, or holds other files than those of a run.
    PrmcalError
        If the server of page "Try it" cannot start.
    """
    for directory in directories:
        check_folder(directory)
    # -P keeps the current folder off the import path: a module there must not replace an installed one.
    command = [sys.executable, "-P", "-m", "prmcal.dashboard", *map(str, directories)]
    command += ["--host", host, "--port", str(port), "--base-path", base_path]
    if live:
        command += ["--live", _start_server(directories[0], cell)]
    os.execv(sys.executable, [*command, *(["--headless"] if headless else [])])


def _start_server(directory: Path, cell: str | None) -> str:
    """Start `prmcal serve` for page "Try it". Return its address. It ends when this process ends, however it ends.

    Raises
    ------
    PrmcalError
        If it ends before it answers. It has said why.
    """
    check_installed()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ours, theirs = os.pipe()
    os.set_inheritable(theirs, True)  # The dashboard takes the place of this process and keeps it open.
    command = [
        sys.executable,
        "-P",
        "-m",
        "prmcal",
        "serve",
        str(directory),
        "--port",
        str(port),
        "--with-parent",
    ]
    server = subprocess.Popen(
        [*command, *(["--cell", cell] if cell else [])], stdin=ours, stdout=subprocess.DEVNULL
    )
    os.close(ours)
    print("The server of page 'Try it' starts. This takes some seconds.", flush=True)
    address = f"http://127.0.0.1:{port}"
    while True:
        with suppress(OSError):
            urllib.request.urlopen(address, timeout=_SECONDS_TO_ANSWER).close()
            return address
        if server.poll() is not None:
            raise PrmcalError(
                "Page 'Try it' has no server, so the dashboard was not started. See the message above."
            )
        time.sleep(_SECONDS_BETWEEN_QUESTIONS)


def check_folder(directory: Path) -> None:
    """Check that a folder has a run, or is empty so that a run can fill it.

    Raises
    ------
    RunError
        If it is neither.
    """
    if not directory.is_dir():
        what = "is a file" if directory.exists() else "does not exist"
        raise RunError(
            f"{directory} {what}. Give the output folder of a run. To start one: prmcal run GRID --out {directory}"
        )
    if (directory / RECORD_FILE).exists() or published_path(directory).exists():
        return
    if any(path.name != LOCK_FILE for path in directory.iterdir()):
        raise RunError(
            f"{directory} holds files, but none of a run. Give the folder after --out of `prmcal run`, or an empty one."
        )
