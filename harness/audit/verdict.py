"""The answer of an audit in words, for a terminal and for its report, and its numbers as tables."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pandas as pd

from prmcal.db.overview.types import UNKNOWN
from prmcal.db.text.formats import counted, number
from prmcal.db.text.overview import quantity
from prmcal.harness.audit.choices import Choices
from prmcal.harness.audit.detection import CATEGORIES, PRM_SCORES, PUBLISHED
from prmcal.harness.audit.estimates import Measured, Number
from prmcal.harness.audit.readings import Read, sentences
from prmcal.harness.audit.scored import Scored
from prmcal.harness.terminal import text_table, wrapped

_FEW = 40


def verdict(
    found: Scored,
    measured: Measured,
    choices: Choices | None,
    width: int | None = None,
    read: Sequence[Read] = (),
) -> str:
    """Return the whole answer. By default it has the width of the terminal."""

    def block(lines: Iterable[str]) -> str:
        return "\n".join(wrapped(line, width, hanging="  ") for line in lines)

    parts = [
        block(found.reading),
        block([found.alarm] if found.alarm else []),
        block([*few(measured), trust(measured), *where(measured), *errors_found(measured)]),
        block([repair(measured), *learning(measured), *sentences(read)]),
    ]
    if choices is not None:
        rows = [
            [row.name, quantity(row.accuracy), f"{row.samples:.1f}", quantity(row.against, signed=True)]
            for row in choices.rows
        ]
        table = text_table(["choice", "accuracy", "samples", "against the best fixed setting"], rows, width)
        parts.append(
            f"{wrapped(compared(choices), width)}\n{table}\n{wrapped(promised(choices), width, hanging='  ')}"
        )
    parts.append(block(f"Not from this file: {line}" for line in limits(found, choices)))
    return "\n\n".join(part for part in parts if part)


def few(measured: Measured) -> Iterator[str]:
    """Yield a warning if there are few questions."""
    questions = measured.signed_error.questions
    if questions < _FEW:
        yield f"Only {counted(questions, 'question')}: the intervals are wide."


def trust(measured: Measured) -> str:
    """Return the sentence that says whether the scores are too high or too low."""
    error = measured.signed_error
    way = "too high" if error.low > 0 else "too low" if error.high < 0 else "not clearly too high or too low"
    return f"The scores are {way}: mean score - label {quantity(error, signed=True)}."


def where(measured: Measured) -> Iterator[str]:
    """Yield where the scores are off, and by how much in all."""
    if measured.by_step:
        yield f"By step: {_listed(measured.by_step)}."
    if measured.by_level:
        yield f"By level: {_listed(measured.by_level)}."
    if measured.by_others:
        yield f"By the other solutions of the question: {_listed(measured.by_others)}."
    yield f"Calibration error {quantity(measured.error)}. Brier score {quantity(measured.brier)}."


def errors_found(measured: Measured) -> Iterator[str]:
    """Yield how well wrong steps are found, next to what is published of ProcessBench and of PRMBench."""
    if measured.detection:
        ways = "; ".join(f"{each.way} {quantity(each)}" for each in measured.detection)
        means = ", ".join(f"{name} {sum(f1) / len(f1):.3f}" for name, f1 in PUBLISHED.items())
        yield f"F1 of finding the first wrong step: {ways}."
        yield f"Published means of the four subsets of ProcessBench: {means}."
    if measured.prm_scores:
        rows = "; ".join(
            f"{each.category} {quantity(each.score)}"
            + ("" if each.calibrated is None else f", calibrated {quantity(each.calibrated)}")
            for each in measured.prm_scores
        )
        yield f"PRMScore of finding all wrong steps, with the threshold 1/2: {rows}."
    if len(measured.prm_scores) > 1:
        yield f"Published overall: {', '.join(f'{name} {own[0]:.3f}' for name, own in PRM_SCORES.items())}."


def repair(measured: Measured) -> str:
    """Return the sentence that says whether a calibrator helps."""
    gain = measured.gain
    if not measured.chosen:
        return "No calibrator helps: on held-out questions, the scores are best as they are."
    if gain.low > 0:
        share = gain.value / measured.brier.value
        return (
            f"'{measured.chosen}' helps: on held-out questions it cuts the Brier score by {quantity(gain)}, "
            f"{share:.0%} of it. After it, score - label is {quantity(measured.after, signed=True)}."
        )
    more = f" About {measured.needed:,} would be needed." if measured.needed else ""
    return (
        f"No calibrator is clearly better with {counted(gain.questions, 'question')}: the best one, "
        f"'{measured.chosen}', cuts the Brier score by {quantity(gain)}.{more}"
    )


def learning(measured: Measured) -> Iterator[str]:
    """Yield what the calibrator gives with fewer labelled questions."""
    if measured.curve:
        cuts = "; ".join(
            f"{count:,}: {number(cut.value, 4, signed=True)}" for count, cut in measured.curve.items()
        )
        yield f"Cut of the Brier score on a held-out half by labelled questions: {cuts}."


def compared(choices: Choices) -> str:
    """Return the sentences that say what is compared."""
    return (
        f"With {choices.solutions} solutions for each of {counted(choices.questions, 'question')}. The best fixed "
        f"setting is '{choices.fixed}'. A rule is compared with the setting of its cost that wins on the other half of "
        "the questions."
    )


def promised(choices: Choices) -> str:
    """Return the sentence that says which way to choose is surely not worse than one sample."""
    if choices.safe == "one sample":
        return (
            f"Nothing is surely better than one sample, by {counted(choices.questions, 'question')}. It is the safe "
            "choice."
        )
    return (
        f"The safe choice is '{choices.safe}', with {choices.safe_samples:.1f} samples: with a probability of 90%, it "
        "is not less accurate on new questions than one sample, nor 5 points less than a fixed setting of its cost."
    )


def limits(found: Scored, choices: Choices | None) -> Iterator[str]:
    """Yield what cannot be told from the file."""
    if found.target == "outcome":
        yield (
            "the corrected Brier score, and how far single prefixes are off. An outcome is one draw for each prefix. "
            "Success rates would tell."
        )
    if found.target in ("first error", "step"):
        yield "the chance of a right answer. The labels say whether each step is right, which is another target."
    if choices is None and found.target == "step":
        yield "what several samples would give. The solutions were changed or marked step by step."
    elif choices is None:
        yield "what several samples would give, since questions have one solution each."
    else:
        yield from choices.missing


def _listed(parts: Mapping[str, Number]) -> str:
    return "; ".join(f"{name} {quantity(each, signed=True)}" for name, each in parts.items())


_CHOSEN = "chosen in the folds"
_PUBLISHED = ("overall", *CATEGORIES.values())


def tables(found: Measured, choices: Choices | None, read: Sequence[Read] = ()) -> dict[str, pd.DataFrame]:
    """Return the tables reliability, steps, difficulty, calibrators, readings, learning, choices, detection, prmscore.

    The 95% interval of a value NAME is in NAME_low and NAME_high. A table without values has no rows.
    """
    others, levels = "the share of the other solutions that are right", found.by_level
    ways = choices.rows if choices else ()
    rows = {
        "reliability": [
            {"series": name, "score": each.score, **each.right.columns("right"), "prefixes": each.prefixes}
            for name, bins in found.reliability.items()
            for each in bins
        ],
        "steps": [{"part": name, **each.columns("error")} for name, each in found.by_step.items()],
        "difficulty": [
            {"part": name, **each.columns("error"), "kind": "level" if levels else others}
            for name, each in (levels or found.by_others).items()
        ],
        "calibrators": [
            {"calibrator": name, **each.columns("cut")}
            for name, each in {**found.gains, _CHOSEN: found.gain}.items()
        ],
        "readings": [each.columns() for each in read],
        "learning": [{"labelled": count, **each.columns("cut")} for count, each in found.curve.items()],
        "choices": [
            {
                "choice": each.name,
                **each.accuracy.columns("accuracy"),
                "samples": each.samples,
                **(each.against or UNKNOWN).columns("against"),
            }
            for each in ways
        ],
        "detection": [
            {"way": each.way, **each.columns("f1"), "solutions": each.solutions} for each in found.detection
        ],
        "prmscore": [
            {
                "category": each.category,
                **each.score.columns("score"),
                **(each.calibrated or UNKNOWN).columns("calibrated"),
                "steps": each.score.solutions,
                **{name: own[_PUBLISHED.index(each.category)] for name, own in PRM_SCORES.items()},
            }
            for each in found.prm_scores
        ],
    }
    return {name: pd.DataFrame(own) for name, own in rows.items()}
