"""Commands that show results as pages and files: dashboard, report, export."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from prmcal.db.run_folder import LOCK_FILE, RECORD_FILE, published_path
from prmcal.errors import PrmcalError, RunError
from prmcal.harness.cli.options import RunArgument, RunsArgument, completing_cells, option
from prmcal.harness.cli.serve import check_installed

_SECONDS_TO_ANSWER, _SECONDS_BETWEEN_QUESTIONS = 60, 0.1


def dashboard(
    directories: RunsArgument,
    port: Annotated[int, option("PORT", "The port of the server.", min=1, max=65535)] = 8501,
    host: Annotated[
        str,
        option(
            "HOST", "The address that the server listens at. With 0.0.0.0, other machines can open the pages."
        ),
    ] = "127.0.0.1",
    base_path: Annotated[
        str, option("PATH", "The path below which a proxy serves the pages, such as /prmcal.")
    ] = "",
    headless: Annotated[bool, typer.Option("--headless", help="Do not open a browser.")] = False,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="Add page 'Try it', which answers questions with the models of the first DIR. It loads them.",
        ),
    ] = False,
    cell: Annotated[
        str | None,
        option("CELL", "With --live: the cell whose calibrator is used.", autocompletion=completing_cells),
    ] = None,
) -> None:
    """Open the results in a browser.

    A folder may be empty: the pages fill up when a run writes into it. With several runs, the pages have a switch and
    show the differences between runs.
    """
    # This process becomes the dashboard, so that whatever ends the command ends the server.
    for directory in directories:
        check_folder(directory)
    try:
        socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError as error:
        raise PrmcalError(
            f"The dashboard cannot listen at {host} port {port}: {error.strerror}. Give another --host or --port."
        ) from error
    address = _start_server(directories[0], cell) if live else ""
    # -P keeps the current folder off the import path: a module there must not replace an installed one.
    command = [sys.executable, "-P", "-m", "prmcal.dashboard", f"--server.address={host}"]
    command += [f"--server.port={port}", f"--server.baseUrlPath={base_path.strip('/')}"]
    command += [f"--server.headless={str(headless).lower()}", "--", address]
    os.execv(sys.executable, [*command, *(str(each.resolve()) for each in directories)])


def report(
    directory: RunArgument,
    out: Annotated[
        Path, option("REPORT", "The folder of the report: new, empty, or an earlier report.", "--out")
    ],
) -> None:
    """Write a report with tables and figures.

    Tables are written as Markdown, CSV and LaTeX, and figures as PNG, PDF and SVG.
    """
    from prmcal.harness.report import write_report

    files = write_report(directory, out)
    typer.echo(f"Wrote {len(files)} files to {out}. Start with {out / 'README.md'}.", err=True)


def export(
    directories: RunsArgument,
    html: Annotated[
        Path, option("SITE", "The folder of the site: new, empty, or an earlier site.", "--html")
    ],
) -> None:
    """Write the leaderboards as a static site.

    A browser can open its files without a server, and GitHub Pages can host it. With several runs, its first page
    compares them.
    """
    from prmcal.harness.site import write_site

    files = write_site(directories, html)
    typer.echo(f"Wrote {len(files)} files to {html}. Open {html / 'index.html'}.", err=True)


def _start_server(directory: Path, cell: str | None) -> str:
    """Start `prmcal serve` for page "Try it". Return its address. It ends when this process ends, however it ends.

    Raise PrmcalError if it ends before it answers. It has said why.
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
    """Raise RunError unless a folder has a run, or is empty so that a run can fill it."""
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
