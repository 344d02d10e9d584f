"""The command that serves a calibrated PRM: serve."""

from __future__ import annotations

from typing import Annotated

import typer

from prmcal.harness.cli.app import app
from prmcal.harness.cli.use import CalibratorOption, CellOption, LLMOption, PRMOption, SourceArgument

__all__: list[str] = []


@app.command()
def serve(
    run: SourceArgument,
    cell: CellOption = None,
    llm: LLMOption = None,
    prm: PRMOption = None,
    calibrator: CalibratorOption = None,
    host: Annotated[
        str,
        typer.Option(
            metavar="HOST",
            help="The address that the server listens at. With 0.0.0.0, other machines can reach it.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=65535, help="The port; 0 for any free one.")
    ] = 8000,
    max_body: Annotated[
        int,
        typer.Option(metavar="BYTES", min=1, help="The largest body of a request; a larger one gets 413."),
    ] = 2**20,
    max_concurrent: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Requests that are answered at one time; others get 503."),
    ] = 64,
    max_rows: Annotated[
        int, typer.Option(metavar="N", min=1, help="The largest number of trajectories in a request.")
    ] = 256,
    max_question: Annotated[
        int, typer.Option(metavar="CHARACTERS", min=1, help="The longest question.")
    ] = 20_000,
    batch: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="Trajectories that are scored together. They come from all requests that wait.",
        ),
    ] = 64,
    grace: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0.1,
            help="Time for running requests to finish when the server is told to end.",
        ),
    ] = 20.0,
    with_parent: Annotated[bool, typer.Option("--with-parent", hidden=True)] = False,
) -> None:
    """Serve a calibrated PRM over HTTP.

    POST /score returns the rewards of all prefixes of trajectories, POST /solve answers a question, at once or step by
    step, and POST /samples says how many samples a question needs. GET /openapi.json describes all of it.

    Only this machine can reach the server, unless --host says otherwise. Running requests may finish
    after Ctrl-C or SIGTERM.
    """
    from prmcal.harness.commands.serve import check_installed, serve_calibrated

    check_installed()
    from prmcal.harness.serving.limits import Limits

    limits = Limits(
        body=max_body,
        concurrent=max_concurrent,
        rows=max_rows,
        characters=max_question,
        batch=batch,
        grace_seconds=grace,
    )
    names = {"llm": llm, "prm": prm, "calibrator": calibrator}
    serve_calibrated(run, cell, names, host=host, port=port, limits=limits, with_parent=with_parent)
