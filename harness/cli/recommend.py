"""``prmcal recommend``: what to use for a wanted accuracy or a budget, as text, JSON, CSV or Markdown."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from prmcal.db.overview.types import Quantity
from prmcal.db.text.board import Column
from prmcal.db.text.formats import amount, counted, duration, markdown_grid, number
from prmcal.db.text.overview import quantity
from prmcal.harness.cli import options
from prmcal.harness.cli.app import ExitCode
from prmcal.harness.cli.options import WORDS, option
from prmcal.harness.recommending.types import Line, Recommendation, ask_command, recommendation_frame
from prmcal.harness.terminal import UNLIMITED, fit, wrapped
from prmcal.harness.terminal import show as show_text


def recommend(
    directory: options.RunArgument,
    accuracy: Annotated[float | None, option("SHARE", WORDS["recommend"]["accuracy"])] = None,
    samples: Annotated[float | None, option("N", WORDS["recommend"]["samples"])] = None,
    tokens: Annotated[float | None, option("N", WORDS["recommend"]["tokens"])] = None,
    draw: Annotated[int | None, option("N", WORDS["recommend"]["draw"], min=1)] = None,
    workers: Annotated[int | None, option("N", WORDS["recommend"]["workers"], min=1)] = None,
    output_format: options.FormatOption = "table",
    llm: options.LLMsOption = None,
    prm: options.PRMsOption = None,
    calibrator: options.CalibratorsOption = None,
    dataset: options.DatasetsOption = None,
    strategy: options.StrategiesOption = None,
    wide: options.WideOption = False,
    pager: options.PagerOption = True,
) -> None:
    """Recommend what to use for a wanted accuracy or a budget.

    Strategy, setting, LLM, PRM and calibrator are chosen on the calibration questions. The test questions only report
    what the choice reaches, with 95% intervals. Give exactly one of --accuracy, --samples and --tokens. The strategy is
    'safe choice', unless it does not reach the accuracy, --strategy names others, or --draw asks for more trajectories.

    If --draw is interrupted, run the same command again: finished work is kept.
    """
    options.one_of("--format", output_format, options.FORMATS)
    from prmcal.harness.recommending.recommend import recommend, wanted_of

    try:
        found = recommend(
            directory,
            wanted_of(accuracy, samples, tokens),
            filters=options.given(
                llm=llm, prm=prm, calibrator=calibrator, dataset=dataset, strategy=strategy
            ),
            trajectories=draw,
            workers=workers,
            started=_tell_cost,
        )
    except KeyboardInterrupt:
        typer.echo("Interrupted. Finished work is kept. To continue, run the same command again.", err=True)
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    if output_format in ("csv", "json"):
        text = options.exported(recommendation_frame(found, directory), output_format)
    else:
        width = UNLIMITED if wide else None
        text = recommendation_text(found, directory, width, markdown=output_format == "markdown")
    show_text(text, pager and output_format == "table")


def recommendation_text(
    found: Recommendation, directory: Path, width: int | None = None, markdown: bool = False
) -> str:
    """Return a recommendation as text of the terminal, or as Markdown with all columns.

    `directory` is the output folder of the run, for the commands. `width` is by default that of the terminal.
    """
    hidden: dict[str, Column] = {}

    def text(sentence: str) -> str:
        return sentence if markdown else wrapped(sentence, width)

    def table(columns: Sequence[Column], left: int) -> str:
        if markdown:
            rows = list(zip(*(each.values for each in columns), strict=True))
            return markdown_grid([each.title for each in columns], rows, left)
        fitted = fit(columns, width)
        hidden.update({each.title: each for each in fitted.hidden})
        return fitted.text

    command = ask_command(found.recommended, directory)
    parts = [
        text(_headline(found)),
        table(_test_columns(found.recommended), 1),
        *map(text, _verdicts(found)),
        f"```sh\n{command}\n```" if markdown else f"To use it:\n  {command}",
        text(_OTHERS),
        table(_other_columns(found), 2),
        text(_known(found)),
    ]
    if hidden:
        parts[-1] += f"\n{text(options.hidden_note(list(hidden.values()), '--format csv'))}"
    return "\n\n".join([*parts, *map(text, _notes(found))]) + "\n"


_OTHERS = (
    "The recommended choice, the plain best-of-n, and the best settings of other strategies and LLMs, in the order of "
    "the calibration questions. The test questions report, and do not choose."
)


def _tell_cost(samples: int, seconds: float | None) -> None:
    time = "" if seconds is None else f" This takes about {duration(seconds)} here."
    text = f"Drawing {counted(samples, 'trajectory', 'trajectories')} of the calibration questions.{time}"
    typer.echo(wrapped(text), err=True)


def _headline(found: Recommendation) -> str:
    choice, wanted = found.recommended.choice, found.wanted.text
    models = [f"the LLM {choice.llm}"]
    if choice.prm:
        models.append(f"the PRM {choice.prm}")
    if choice.calibrator:
        level = "" if choice.level is None else f" at the level {choice.level:g}"
        models.append(f"the calibrator {choice.calibrator}{level}")
    listed = " and ".join([", ".join(models[:-1]), models[-1]] if len(models) > 1 else models)
    described = f"{choice.strategy} ({choice.setting}) with {listed}"
    if found.reached:
        return f"For {wanted}, use {described}."
    return (
        f"{wanted[:1].upper()}{wanted[1:]} is out of reach on the calibration questions. The best choice there reaches "
        f"{_value(found.recommended.known.accuracy)}: {described}."
    )


def _verdicts(found: Recommendation) -> list[str]:
    """Return sentences about the test questions: whether they hold what is wanted, and what the choice gains."""
    sentences, wanted = list(_promised(found.recommended)), found.wanted
    for each in found.recommended.tests:
        cost = each.samples if wanted.kind == "samples" else each.tokens
        if wanted.kind == "accuracy":
            low, high = each.accuracy.low, each.accuracy.high
            verdict = "reached" if low >= wanted.value else "missed" if high < wanted.value else "not certain"
            sentences.append(
                f"It is {verdict}: {_value(each.accuracy)} on the test questions of {each.dataset}."
            )
        elif cost is not None and cost.value > wanted.value * (1 + 1e-9):
            sentences.append(
                f"On the test questions of {each.dataset} it costs {amount(cost.value)} {wanted.kind}, more than is "
                "wanted."
            )
    if found.recommended.tests and found.recommended.tests[0].to_fixed is None:
        sentences.append(
            "This is the plain best-of-n: no other choice is better on the calibration questions."
        )
    paragraphs = [" ".join(sentences)] if sentences else []
    if found.more is not None:
        paragraphs.append(
            f"Each calibration question has {found.trajectories} trajectories, so settings with more samples cannot be "
            f"chosen. To draw more, add --draw {found.more}."
        )
    return paragraphs


def _promised(line: Line) -> Iterator[str]:
    """Yield what the strategy `safe choice` uses and promises."""
    rule = line.tests[0].rule if line.tests else ""
    if rule == "one sample":
        yield "Nothing is surely better than one sample, by the calibration questions, so it draws one."
    elif rule:
        yield (
            f"It uses '{rule}'. With a probability of 90%, this is not less accurate on new questions than one sample, "
            "nor 5 points less than a fixed setting of its cost with the same LLM and PRM."
        )


def _known(found: Recommendation) -> str:
    line = found.recommended
    return (
        f"Chosen from {counted(found.choices, 'choice')} by {found.questions:,} calibration questions with "
        f"{counted(found.trajectories, 'trajectory', 'trajectories')} each, in {found.folds} folds: what is fitted for "
        f"a choice never sees the questions that judge it. Its accuracy there is {_value(line.known.accuracy)}. The "
        "best of many choices looks better than it is, so trust the test questions."
    )


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
    to_fixed = tuple(quantity(each.to_fixed, signed=True) for each in tests)
    if any(to_fixed):
        columns.append(Column("Accuracy minus best-of-n of equal cost", to_fixed, 2, whole=True))
    to_one = tuple(quantity(each.to_pass_at_1, signed=True) for each in tests)
    return [*columns, Column("Accuracy minus one sample", to_one, 3, whole=True)]


def _other_columns(found: Recommendation) -> list[Column]:
    lines = [found.recommended, found.fixed, *found.others]
    if found.fixed.choice == found.recommended.choice:
        del lines[1]
    columns = [
        Column("Strategy", tuple(each.choice.strategy for each in lines)),
        Column("Setting", tuple(each.choice.setting for each in lines), whole=True),
    ]
    for title, weight in (("LLM", 1), ("PRM", 6), ("Calibrator", 5)):
        names = tuple(str(getattr(each.choice, title.lower())) for each in lines)
        if len(set(names)) > 1:  # What all have in common is in the first sentence.
            columns.append(Column(title, names, weight))
    known = [each.known for each in lines]
    columns += [
        Column("Calibration accuracy", tuple(_value(each.accuracy) for each in known), 3, whole=True),
        Column("Calibration samples", tuple(number(each.samples.value, 2) for each in known), 6),
    ]
    for tests in zip(*(each.tests for each in lines), strict=True):
        name = tests[0].dataset
        differences = tuple(quantity(each.to_recommended, signed=True) for each in tests)
        columns += [
            Column(f"{name} accuracy", tuple(_value(each.accuracy) for each in tests), 4, whole=True),
            Column(f"{name} samples", tuple(number(each.samples.value, 2) for each in tests), 7),
            Column(f"{name} minus recommended", differences, 8, whole=True),
        ]
    return columns


def _value(value: Quantity, digits: int = 3) -> str:
    return quantity(value, digits) if value.low < value.high else number(value.value, digits)


def _tokens(value: Quantity | None) -> str:
    if value is None:
        return "not known"
    return f"{amount(value.value)} [{amount(value.low)}, {amount(value.high)}]"
