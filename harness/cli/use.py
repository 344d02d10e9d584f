"""Commands that use a calibrated PRM: ask."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from prmcal.errors import PrmcalError
from prmcal.harness.cli import complete
from prmcal.harness.cli.app import app
from prmcal.harness.cli.exit_codes import ExitCode

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
    from prmcal.harness.commands.ask import Named
    from prmcal.harness.commands.ask.many import answer_file
    from prmcal.harness.commands.ask.one_question import answer
    from prmcal.harness.commands.output import one_of

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
