"""Starting the web server of the dashboard, in place of this process or in the background of it."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

_OPTIONS = {
    "browser.gatherUsageStats": "false",
    "client.toolbarMode": "minimal",
    "client.showErrorDetails": "none",
    "server.fileWatcherType": "none",
    "server.showEmailPrompt": "false",
    # Streamlit draws captions and labels in a paler tone of the text colour. With its own text colour, their contrast
    # on a light page is 3.9:1.
    "theme.light.textColor": "#111111",
    "theme.light.primaryColor": "#0072B2",
    "theme.dark.primaryColor": "#56B4E9",
}


def launch(
    directories: Sequence[Path],
    port: int = 8501,
    headless: bool = False,
    *,
    host: str = "127.0.0.1",
    base_path: str = "",
    live: str = "",
) -> NoReturn:
    """Replace this process by a web server. By default, only this machine can reach it.

    Parameters
    ----------
    directories : sequence of Path
        The output folders of one or more runs. They may be empty: the pages update when a run publishes results.
    port : int
        The port of the server.
    headless : bool
        Whether to open no browser window.
    host : str
        The address that the server listens at. With ``0.0.0.0``, other machines can reach it.
    base_path : str
        The path below which a proxy serves the pages; empty for none.
    live : str
        The address of a server of the first run, for page "Try it"; empty for none.

    Raises
    ------
    SystemExit
        If Streamlit is not installed.
    """
    if importlib.util.find_spec("streamlit") is None or importlib.util.find_spec("altair") is None:
        raise SystemExit(
            "The dashboard needs Streamlit and Altair. Install them: pip install 'prmcal[dashboard]'"
        )
    options = {
        **_OPTIONS,
        "server.address": host,
        "server.baseUrlPath": base_path.strip("/"),
        "server.port": str(port),
        "server.headless": str(headless).lower(),
    }
    flags = [f"--{name}={value}" for name, value in options.items()]
    script = Path(__file__).with_name("script") / "prmcal_dashboard.py"
    command = [
        sys.executable,
        "-P",
        "-m",
        "prmcal.dashboard.serving.server",
        "run",
        str(script),
        *flags,
        "--",
        *(["--live", live] if live else []),
        "--dir",
        *(str(directory.resolve()) for directory in directories),
    ]
    os.execv(sys.executable, command)


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
