"""The answer of an audit in words: at most 45 lines of a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prmcal.db.text.formats import counted, interval, number
from prmcal.harness.audit.choices import Choices
from prmcal.harness.audit.estimates import Measured, Number
from prmcal.harness.audit.scored import Scored
from prmcal.harness.terminal import text_table, wrapped

_FEW = 30


def verdict(found: Scored, measured: Measured, choices: Choices | None, width: int | None = None) -> str:
    """Return the whole answer. By default it has the width of the terminal."""
    parts = [
        "\n".join(wrapped(line, width, hanging="  ") for line in found.reading),
        "\n".join(wrapped(line, width, hanging="  ") for line in _trust(found, measured)),
        "\n".join(wrapped(line, width, hanging="  ") for line in _repair(measured)),
    ]
    if choices is not None:
        parts.append(_chosen(choices, width))
    limits = [*_limits(found), *(choices.missing if choices else _no_choice())]
    parts.append("\n".join(wrapped(f"Not from this file: {line}", width, hanging="  ") for line in limits))
    return "\n\n".join(part for part in parts if part)


def _trust(found: Scored, measured: Measured) -> Iterator[str]:
    error = measured.signed_error
    if error.questions < _FEW:
        yield f"Only {counted(error.questions, 'question')}: the intervals are wide, and little can be told apart."
    way = "too high" if error.low > 0 else "too low" if error.high < 0 else "not clearly too high or too low"
    yield f"The scores are {way}: mean score - label {value(error, signed=True)}."
    if measured.by_step:
        yield f"By step: {_listed(measured.by_step)}."
    if measured.by_level:
        yield f"By level: {_listed(measured.by_level)}."
    yield f"Calibration error {value(measured.error)}. Brier score {value(measured.brier)}."


def _repair(measured: Measured) -> Iterator[str]:
    gain = measured.gain
    if not measured.chosen:
        yield "No calibrator helps: on held-out questions, the scores are best as they are."
    elif gain.low > 0:
        share = gain.value / measured.brier.value
        yield (
            f"'{measured.chosen}' helps: on held-out questions it cuts the Brier score by {value(gain)}, "
            f"{share:.0%} of it. After it, score - label is {value(measured.after, signed=True)}."
        )
    else:
        more = f" About {measured.needed:,} would be needed." if measured.needed else ""
        yield (
            f"No calibrator is clearly better with {counted(gain.questions, 'question')}: the best one, "
            f"'{measured.chosen}', cuts the Brier score by {value(gain)}.{more}"
        )
    if measured.curve:
        cuts = "; ".join(f"{count:,}: {number(cut, 4, signed=True)}" for count, cut in measured.curve.items())
        yield f"Cut of the Brier score on a held-out half by labelled questions: {cuts}."


def _chosen(choices: Choices, width: int | None) -> str:
    head = ["choice", "accuracy", "samples", "against the best fixed setting"]
    rows = [
        [
            row.name,
            value(row.accuracy),
            f"{row.samples:.1f}",
            "" if row.against is None else value(row.against, signed=True),
        ]
        for row in choices.rows
    ]
    title = wrapped(
        f"With {choices.solutions} solutions for each of {counted(choices.questions, 'question')}. The best fixed "
        f"setting is '{choices.fixed}'. A rule is compared with the setting of its cost that wins on the other half of "
        "the questions.",
        width,
    )
    return f"{title}\n{text_table(head, rows, width)}"


def _limits(found: Scored) -> Iterator[str]:
    if found.target == "outcome":
        yield (
            "the corrected Brier score, and how far single prefixes are off. An outcome is one draw for each prefix. "
            "Success rates would tell."
        )
    if found.target == "first error":
        yield "the chance of a right answer. The labels say whether each step is right, which is another target."


def _no_choice() -> tuple[str, ...]:
    return ("what several samples would give, since questions have one solution each.",)


def _listed(parts: Mapping[str, Number]) -> str:
    return "; ".join(f"{name} {value(each, signed=True)}" for name, each in parts.items())


def value(found: Number, *, signed: bool = False) -> str:
    """Return a value with its interval."""
    return (
        f"{number(found.value, 3, signed=signed)} {interval(found.low, found.high, signed=signed)}".rstrip()
    )
