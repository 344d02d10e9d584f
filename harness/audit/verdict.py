"""The answer of an audit in words, for a terminal and for its report, and its numbers as tables."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from prmcal.db.statistics.intervals import UNKNOWN, Estimate
from prmcal.db.text.formats import counted, number
from prmcal.db.text.overview import quantity
from prmcal.harness.audit.choices import Choice, Choices
from prmcal.harness.audit.detection import CATEGORIES, PRM_SCORES, PUBLISHED, WORDS
from prmcal.harness.audit.estimates import LEAST_INFORMATIVE, LEAST_MIXED, Measured, Number
from prmcal.harness.audit.readings import CHOSEN, MeasuredReading, sentences
from prmcal.harness.audit.scored import ScoredSolutions, Target
from prmcal.harness.terminal import text_table, wrapped
from prmcal.registry.contracts.strategy import DEFAULT_STRATEGY

_FEW = 40
_GOOD, _WEAK, _SURE = 0.75, 0.5, 0.1
_OF: Mapping[Target, str] = {
    "outcome": "of a right answer",
    "success rate": "of a right answer",
    "first error": "that all steps so far are right",
    "step": "that a step is right",
}
_POWER = 1.96 + 0.84
"""The number of standard errors of a difference that four of five audits detect."""
_SIZES = ((100, "tens"), (1_000, "hundreds"), (10_000, "thousands"))
_FIFTHS = ("0 to .2", ".2 to .4", ".4 to .6", ".6 to .8", ".8 to 1")
_PUBLISHED = ("overall", *CATEGORIES.values())
_RANKS = ("lowest fifth", "second", "third", "fourth", "highest fifth")


def verdict(
    scored: ScoredSolutions,
    measured: Measured | None,
    choices: Choices | None,
    width: int | None = None,
    readings: Sequence[MeasuredReading] = (),
) -> str:
    """Return the whole answer. By default it has the width of the terminal.

    The first lines say what to do, a table compares the scores with the labels, and the last lines say how the file was
    read. `measured` is None if there are no scores.
    """

    def block(lines: Iterable[str]) -> str:
        return "\n".join(wrapped(line, width, hanging="  ") for line in lines if line)

    how_read = " ".join(scored.reading)
    if measured is None:
        blocks = map(block, ([scored.alarm, *scored.doubts], advice(choices), _unknown(scored, choices), [how_read]))
        return "\n\n".join(filter(None, blocks))
    table = text_table(["scores", "mean", "are right", "n"], fifths_table(scored, measured), width)
    above = [scored.alarm, *scored.doubts, *few(measured), *headlines(scored, measured), *advice(choices)]
    better_reading = [line.partition(" With ")[0] for line in sentences(readings) if line.startswith("Read ")]
    below = [*better_reading, *errors_found(measured), *_unknown(scored, choices), how_read]
    return "\n\n".join(filter(None, [block(above), table, block(below)]))


def few(measured: Measured) -> Iterator[str]:
    """Yield a warning if there are few questions, or if a few of them have most of the rows."""
    questions = measured.signed_error.questions
    if questions < _FEW:
        yield f"Only {counted(questions, 'question')}: the intervals are wide."
    if measured.even:
        yield "A few questions have most of the prefixes, so each question counts the same."


def headlines(scored: ScoredSolutions, measured: Measured) -> Iterator[str]:
    """Yield sentences: can the scores be trusted, do they rank, and does a calibrator help?"""
    lines = [] if scored.scale.name == "rank" else [trust(measured, scored.target)]
    if scored.target != "outcome" or scored.solutions["question"].duplicated().any():
        lines.append(order(measured, "solutions" if scored.target == "outcome" else "prefixes"))
    yield from reversed(lines) if is_reverse(measured) else lines
    yield repair(scored, measured)


def trust(measured: Measured, target: Target) -> str:
    """Return the sentence that says whether the scores are too high or too low, and for what."""
    error = measured.signed_error
    way = "too high" if error.low > 0 else "too low" if error.high < 0 else "not clearly too high or too low"
    return f"The scores are {way} as chances {_OF[target]}: mean score - label {quantity(error, signed=True)}."


def is_reverse(measured: Measured) -> bool:
    """Return whether higher scores are clearly worse."""
    area = measured.order
    return area is not None and area.questions >= LEAST_MIXED and area.high < _WEAK


def order(measured: Measured, ranked: str) -> str:
    """Return the sentence that says how well the scores rank the solutions or the prefixes of a question."""
    area = measured.order
    if area is None or area.questions < LEAST_MIXED:
        mixed = counted(area.questions if area else 0, "question")
        return f"Too few to say how well they rank: {mixed} with right and wrong {ranked}."
    area_text = f"AUC within {area.questions:,} questions {quantity(area)}"
    if is_reverse(measured):
        return f"Higher scores are worse: {area_text}. Turn them round: --reverse."
    ranked_text = "" if ranked == "solutions" else f" {ranked}"
    if area.low <= _WEAK:
        return f"They do not clearly rank{ranked_text} above chance: {area_text}."
    return f"They rank{ranked_text} {'well' if area.low > _GOOD else 'above chance'}: {area_text}."


def fifths_table(scored: ScoredSolutions, measured: Measured) -> list[list[str]]:
    """Return the rows of the table of scores against labels."""
    by_rank = scored.scale.name == "rank"
    return [
        [
            name,
            "" if not fifth.prefixes or by_rank else f"{fifth.score:.2f}",
            quantity(fifth.right, 2) if fifth.prefixes else "",
            f"{fifth.prefixes:,}",
        ]
        for name, fifth in zip(_RANKS if by_rank else _FIFTHS, measured.said, strict=True)
    ]


def errors_found(measured: Measured) -> Iterator[str]:
    """Yield how well wrong steps are found, next to published values of ProcessBench and PRMBench."""
    if measured.detection:
        ways = "; ".join(f"{way.way} {_with_width(way)}" for way in measured.detection)
        means = ", ".join(f"{name} {sum(f1) / len(f1):.3f}" for name, f1 in PUBLISHED.items())
        yield f"F1 of finding the first wrong step: {ways}."
        yield f"Published means of the four subsets of ProcessBench: {means}."
    if measured.prm_scores:
        overall = measured.prm_scores[0]
        repaired = "" if overall.calibrated is None else f", calibrated {_with_width(overall.calibrated)}"
        yield f"PRMScore of finding all wrong steps, with the threshold 1/2: {_with_width(overall.score)}{repaired}."
    if len(measured.prm_scores) > 2:
        yield f"Published overall: {', '.join(f'{name} {scores[0]:.3f}' for name, scores in PRM_SCORES.items())}."


def _with_width(value: Estimate) -> str:
    """Return a value with its interval. An interval without a width is left out."""
    return quantity(value) if value.low < value.high else number(value.value)


def repair(scored: ScoredSolutions, measured: Measured) -> str:
    """Return the sentence that says whether a calibrator helps."""
    gain, before = measured.gain, measured.brier.value
    if measured.informative < LEAST_INFORMATIVE:
        return (
            f"Too few to say whether a calibrator helps: {counted(measured.informative, 'question')} of the rarer "
            f"outcome, and {LEAST_INFORMATIVE} are needed."
        )
    if scored.scale.name == "rank":
        rate = float(scored.prefixes["label"].mean())
        return (
            f"'{measured.chosen}' makes probabilities of them: on questions that it has not seen, the Brier score is "
            f"{number(before - gain.value)}, and that of the mean label {number(rate * (1 - rate))}."
        )
    if not measured.chosen:
        return "No calibrator helps: on questions that it has not seen, the scores are best as they are."
    cut = f"the Brier score from {number(before)} to {number(before - gain.value)}"
    if measured.is_repaired:
        return f"'{measured.chosen}' repairs them: on unseen questions, it cuts {cut}, by {quantity(gain)}."
    return f"No calibrator clearly helps: '{measured.chosen}' cuts {cut}, by {quantity(gain)}.{enough(gain)}"


def enough(gain: Number) -> str:
    """Return a sentence: how many questions, to a power of ten, show this cut in four of five audits."""
    if gain.high <= 0 or gain.value == 0:
        return ""
    count = gain.questions * (_POWER * (gain.high - gain.low) / 2 / 1.96 / abs(gain.value)) ** 2
    size = next((word for limit, word in _SIZES if count < limit), "tens of thousands")
    return f" {size.capitalize()} of questions would show it."


def advice(choices: Choices | None) -> Iterator[str]:
    """Yield the best use of several samples, by all questions."""
    if choices is None:
        return
    best, gain, chance = choices.best, choices.best.against, choices.p_value
    luck = "p < 0.001" if chance < 0.001 else f"p = {chance:.2g}"
    one_sample = f"one sample ({number(choices.rows[0].accuracy.value)})"
    best_text = f"{_way_text(best)}: {quantity(gain, signed=True)} over {one_sample}, {luck}"
    if best.name == choices.rows[0].name:
        yield f"No way to use several samples is better here than {one_sample}."
    elif choices.is_promised:
        yield f"Use {best_text}; 90% sure: no loss, nor 5 points below equal cost."
    elif chance < _SURE:
        yield f"A gain is likely, not promised: {best_text}."
    else:
        yield f"No clear gain from several samples; most likely {best_text}."
    default = choices.rows[-1]
    if default.name.startswith(DEFAULT_STRATEGY) and default.name != best.name:
        default_text = _way_text(replace(default, name=DEFAULT_STRATEGY))
        yield f"The default of ask, {default_text}: {quantity(default.against, signed=True)}."


def _way_text(way: Choice) -> str:
    return f"'{way.name}', {way.samples:.3g} sample{'s' if way.samples > 1 else ''}"


def compared(choices: Choices) -> str:
    """Return the sentence on what is compared."""
    questions = counted(choices.questions, "question")
    return f"With {choices.solutions} solutions for each of {questions}. The differences are those from one sample."


def _unknown(scored: ScoredSolutions, choices: Choices | None) -> Iterator[str]:
    if absent := "; ".join(limits(scored, choices)):
        yield f"Not from this file: {absent}."


def limits(scored: ScoredSolutions, choices: Choices | None) -> Iterator[str]:
    """Yield what the file cannot tell, and why."""
    if scored.target == "outcome":
        yield "how far single prefixes are off (it has no success rates)"
    if scored.target in ("first error", "step"):
        yield "the chance of a right answer (labels say which steps are right)"
    if choices is None and scored.target == "step":
        yield "what several samples would give (solutions were marked step by step)"
    elif choices is None:
        yield "what several samples would give (questions have one solution each)"
    else:
        yield from choices.missing


def tables(
    measured: Measured | None, choices: Choices | None, readings: Sequence[MeasuredReading] = ()
) -> dict[str, pd.DataFrame]:
    """Return the tables reliability, steps, difficulty, calibrators, readings, choices, detection, prmscore.

    The 95% interval of a value NAME is in NAME_low and NAME_high. A table without values has no rows.
    """
    rows: dict[str, Any] = dict.fromkeys((*WORDS["diagrams"], "detection", "prmscore"), ())
    if measured is not None:
        rows |= _rows(measured)
    rows["readings"] = [reading.columns() for reading in readings]
    rows["choices"] = [
        {
            "choice": way.name,
            **way.accuracy.columns("accuracy"),
            "samples": way.samples,
            **(way.against or UNKNOWN).columns("against"),
        }
        for way in ((*choices.rows, choices.best) if choices else ())
    ]
    return {name: pd.DataFrame(list(table_rows)) for name, table_rows in rows.items()}


def _rows(measured: Measured) -> dict[str, list[dict[str, Any]]]:
    return {
        "reliability": [
            {"series": name, "score": point.score, **point.right.columns("right"), "prefixes": point.prefixes}
            for name, points in measured.reliability.items()
            for point in points
        ],
        "steps": [{"part": name, **error.columns("error")} for name, error in measured.by_step.items()],
        "difficulty": [{"part": name, **error.columns("error")} for name, error in measured.by_level.items()],
        "calibrators": [
            {"calibrator": name, **cut.columns("cut")}
            for name, cut in [*measured.gains.items(), (CHOSEN, measured.gain)]
        ],
        "detection": [{"way": f1.way, **f1.columns("f1"), "solutions": f1.solutions} for f1 in measured.detection],
        "prmscore": [
            {
                "category": score.category,
                **score.score.columns("score"),
                **(score.calibrated or UNKNOWN).columns("calibrated"),
                "steps": score.score.solutions,
                **{name: scores[_PUBLISHED.index(score.category)] for name, scores in PRM_SCORES.items()},
            }
            for score in measured.prm_scores
        ],
    }
