"""``prmcal recommend``: what to use for a wanted accuracy or a budget, as text, JSON, CSV or Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from prmcal.db.overview.types import Quantity
from prmcal.db.text.board import Column
from prmcal.db.text.formats import amount, counted, duration, interval, markdown_grid, number
from prmcal.harness.cli.app import ExitCode
from prmcal.harness.cli.options import (
    FORMATS,
    CalibratorsOption,
    DatasetsOption,
    FormatOption,
    LLMsOption,
    PagerOption,
    PRMsOption,
    RunArgument,
    StrategiesOption,
    WideOption,
    exported,
    given,
    hidden_note,
    one_of,
)
from prmcal.harness.recommending.recommend import recommend as recommended
from prmcal.harness.recommending.recommend import wanted_of
from prmcal.harness.recommending.types import Line, Recommendation, Tested, ask_command, recommendation_frame
from prmcal.harness.terminal import UNLIMITED, fit, wrapped
from prmcal.harness.terminal import show as show_text


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
    llm: LLMsOption = None,
    prm: PRMsOption = None,
    calibrator: CalibratorsOption = None,
    dataset: DatasetsOption = None,
    strategy: StrategiesOption = None,
    wide: WideOption = False,
    pager: PagerOption = True,
) -> None:
    """Recommend what to use for a wanted accuracy or a budget.

    Strategy, setting, LLM, PRM and calibrator are chosen on the calibration questions. The test questions only report
    what the choice reaches, with 95% intervals. Give exactly one of --accuracy, --samples and --tokens.

    If --draw is interrupted, run the same command again: finished work is kept.
    """
    one_of("--format", output_format, FORMATS)
    try:
        found = recommended(
            directory,
            wanted_of(accuracy, samples, tokens),
            filters=given(llm=llm, prm=prm, calibrator=calibrator, dataset=dataset, strategy=strategy),
            trajectories=draw,
            workers=workers,
            started=_tell_cost,
        )
    except KeyboardInterrupt:
        typer.echo("Interrupted. Finished work is kept. To continue, run the same command again.", err=True)
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    if output_format in ("csv", "json"):
        text = exported(recommendation_frame(found, directory), output_format)
    elif output_format == "markdown":
        text = _markdown(found, directory)
    else:
        text = recommendation_text(found, directory, UNLIMITED if wide else None)
    show_text(text, pager and output_format == "table")


def recommendation_text(found: Recommendation, directory: Path, width: int | None = None) -> str:
    """Return a recommendation as text of the terminal.

    Parameters
    ----------
    found : Recommendation
    directory : Path
        The output folder of the run, for the commands.
    width : int, optional
        Default: the width of the terminal.
    """
    own = fit(_test_columns(found.recommended), width)
    others = fit(_other_columns(found), width)
    hidden = [*own.hidden, *(each for each in others.hidden if each not in own.hidden)]
    below = [_known(found)]
    if hidden:
        below.append(hidden_note(hidden, "--format csv"))
    parts = [
        wrapped(_headline(found), width),
        own.text,
        *[wrapped(each, width) for each in (*_verdicts(found), *_limits(found))],
        f"To use it:\n  {ask_command(found.recommended, directory)}",
        f"{wrapped(_OTHERS, width)}\n\n{others.text}",
        "\n".join(wrapped(each, width) for each in below),
        *[wrapped(each, width) for each in _notes(found)],
    ]
    return "\n\n".join(parts) + "\n"


_OTHERS = (
    "The recommended choice, the plain best-of-n, and the best settings of other strategies and LLMs, in the order of "
    "the calibration questions. The test questions report, and do not choose."
)


def _tell_cost(samples: int, seconds: float | None) -> None:
    time = "" if seconds is None else f" This takes about {duration(seconds)} here."
    text = f"Drawing {counted(samples, 'trajectory', 'trajectories')} of the calibration questions.{time}"
    typer.echo(wrapped(text), err=True)


def _headline(found: Recommendation) -> str:
    line, wanted = found.recommended, found.wanted
    if found.reached:
        return f"For {wanted.text}, use {_described(line)}."
    known = line.known.accuracy
    return (
        f"{wanted.text[:1].upper()}{wanted.text[1:]} is out of reach on the calibration questions. The best choice "
        f"there reaches {_value(known)}: {_described(line)}."
    )


def _described(line: Line) -> str:
    choice = line.choice
    models = [f"the LLM {choice.llm}"]
    if choice.prm:
        models.append(f"the PRM {choice.prm}")
    if choice.calibrator:
        level = "" if choice.level is None else f" at the level {choice.level:g}"
        models.append(f"the calibrator {choice.calibrator}{level}")
    listed = f"{', '.join(models[:-1])} and {models[-1]}" if len(models) > 1 else models[0]
    return f"{choice.strategy} ({choice.setting}) with {listed}"


def _verdicts(found: Recommendation) -> list[str]:
    """Return sentences about the test questions: whether they hold what is wanted, and what the choice gains."""
    sentences = []
    for each in found.recommended.tests:
        if found.wanted.kind == "accuracy":
            sentences.append(_reached(each, found.wanted.value))
        else:
            cost = each.samples if found.wanted.kind == "samples" else each.tokens
            if cost is not None and cost.value > found.wanted.value * (1 + 1e-9):
                spent = f"{amount(cost.value)} {found.wanted.kind}"
                sentences.append(
                    f"On the test questions of {each.dataset} it costs {spent}, more than is wanted."
                )
    plain = found.fixed
    if (
        found.wanted.kind != "accuracy"
        and plain.known.accuracy.value > found.recommended.known.accuracy.value
    ):
        sentences.append(
            f"The plain best-of-n ({plain.choice.setting}) is more accurate on the calibration questions: "
            f"{_value(plain.known.accuracy)}."
        )
    if found.recommended.tests and found.recommended.tests[0].to_fixed is None:
        sentences.append(
            "This is the plain best-of-n: no other choice is better on the calibration questions."
        )
    return [" ".join(sentences)] if sentences else []


def _reached(test: Tested, wanted: float) -> str:
    value = f"{_value(test.accuracy)} on the test questions of {test.dataset}"
    if test.accuracy.low >= wanted:
        return f"It is reached: {value}."
    if test.accuracy.high < wanted:
        return f"It is missed: {value}."
    met = "at least" if test.accuracy.value >= wanted else "below"
    return f"It is not certain: {value}, which is {met} {wanted:g}, and the interval contains it."


def _known(found: Recommendation) -> str:
    line = found.recommended
    return (
        f"Chosen from {counted(found.choices, 'choice')} by {found.questions:,} calibration questions with "
        f"{counted(found.trajectories, 'trajectory', 'trajectories')} each, in {found.folds} folds: what is fitted for "
        f"a choice never sees the questions that judge it. Its accuracy there is {_value(line.known.accuracy)}. The "
        "best of many choices looks better than it is, so trust the test questions."
    )


def _limits(found: Recommendation) -> list[str]:
    """Return a sentence about larger budgets, if the calibration questions have too few trajectories for them."""
    more = found.more
    if more is None:
        return []
    time = "" if more.seconds is None else f", which takes about {duration(more.seconds)} here"
    return [
        f"Each calibration question has {found.trajectories} trajectories, so settings with more samples cannot be "
        f"chosen. To draw more, add --draw {more.trajectories}{time}."
    ]


def _notes(found: Recommendation) -> list[str]:
    notes = []
    if len({line.choice.llm for line in (found.recommended, *found.others)}) > 1:
        notes.append("Samples of different LLMs do not cost the same. --llm NAME chooses for one LLM.")
    if found.in_sample:
        notes.append(
            f"The rewards of {', '.join(found.in_sample)} on the calibration questions come from a fit to the same "
            "questions, so the choice favours it. The test questions are not affected."
        )
    reasons: dict[str, list[str]] = {}
    for each in found.left_out:
        reasons.setdefault(each.reason, []).append(each.name)
    if reasons:
        listed = "; ".join(
            f"{', '.join(dict.fromkeys(names))} ({reason.rstrip('.')})" for reason, names in reasons.items()
        )
        notes.append(f"Left out: {listed}.")
    return notes


def _test_columns(line: Line) -> list[Column]:
    tests = line.tests
    columns = [
        Column("Test questions", tuple(each.dataset for each in tests)),
        Column("Number", tuple(f"{each.questions:,}" for each in tests)),
        Column("Accuracy", tuple(_value(each.accuracy) for each in tests), whole=True),
        Column("Samples", tuple(_value(each.samples, 2) for each in tests), 1, whole=True),
        Column("Tokens", tuple(_tokens(each.tokens) for each in tests), 4, whole=True),
    ]
    if any(each.to_fixed is not None for each in tests):
        columns.append(
            Column(
                "Accuracy minus best-of-n of equal cost",
                tuple(_signed(each.to_fixed) for each in tests),
                2,
                whole=True,
            )
        )
    one = tuple(_signed(each.to_pass_at_1) for each in tests)
    return [*columns, Column("Accuracy minus one sample", one, 3, whole=True)]


def _other_columns(found: Recommendation) -> list[Column]:
    lines = [found.recommended]
    if found.fixed.choice != found.recommended.choice:
        lines.append(found.fixed)
    lines += found.others
    columns = [
        Column("Strategy", tuple(each.choice.strategy for each in lines)),
        Column("Setting", tuple(each.choice.setting for each in lines), whole=True),
        *[
            Column(title, names, weight)
            for title, names, weight in (
                ("LLM", tuple(each.choice.llm for each in lines), 1),
                ("PRM", tuple(each.choice.prm for each in lines), 6),
                ("Calibrator", tuple(each.choice.calibrator for each in lines), 5),
            )
            if len(set(names)) > 1  # What all have in common is in the first sentence.
        ],
        Column("Calibration accuracy", tuple(_value(each.known.accuracy) for each in lines), 3, whole=True),
        Column("Calibration samples", tuple(number(each.known.samples.value, 2) for each in lines), 6),
    ]
    for place, test in enumerate(found.recommended.tests):
        own = [each.tests[place] for each in lines]
        columns += [
            Column(f"{test.dataset} accuracy", tuple(_value(each.accuracy) for each in own), 4, whole=True),
            Column(f"{test.dataset} samples", tuple(number(each.samples.value, 2) for each in own), 7),
            Column(
                f"{test.dataset} minus recommended",
                tuple(_signed(each.to_recommended) for each in own),
                8,
                whole=True,
            ),
        ]
    return columns


def _markdown(found: Recommendation, directory: Path) -> str:
    tables = [
        markdown_grid(
            [each.title for each in columns],
            list(zip(*(each.values for each in columns), strict=True)),
            left,
        )
        for columns, left in ((_test_columns(found.recommended), 1), (_other_columns(found), 2))
    ]
    command = f"```sh\n{ask_command(found.recommended, directory)}\n```"
    parts = [
        _headline(found),
        tables[0],
        *_verdicts(found),
        *_limits(found),
        command,
        _OTHERS,
        tables[1],
        _known(found),
    ]
    return "\n\n".join([*parts, *_notes(found)]) + "\n"


def _value(value: Quantity, digits: int = 3) -> str:
    ends = interval(value.low, value.high, digits)
    return (
        f"{number(value.value, digits)} {ends}".rstrip()
        if value.low != value.high
        else number(value.value, digits)
    )


def _signed(value: Quantity | None) -> str:
    if value is None:
        return ""
    ends = interval(value.low, value.high, signed=True)
    return f"{number(value.value, signed=True)} {ends}".rstrip()


def _tokens(value: Quantity | None) -> str:
    return (
        "not known" if value is None else f"{amount(value.value)} [{amount(value.low)}, {amount(value.high)}]"
    )
