"""Commands that show results, and those that serve: dashboard, report, serve."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prmcal.db.run_folder import LOCK_FILE, RECORD_FILE, published_path
from prmcal.errors import PrmcalError, RunError
from prmcal.harness.cli import options
from prmcal.harness.cli.ask import loaded
from prmcal.harness.cli.options import WORDS, option
from prmcal.harness.serving.access import Access, hosts_of, is_local, token_for

if TYPE_CHECKING:
    from prmcal.harness.inference.calibrated_prm import CalibratedPRM


def dashboard(
    directories: options.RunsArgument,
    port: Annotated[int, option("PORT", WORDS["dashboard"]["port"], min=1, max=65535)] = 8501,
    host: Annotated[str, option("HOST", WORDS["dashboard"]["host"])] = "127.0.0.1",
    base_path: Annotated[str, option("PATH", WORDS["dashboard"]["base_path"])] = "",
    allowed_hosts: options.AllowedHostsOption = None,
    headless: Annotated[bool, typer.Option("--headless", help=WORDS["dashboard"]["headless"])] = False,
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
    # -P keeps the current folder off the import path: a module there must not replace an installed one.
    command = [sys.executable, "-P", "-m", "prmcal.dashboard", f"--server.address={host}"]
    command += [f"--server.port={port}", f"--server.baseUrlPath={base_path.strip('/')}"]
    command += [f"--server.allowedHosts={each}" for each in hosts_of(host, allowed_hosts or ())]
    command += [f"--server.headless={str(headless).lower()}", "--"]
    typer.echo("Reading the results. The address follows when the pages are ready.", err=True)
    os.execv(sys.executable, [*command, *(str(each.resolve()) for each in directories)])


def report(
    directory: options.RunArgument,
    out: Annotated[Path, option("REPORT", WORDS["report"]["out"])],
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


_PACKAGES = ("fastapi", "uvicorn")
_EXAMPLE = {
    "messages": [
        {"role": "user", "content": "Begin at 67, keeping two digits. a) subtract 4, b) add 1."},
        {"role": "assistant", "content": "a) 67-4=63"},
    ]
}


def serve(
    run: options.SourceArgument,
    cell: options.CellOption = None,
    llm: options.LLMOption = None,
    prm: options.PRMOption = None,
    calibrator: options.CalibratorOption = None,
    host: Annotated[str, option("HOST", WORDS["serve"]["host"])] = "127.0.0.1",
    port: Annotated[int, option("PORT", WORDS["serve"]["port"], min=0, max=65535)] = 8000,
    max_body: Annotated[int, option("BYTES", WORDS["serve"]["max_body"], min=1)] = 2**20,
    max_concurrent: Annotated[int, option("N", WORDS["serve"]["max_concurrent"], min=1)] = 64,
    max_rows: Annotated[int, option("N", WORDS["serve"]["max_rows"], min=1)] = 256,
    max_question: Annotated[int, option("CHARACTERS", WORDS["serve"]["max_question"], min=1)] = 20_000,
    max_samples: Annotated[int, option("N", WORDS["serve"]["max_samples"], min=1)] = 256,
    allowed_hosts: options.AllowedHostsOption = None,
    batch: Annotated[int, option("N", WORDS["serve"]["batch"], min=1)] = 64,
    grace: Annotated[float, option("SECONDS", WORDS["serve"]["grace"], min=0.1)] = 20.0,
) -> None:
    """Serve a calibrated PRM over HTTP.

    It speaks what clients speak. POST /pooling scores the steps of trajectories in vLLM's form of a PRM, and POST
    /v1/chat/completions answers a question in OpenAI's form. GET /openapi.json describes all of it.

    Only this machine can reach the server, unless --host says otherwise. Then requests that compute need the token in
    the environment variable PRMCAL_SERVER_TOKEN, or the one that is printed. Running requests may finish after Ctrl-C
    or SIGTERM.
    """
    if any(importlib.util.find_spec(name) is None for name in _PACKAGES):
        raise PrmcalError(
            "The server needs FastAPI and uvicorn. Install them in a clone of prmcal: pip install '.[serve]'"
        )
    from prmcal.harness.serving.app import bound_socket
    from prmcal.harness.serving.app import run as answer_requests
    from prmcal.harness.serving.bodies import Limits

    limits = Limits(
        body=max_body,
        concurrent=max_concurrent,
        rows=max_rows,
        characters=max_question,
        samples=max_samples,
        batch=batch,
        grace_seconds=grace,
    )
    listening = bound_socket(host, port)
    access = Access(tuple(hosts_of(host, allowed_hosts or ())), token_for(host))
    with loaded(run, cell, llm, prm, calibrator) as served:
        print(_first_lines(served, access.token, *listening.getsockname()[:2]), flush=True)
        answer_requests(served, access, limits, listening)


def _first_lines(prm: CalibratedPRM, token: str, host: str, port: int) -> str:
    """Return what is served, where, and how to try it."""
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    llm = f", for {prm.llm}," if prm.llm else ""
    body = shlex.quote(json.dumps(_EXAMPLE))
    authorization = f" -H 'authorization: Bearer {token}'" if token else ""
    lines = [
        f"Serving {prm.prm} calibrated by {prm.calibrator}{llm} at {address}. Ctrl-C ends it.",
        *([prm.chosen_by] if prm.chosen_by else []),
        *([f"Clients of OpenAI find it at {address}/v1."] if prm.llm else []),
        f"Try it: curl {address}/pooling{authorization} -H 'content-type: application/json' -d {body}",
    ]
    if not is_local(host):
        lines.append(
            "Other machines can reach this server. Whoever has the token can use its models, and it travels "
            "unencrypted: put a proxy with TLS before the server, or leave out --host."
        )
    return "\n".join(lines)
