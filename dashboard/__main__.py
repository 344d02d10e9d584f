"""``python -m prmcal.dashboard DIR...``: start the dashboard of output folders, as ``prmcal dashboard DIR...`` does."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from pathlib import Path

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


def main() -> None:
    """Replace this process by a web server. By default, only this machine can reach it.

    Raises
    ------
    SystemExit
        If Streamlit is not installed.
    """
    parser = argparse.ArgumentParser(
        prog="python -m prmcal.dashboard", description="Open the results of a run in a browser."
    )
    parser.add_argument(
        "directories", type=Path, nargs="+", metavar="DIR", help="output folders of one or more runs"
    )
    parser.add_argument(
        "--port", type=int, default=8501, help="port of the web server (default: %(default)s)"
    )
    parser.add_argument("--headless", action="store_true", help="open no browser window")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address that the server listens at (default: %(default)s)"
    )
    parser.add_argument("--base-path", default="", help="path below which a proxy serves the pages")
    parser.add_argument("--live", default="", metavar="ADDRESS", help="address of a server of the first run")
    arguments = parser.parse_args()
    if importlib.util.find_spec("streamlit") is None or importlib.util.find_spec("altair") is None:
        raise SystemExit(
            "The dashboard needs Streamlit and Altair. Install them: pip install 'prmcal[dashboard]'"
        )
    options = {
        **_OPTIONS,
        "server.address": arguments.host,
        "server.baseUrlPath": arguments.base_path.strip("/"),
        "server.port": str(arguments.port),
        "server.headless": str(arguments.headless).lower(),
    }
    script = Path(__file__).with_name("serving") / "script" / "prmcal_dashboard.py"
    command = [sys.executable, "-P", "-m", "prmcal.dashboard.serving.server", "run", str(script)]
    command += [f"--{name}={value}" for name, value in options.items()]
    command += ["--", *(["--live", arguments.live] if arguments.live else []), "--dir"]
    os.execv(sys.executable, [*command, *(str(each.resolve()) for each in arguments.directories)])


if __name__ == "__main__":
    main()
