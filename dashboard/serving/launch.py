"""Starting the web server of the dashboard."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
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


def launch(directories: Sequence[Path], port: int = 8501, headless: bool = False) -> NoReturn:
    """Replace this process by a web server that only this machine can reach.

    Parameters
    ----------
    directories : sequence of Path
        The output folders of one or more runs. They may be empty: the pages update when a run publishes results.
    port : int
        The port of the server.
    headless : bool
        Whether to open no browser window.

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
        "--dir",
        *(str(directory.resolve()) for directory in directories),
    ]
    os.execv(sys.executable, command)
