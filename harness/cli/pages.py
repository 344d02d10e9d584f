"""Commands that show results: dashboard, report."""

import os
import socket
import sys
from pathlib import Path
from typing import Annotated

import typer

from prmcal.db.run_folder import LOCK_FILE, RECORD_FILE, published_path
from prmcal.errors import PrmcalError, RunError
from prmcal.harness.cli import options
from prmcal.harness.cli.options import option
from prmcal.harness.serving.access import hosts_of


def dashboard(
    directory: options.RunArgument,
    port: Annotated[int, option("PORT", "The port of the server.", min=1, max=65535)] = 8501,
    host: Annotated[
        str, option("HOST", "The address that the server listens at. With 0.0.0.0, other machines can open the pages.")
    ] = "127.0.0.1",
    allowed_hosts: options.AllowedHostsOption = None,
    headless: Annotated[bool, typer.Option("--headless", help="Do not open a browser.")] = False,
) -> None:
    """Open the results in a browser.

    The folder may be empty: the pages fill up when a run writes into it. To see the results of several runs, join
    their folders with `prmcal merge`.
    """
    # This process becomes the dashboard, so that whatever ends the command ends the server.
    check_folder(directory)
    try:
        socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError as error:
        raise PrmcalError(
            f"The dashboard cannot listen at {host} port {port}: {error.strerror}. Give another --host or --port."
        ) from error
    # -P keeps the current folder off the import path: a module there must not replace an installed one.
    command = [sys.executable, "-P", "-m", "prmcal.dashboard", f"--server.address={host}"]
    command.append(f"--server.port={port}")
    command += [f"--server.allowedHosts={allowed_host}" for allowed_host in hosts_of(host, allowed_hosts or ())]
    command += [f"--server.headless={str(headless).lower()}", "--"]
    typer.echo("Reading the results. The address follows when the pages are ready.", err=True)
    os.execv(sys.executable, [*command, str(directory.resolve())])


def report(
    directory: options.RunArgument,
    out: Annotated[Path, option("REPORT", "The folder of the report: new, empty, or an earlier report.")],
) -> None:
    """Write a report with tables and figures.

    Tables are written as CSV and LaTeX, and figures as PNG, PDF, SVG and CSV.
    """
    from prmcal.harness.report import write_report

    files = write_report(directory, out)
    typer.echo(f"Wrote {len(files)} files to {out}. The captions are in {out / 'report.json'}.", err=True)


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
