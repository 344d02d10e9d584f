"""Commands that use a calibrated PRM: ask, recommend, serve."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from prmcal.errors import PrmcalError
from prmcal.harness.cli import complete
from prmcal.harness.cli.app import app
from prmcal.harness.cli.exit_codes import ExitCode
from prmcal.harness.cli.options import (
    FormatOption,
    PagerOption,
    RunArgument,
    WideOption,
    filter_option,
)
from prmcal.harness.terminal.pager import show as show_text
from prmcal.harness.terminal.size import UNLIMITED

__all__: list[str] = []

SourceArgument = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="The output folder of a run, a saved calibrated PRM, or a checkpoint of `prmcal export-prm`.",
    ),
]
CellOption = Annotated[
    str | None,
    typer.Option(
        metavar="CELL",
        help="A cell with a calibrator, by its number, its id or a part of it. A cell of the scaling leaderboard also "
        "gives the strategy. By default it is the LLM that is right most often on the calibration questions, the PRM "
        "whose scores tell right from wrong best there, and the calibrator that is first in the ranking.",
        autocompletion=complete.cells,
    ),
]
LLMOption = Annotated[str | None, typer.Option(metavar="NAME", help="Choose a cell with this LLM.")]
PRMOption = Annotated[str | None, typer.Option(metavar="NAME", help="Choose a cell with this PRM.")]
CalibratorOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Choose a cell with this calibrator.")
]


@app.command()
def ask(
    run: SourceArgument,
    question: Annotated[
        str | None,
        typer.Argument(
            metavar="QUESTION", help="The question. Without it, or with -, standard input is read."
        ),
    ] = None,
    questions: Annotated[
        Path | None,
        typer.Option(
            "--questions",
            metavar="FILE",
            help='Answer many questions: JSON lines such as {"question": "1+1?", "id": "a"}.',
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where the answers of --questions are written, as JSON lines. The same command continues.",
        ),
    ] = None,
    cell: CellOption = None,
    llm: LLMOption = None,
    prm: PRMOption = None,
    calibrator: CalibratorOption = None,
    strategy: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A strategy. Default: that of the cell, or 'posterior vote'."),
    ] = None,
    target: Annotated[
        float | None, typer.Option(metavar="C", help="The target probability C of the strategy, in (0, 1).")
    ] = None,
    level: Annotated[
        float | None,
        typer.Option(metavar="BETA", help="The level of the reward that best-of-n + IAS reads, such as 0.1."),
    ] = None,
    max_samples: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="The largest number of samples of a question.")
    ] = None,
    abstain_below: Annotated[
        float | None,
        typer.Option(
            metavar="P", help='Say "I don\'t know" if the answer is right with a lower probability.'
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="SEED", help="Another seed gives other samples.")] = 0,
    output_format: Annotated[str, typer.Option("--format", metavar="FORMAT", help="text or json.")] = "text",
) -> None:
    """Answer new questions with a calibrated PRM.

    It draws solutions until the strategy needs no more, and prints the answer with the probability that it is right.
    Questions unlike the calibration questions are told as such.
    """
    from prmcal.harness.commands.output import one_of
    from prmcal.harness.commands.use.ask import Named
    from prmcal.harness.commands.use.ask.many import answer_file
    from prmcal.harness.commands.use.ask.one_question import answer

    one_of("--format", output_format, ("text", "json"))
    named = Named(run, cell, llm, prm, calibrator)
    settings = {
        "strategy": strategy,
        "target": target,
        "level": level,
        "max_samples": max_samples,
        "abstain_below": abstain_below,
        "seed": seed,
    }
    if questions is not None:
        if question is not None:
            raise PrmcalError("Give one question or --questions FILE, not both.")
        if out is None:
            raise PrmcalError("--questions needs --out FILE, where the answers are written.")
        summary = answer_file(named, questions, out, settings)
        typer.echo(summary.text(), err=True)
        for error in summary.errors:
            typer.echo(error, err=True)
        if summary.failed:
            raise typer.Exit(ExitCode.FAILED_CELLS)
        return
    if out is not None:
        raise PrmcalError("--out belongs to --questions FILE. One answer is printed.")
    text = _read_standard_input() if question in (None, "-") else str(question)
    typer.echo(answer(named, text, settings, output_format), nl=False)


def _read_standard_input() -> str:
    if sys.stdin.isatty():
        typer.echo("Type a question, and end it with Ctrl-D.", err=True)
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise PrmcalError("Standard input is not UTF-8 text.") from error


@app.command()
def recommend(
    directory: RunArgument,
    accuracy: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="The wanted share of right answers, such as 0.9: the cheapest choice with it.",
        ),
    ] = None,
    samples: Annotated[
        float | None,
        typer.Option(
            metavar="N", help="A budget: at most N samples of a question, on average over questions."
        ),
    ] = None,
    tokens: Annotated[
        float | None,
        typer.Option(metavar="N", help="A budget: at most N generated tokens of a question, on average."),
    ] = None,
    draw: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Draw and score trajectories of the calibration questions until each has N, so that larger budgets "
            "can be chosen. They are kept in DIR.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Worker processes of --draw. Default: one for each GPU or core."
        ),
    ] = None,
    output_format: FormatOption = "table",
    llm: Annotated[list[str] | None, filter_option("LLM")] = None,
    prm: Annotated[list[str] | None, filter_option("PRM")] = None,
    calibrator: Annotated[list[str] | None, filter_option("calibrator")] = None,
    dataset: Annotated[list[str] | None, filter_option("data set")] = None,
    strategy: Annotated[list[str] | None, filter_option("strategy")] = None,
    wide: WideOption = False,
    pager: PagerOption = True,
) -> None:
    """Recommend what to use for a wanted accuracy or a budget.

    Strategy, setting, LLM, PRM and calibrator are chosen on the calibration questions. The test questions only report
    what the choice reaches, with 95% intervals. Give exactly one of --accuracy, --samples and --tokens.

    If --draw is interrupted, run the same command again: finished work is kept.
    """
    from prmcal.harness.commands.use.recommend import render_recommendation
    from prmcal.harness.recommending.recommend import wanted_of

    filters = {"llm": llm, "prm": prm, "calibrator": calibrator, "dataset": dataset, "strategy": strategy}
    try:
        text = render_recommendation(
            directory,
            wanted_of(accuracy, samples, tokens),
            output_format,
            filters={kind: names for kind, names in filters.items() if names},
            draw=draw,
            workers=workers,
            width=UNLIMITED if wide else None,
        )
    except KeyboardInterrupt:
        typer.echo("Interrupted. Finished work is kept. To continue, run the same command again.", err=True)
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    show_text(text, pager and output_format == "table")


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
    from prmcal.harness.commands.use.serve import check_installed, serve_calibrated

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
