"""``prmcal ask``: answer a new question, or those of a file, with a calibrated PRM."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prmcal.db.text.formats import amount, counted, interval, number
from prmcal.errors import PrmcalError
from prmcal.harness.cli.app import ExitCode
from prmcal.harness.cli.ask_file import Named, answer_file, no_garbage_collection
from prmcal.harness.cli.options import (
    CalibratorOption,
    CellOption,
    LLMOption,
    PRMOption,
    SourceArgument,
    one_of,
)
from prmcal.harness.terminal import cut, terminal_width, text_table, wrapped
from prmcal.steps import split_steps

if TYPE_CHECKING:
    from prmcal.harness.inference.calibrated_prm import CalibratedPRM
    from prmcal.harness.inference.results import PrefixRewards, Solution


_HANGING = " " * 13


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
    typer.echo(_answer(named, text, settings, output_format), nl=False)


def _read_standard_input() -> str:
    if sys.stdin.isatty():
        typer.echo("Type a question, and end it with Ctrl-D.", err=True)
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise PrmcalError("Standard input is not UTF-8 text.") from error


def _answer(named: Named, question: str, settings: Mapping[str, Any], output_format: str) -> str:
    """Answer a question, and return what the command prints."""
    with no_garbage_collection():
        prm = named.load()
        # The process ends after it, which frees the models' memory faster than `close`.
        return _rendered(prm, prm.solve(question, **settings), output_format)


def _rendered(prm: CalibratedPRM, solution: Solution, output_format: str) -> str:
    """Return the answer first, then how sure it is, what it cost, and its steps."""
    if output_format == "json":
        content = {"cell": prm.name, "chosen_by": prm.chosen_by, **solution.as_data()}
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    lines = [_answer_line(solution), ""]
    facts = [("Probability", _probability(solution)), ("Spent", _spent(solution)), ("Why", solution.reason)]
    if solution.familiarity.message:
        facts.append(("Beware", solution.familiarity.message))
    facts.append(
        ("Models", f"{prm.prm} calibrated by {prm.calibrator}, for {prm.llm}. {prm.chosen_by}".rstrip())
    )
    lines += [wrapped(f"{name:13}{text}", hanging=_HANGING) for name, text in facts]
    if solution.rewards is not None and solution.chosen is not None:
        lines += ["", _steps(solution.rewards, solution.trajectories[solution.chosen].text)]
    return "\n".join(lines) + "\n"


def _answer_line(solution: Solution) -> str:
    """Return the answer in one line, or "I don't know"."""
    if solution.answer is not None:
        return cut(solution.answer, terminal_width())
    return "I don't know." if solution.abstained else "No answer."


def _probability(solution: Solution) -> str:
    if solution.probability is None:
        return "There is no answer to judge."
    share = number(solution.probability)
    known = (
        "" if solution.low is None or solution.high is None else f" {interval(solution.low, solution.high)}"
    )
    given = solution.chosen is not None and solution.abstained
    what = f"that the answer '{_best(solution)}' is right" if given else "that this is right"
    basis = (
        ", from all scores and votes"
        if solution.basis == "posterior"
        else ", from the calibrated reward of the last step before the answer"
    )
    return f"{share}{known} {what}{basis}"


def _best(solution: Solution) -> str:
    assert solution.chosen is not None
    return cut(solution.trajectories[solution.chosen].answer or "", 40)


def _spent(solution: Solution) -> str:
    spent = solution.spent
    return (
        f"{counted(spent.samples, 'sample')}, {amount(spent.generated_tokens)} generated tokens, "
        f"{amount(spent.prm_tokens)} tokens of the PRM, {spent.seconds:.1f} s"
    )


def _steps(rewards: PrefixRewards, text: str) -> str:
    """Return the table of the steps with their rewards."""
    width = min(terminal_width(), 100)
    several = len(rewards.levels) > 1
    title = f"[{rewards.levels[0]:g}, {rewards.levels[-1]:g}]" if several else ""
    rows = []
    for t, step in enumerate(("(the bare question)", *split_steps(text))):
        point, quantiles, own = rewards.point[t], rewards.quantiles[t], rewards.uncalibrated[t]
        if rewards.terminal[t]:
            calibrated = "has the answer"
        elif point is None or quantiles is None:
            calibrated = "too long"
        else:
            calibrated = number(point) + (f" {interval(quantiles[0], quantiles[-1])}" if several else "")
        rows.append((cut(step, width - 40), "" if own is None else number(own), calibrated))
    return text_table(("Step", "Reward", f"Calibrated {title}".rstrip()), rows, width)
