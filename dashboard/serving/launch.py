"""Starting the dashboard's web server."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import NoReturn

__all__ = ["launch"]

_OPTIONS = {
    "browser.gatherUsageStats": "false",
    "client.toolbarMode": "minimal",
    "client.showErrorDetails": "none",
    "server.address": "127.0.0.1",
    "server.fileWatcherType": "none",
    "server.showEmailPrompt": "false",
    "theme.light.primaryColor": "#0072B2",
    "theme.dark.primaryColor": "#56B4E9",
}


def launch(directory: Path, port: int = 8501, headless: bool = False) -> NoReturn:
    """Replace this process by a web server for `directory`. It listens on this machine only.

    Parameters
    ----------
    directory : Path
        Output folder of a run. It may be empty still: the page says so and fills when the run publishes.
    port : int
        Where it listens.
    headless : bool
        Open no browser window.

    Raises
    ------
    SystemExit
        If Streamlit is not installed.
    """
    if importlib.util.find_spec("streamlit") is None or importlib.util.find_spec("altair") is None:
        raise SystemExit(
            "The dashboard needs Streamlit and Altair. Install them: pip install 'prmcal[dashboard]'"
        )
    options = {**_OPTIONS, "server.port": str(port), "server.headless": str(headless).lower()}
    flags = [f"--{name}={value}" for name, value in options.items()]
    app = Path(__file__).parents[1] / "app.py"
    command = [
        sys.executable,
        "-P",
        "-m",
        "prmcal.dashboard.serving.server",
        "run",
        str(app),
        *flags,
        "--",
        "--dir",
        str(directory.resolve()),
    ]
    os.execv(sys.executable, command)
