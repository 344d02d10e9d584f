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
