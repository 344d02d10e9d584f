"""The rows of an audit: one for each scored prefix, and the words that say how a file was read."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from prmcal.errors import DataError
from prmcal.harness.audit.shapes import (
    ANSWERS,
    LABELS,
    LEVELS,
    MANY,
    ONE,
    QUESTIONS,
    REFERENCES,
    SCORES,
    SHAPES,
    Record,
    Solution,
)
from prmcal.registry.datasets.records import Record as Placed
from prmcal.registry.grading import grade_answer
from prmcal.registry.grading.extraction import MARKED, find_answer
from prmcal.registry.messages import excerpt, shown
from prmcal.steps import split_steps

Target = Literal["success rate", "outcome", "first error"]
Scale = Literal["logit", "probability"]


@dataclass(frozen=True)
class Fields:
    """The fields that a reader names. None: they are found by name and kind of value."""

    question: str | None = None
    score: str | None = None
    label: str | None = None
    scale: Scale | None = None


@dataclass(frozen=True, eq=False)
class Scored:
    """Scored solutions."""

    prefixes: pd.DataFrame
    """One row for each prefix with a score: question and solution (numbers), step (0: the bare question), steps (T),
    score (as in the file), reward (in [0, 1]), and label in [0, 1]."""
    solutions: pd.DataFrame
    """One row for each solution: question, solution, steps, label (of the whole one), answer, level, cost and
    reward (of the whole one)."""
    questions: tuple[str, ...]
    """The texts or names of the questions by their numbers."""
    target: Target
    scale: Scale
    reading: tuple[str, ...]
    """How the file was read, a sentence each."""


def scored(records: Sequence[Placed], source: str, fields: Fields) -> Scored:
    """Turn the records of a file into rows.

    Raises a DataError if the file has no scores or labels, or if it can be read in two ways. The message names both and
    the option that decides.
    """
    first = next((content for _, content in records if isinstance(content, Mapping)), None)
    if first is None:
        raise DataError(f"{source} has no records with fields.")
    shape = next((each for each in SHAPES if each.fits(first)), None)
    if shape is not None:
        words = [f"Shape: {shape.name}."]
        found = [each for _, content in records for each in shape.solutions(content)]
    else:
        reader = _Reader.of([content for _, content in records], source, fields)
        words = reader.words
        found = list(reader.solutions())
    return rows_of(found, source, fields, words)


class _Reader:
    """Reads records whose fields are found by their names and by the kinds of their values."""

    def __init__(
        self, records: Sequence[Record], source: str, question: str, many: str | None, text: str | None
    ) -> None:
        self.records, self.source = records, source
        self.question, self.many, self.text = question, many, text
        self.score: str | None = None
        self.label: str | None = None
        self.reference: str | None = None
        self.words: list[str] = []

    @classmethod
    def of(cls, records: Sequence[Record], source: str, fields: Fields) -> _Reader:
        first = records[0]
        question = fields.question or next((name for name in QUESTIONS if name in first), None)
        if question is None or question not in first:
            raise DataError(
                f"{source}: no field names the question. Its fields are {', '.join(first)}. Name it: --question FIELD."
            )
        many = next((name for name in (*MANY, *ONE) if _has_many(name, first.get(name))), None)
        text = None if many else next((name for name in ONE if name in first), None)
        reader = cls(records, source, question, many, text)
        inner = first[many][0] if many and first[many] and isinstance(first[many][0], Mapping) else {}
        reader.score = reader._chosen("score", SCORES, fields.score, {**first, **inner}, _is_score)
        reader.reference = next(
            (name for name in REFERENCES if isinstance(first.get(name), str | int | float)), None
        )
        labelled = any(_is_label({**first, **inner}.get(name)) for name in LABELS if name != reader.score)
        label = f"'{reader.reference}', against which the answers were graded"
        if fields.label or labelled or reader.reference is None or not (many or text):
            reader.label = reader._chosen(
                "label", LABELS, fields.label, {**first, **inner}, _is_label, reader.score
            )
            label = f"'{reader.label}'"
        solution = f"'{many or text}'" if many or text else "not there"
        reader.words.append(
            f"Fields: the question is '{question}', the solution {solution}, the score '{reader.score}', the label "
            f"{label}."
        )
        return reader

    def _chosen(
        self,
        role: str,
        names: Sequence[str],
        given: str | None,
        first: Record,
        fits: Any,
        taken: str | None = None,
    ) -> str:
        if given is not None:
            if given not in first:
                raise DataError(f"{self.source} has no field '{given}'. Its fields are {', '.join(first)}.")
            return given
        found = [name for name in names if name != taken and fits(first.get(name))]
        if not found:
            raise DataError(
                f"{self.source}: no field is known as the {role}. Its fields are {', '.join(first)}. Name it: "
                f"--{role} FIELD."
            )
        if len(found) > 1:
            raise DataError(
                f"{self.source}: the {role} can be '{found[0]}' ({shown(first[found[0]])}) or '{found[1]}' "
                f"({shown(first[found[1]])}). Say which: --{role} {found[0]} or --{role} {found[1]}."
            )
        return found[0]

    def solutions(self) -> Iterator[Solution]:
        for place, record in enumerate(self.records, start=1):
            yield from self._flat(record, place)

    def _flat(self, record: Record, place: int) -> Iterator[Solution]:
        shared = {
            "question": str(record.get(self.question)),
            "reference": None if self.label or not self.reference else record.get(self.reference),
            "level": next((record[name] for name in LEVELS if record.get(name) is not None), None),
            "place": place,
        }
        if self.many is None:
            own = record.get(self.text) if self.text else None
            place_in_table = {"step": record.get("step"), "id": record.get("solution")}
            yield {**shared, **_texts(own), **self._own(record), **place_in_table}
            return
        texts = record[self.many]
        answers = next((record[name] for name in ANSWERS if isinstance(record.get(name), list)), None)
        for index, each in enumerate(texts):
            inner = each if isinstance(each, Mapping) else {}
            text = next((inner[name] for name in ONE if name in inner), None) if inner else each
            yield {
                **shared,
                **_texts(text),
                "score": _at(self.score, inner, record, index, len(texts)),
                "label": _at(self.label, inner, record, index, len(texts)),
                "answer": answers[index] if answers and len(answers) == len(texts) else inner.get("answer"),
                "cost": inner.get("cost", inner.get("tokens")),
            }

    def _own(self, record: Record) -> Solution:
        answer = next((record[name] for name in ANSWERS if record.get(name) is not None), None)
        return {
            "score": record.get(self.score or ""),
            "label": record.get(self.label or ""),
            "answer": answer,
            "cost": record.get("cost", record.get("tokens")),
        }


def _has_many(name: str, value: Any) -> bool:
    """Return whether a field has a list of solutions. A list of texts in a field such as `steps` is one solution."""
    return isinstance(value, list) and (name in MANY or (bool(value) and isinstance(value[0], list)))


def _at(name: str | None, inner: Record, record: Record, index: int, count: int) -> Any:
    """Return a field of a solution: its own, or its place in a list of the record."""
    if name is not None and name in inner:
        return inner[name]
    value = record.get(name or "")
    return value if not isinstance(value, list) else value[index] if len(value) == count else None


def _texts(text: Any) -> Solution:
    if isinstance(text, list):
        return {"steps": [str(each) for each in text]}
    return {"text": None if text is None else str(text)}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _numbers(value: Any) -> list[float]:
    """Return the numbers in nested lists."""
    if isinstance(value, list):
        return [number for each in value for number in _numbers(each)]
    return [float(value)] if _is_number(value) else []


def _is_score(value: Any) -> bool:
    return bool(_numbers(value))


def _is_label(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    flat = [each for one in values for each in (one if isinstance(one, list) else [one]) if each is not None]
    return bool(flat) and all(
        isinstance(each, bool) or (_is_number(each) and 0 <= each <= 1) for each in flat
    )


def rows_of(found: Sequence[Solution], source: str, fields: Fields, words: Sequence[str]) -> Scored:
    """Turn solutions with the values of a file into rows of numbers. `words` say how the file was read."""
    found = _joined_steps(found, source)
    numbers: dict[str, int] = {}
    seen: dict[int, int] = {}
    columns: dict[str, list[Any]] = {
        name: [] for name in ("question", "solution", "step", "steps", "score", "label")
    }
    whole: list[dict[str, Any]] = []
    target: Target = (
        "success rate"
        if any(each.get("rates") for each in found)
        else "first error"
        if any(each.get("first_error") is not None for each in found)
        else "outcome"
    )
    for each in found:
        question = numbers.setdefault(each["question"], len(numbers))
        index = seen[question] = seen.get(question, -1) + 1
        texts = each.get("steps")
        if texts is None and each.get("text"):
            texts = split_steps(each["text"])
        scores, steps = _aligned(each.get("score"), None if texts is None else len(texts), each, source)
        text = each.get("text") or "\n\n".join(each.get("steps") or ())
        answer = each.get("answer")
        if answer is None and text and (read := find_answer(text, MARKED)):
            answer = read.text
        outcome = _share(each.get("label"))
        if outcome is None and each.get("reference") is not None:
            reference = str(each["reference"])
            outcome = float(answer is not None and grade_answer(str(answer), reference) == "correct")
        labels = _labels(each, target, steps, outcome)
        for step, (score, label) in enumerate(zip(scores, labels, strict=True)):
            if score is not None and label is not None:
                for name, value in zip(columns, (question, index, step, steps, score, label), strict=True):
                    columns[name].append(value)
        last = scores[-1] if scores else None
        whole.append(
            {
                "question": question,
                "solution": index,
                "steps": steps,
                "label": labels[-1] if target == "first error" else outcome,
                "score": last,
                "answer": answer,
                "level": each.get("level"),
                "cost": each.get("cost"),
            }
        )
    prefixes = pd.DataFrame(columns)
    if prefixes.empty:
        raise DataError(
            f"{source} has no prefix with both a score and a label. Add the file that has the other: prmcal audit "
            f"{source} OTHER."
        )
    scale = fields.scale or _scale(prefixes["score"].to_numpy(np.float64), source)
    prefixes["reward"] = _rewards(prefixes["score"].to_numpy(np.float64), scale, source)
    solutions = pd.DataFrame(whole)
    scores = solutions["score"].to_numpy(np.float64)
    solutions["reward"] = _rewards(scores, scale, source)
    bare = int((prefixes["step"] == 0).sum())
    words = [
        *words,
        f"Read: {len(numbers):,} questions, {len(solutions):,} solutions, {len(prefixes):,} scored prefixes"
        f"{'' if bare else ' (none of the bare question)'}.",
        f"Scores: {'probabilities' if scale == 'probability' else 'log-odds'}, "
        f"{prefixes['score'].min():.3g} to {prefixes['score'].max():.3g}. Labels: {_TARGETS[target]}, mean "
        f"{prefixes['label'].mean():.3f}.",
    ]
    return Scored(prefixes, solutions, tuple(numbers), target, scale, tuple(words))


_TARGETS: dict[Target, str] = {
    "success rate": "success rates of prefixes",
    "outcome": "the outcome of the whole solution, as one draw for each of its prefixes",
    "first error": "whether every step so far is right",
}


def _joined_steps(found: Sequence[Solution], source: str) -> list[Solution]:
    """Join the rows of a table that has a row for each step."""
    if not found or found[0].get("step") is None or not _is_number(found[0].get("score")):
        return list(found)
    whole: dict[tuple[str, Any], Solution] = {}
    for each in sorted(found, key=lambda row: row["step"]):
        one = whole.setdefault((each["question"], each["id"]), {**each, "steps": [], "score": []})
        if one["step"] == each["step"] and one["steps"]:
            raise DataError(
                f"{source}: the question {excerpt(each['question'])} has step {each['step']} twice in one solution. "
                "Name the solutions in a field 'solution'."
            )
        one["step"] = each["step"]
        one["steps"].append(each.get("text") or "")
        one["score"].append(each["score"])
        one["label"] = each["label"]
    bare = min(each["step"] for each in found) == 0 and max(each["step"] for each in found) > 0
    for one in whole.values():
        if bare:  # Step 0 is the bare question.
            one["steps"] = one["steps"][1:]
    return list(whole.values())


def _aligned(
    given: Any, steps: int | None, solution: Solution, source: str
) -> tuple[list[float | None], int]:
    """Return the score of each of the T + 1 prefixes, None where there is none, and T."""
    if given is None:
        return [None] * ((steps or 1) + 1), steps or 1
    values = given if isinstance(given, list) else [given]
    if len(values) == 1 and isinstance(values[0], list):
        values = values[0]
    count = len(values) if steps is None else steps
    if any(value is not None and not (_is_number(value) and math.isfinite(value)) for value in values):
        raise DataError(f"{source}: a score must be a number or null. Got {shown(given)}.")
    if len(values) not in (1, count, count + 1):
        raise DataError(
            f"{source}, record {solution.get('place', '?')}: a solution of {count} steps has {len(values)} scores. "
            f"There must be {count}, or {count + 1} with the bare question, or one for the whole solution."
        )
    return [None] * (count + 1 - len(values)) + list(values), count


def _share(value: Any) -> float | None:
    if isinstance(value, list):
        value = value[0] if len(value) == 1 else None
    return float(value) if isinstance(value, bool) or _is_number(value) else None


def _labels(solution: Solution, target: Target, steps: int, outcome: float | None) -> Sequence[float | None]:
    if target == "outcome":
        return [outcome] * (steps + 1)
    if target == "first error":
        wrong = solution.get("first_error")
        if wrong is None:
            return [None] * (steps + 1)
        return [None, *(float(wrong < 0 or step < wrong) for step in range(steps))]
    rates = [None if rate is None else float(rate) for rate in solution.get("rates") or ()]
    return [None] * (steps + 1 - len(rates)) + rates if len(rates) <= steps + 1 else [None] * (steps + 1)


def _scale(scores: np.ndarray[Any, Any], source: str) -> Scale:
    inside = (scores >= 0) & (scores <= 1)
    if inside.all():
        return "probability"
    if inside.mean() > 0.9:
        outside = scores[~inside]
        raise DataError(
            f"{source}: {inside.sum():,} scores lie in [0, 1], as probabilities do, and {len(outside):,} do not, such "
            f"as {outside[0]:g}. Say what they are: --as probability or --as logit."
        )
    return "logit"


def _rewards(scores: np.ndarray[Any, Any], scale: Scale, source: str) -> np.ndarray[Any, Any]:
    from scipy.special import expit

    if scale == "logit":
        rewards: np.ndarray[Any, Any] = expit(scores)
        return rewards
    outside = (scores < 0) | (scores > 1)
    if outside.any():
        raise DataError(f"{source}: a probability must be in [0, 1]. Got {scores[outside][0]:g}.")
    return scores
