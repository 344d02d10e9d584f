"""A dashboard server that runs in the background while a program uses it, for screenshots and tests."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["background_server"]

_TIMEOUT = 240  # seconds


@contextmanager
def background_server(*directories: Path) -> Iterator[str]:
    """Serve the dashboard of output folders in a separate process, on a free port of this machine.

    Yields
    ------
    str
        The address of the server.

    Raises
    ------
    RuntimeError
        If the server ends or does not answer within four minutes.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-P", "-m", "prmcal.dashboard", *map(str, directories)]
    process = subprocess.Popen(
        [*command, "--port", str(port), "--headless"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait(process, f"{address}/_stcore/health")
        yield address
    finally:
        process.terminate()
        process.wait(timeout=_TIMEOUT)


def _wait(process: subprocess.Popen[bytes], address: str) -> None:
    end = time.monotonic() + _TIMEOUT
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"The dashboard server ended with exit status {process.returncode}.")
        with suppress(OSError):
            urllib.request.urlopen(address, timeout=5).close()
            return
        time.sleep(0.1)
    raise RuntimeError(f"The dashboard server did not answer within {_TIMEOUT} seconds.")
