"""``python -m prmcal.dashboard DIR...``: start the dashboard of output folders, as ``prmcal dashboard DIR...`` does."""

from __future__ import annotations

import argparse
from pathlib import Path

from prmcal.dashboard.serving.launch import launch


def main() -> None:
    """Read the command line and start the server."""
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
    launch(
        arguments.directories,
        arguments.port,
        arguments.headless,
        host=arguments.host,
        base_path=arguments.base_path,
        live=arguments.live,
    )


if __name__ == "__main__":
    main()
