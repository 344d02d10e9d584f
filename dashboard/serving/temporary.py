"""A dashboard for as long as a program needs one: for pictures and tests."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["serving"]

_PATIENCE = 60


@contextmanager
def serving(directory: Path) -> Iterator[str]:
    """Serve an output folder on a free port of this machine, in a process of its own; gives the address.

    Raises
    ------
    RuntimeError
        If the server ends, or does not answer within a minute.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        sys.executable,
        "-P",
        "-m",
        "prmcal.dashboard",
        str(directory),
        "--port",
        str(port),
        "--headless",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        _wait(process, f"{address}/_stcore/health")
        yield address
    finally:
        process.terminate()
        process.wait(timeout=20)


def _wait(process: subprocess.Popen[bytes], address: str) -> None:
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError("The dashboard's server ended before it answered.")
        with suppress(OSError):
            urllib.request.urlopen(address, timeout=5).close()
            return
        time.sleep(0.1)
    raise RuntimeError("The dashboard's server does not answer.")
