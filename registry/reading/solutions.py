"""The solutions in the records of a file, by its published format or by the names of its fields.

Where two fields can have the same meaning, an error names both and the option that decides.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from prmcal.errors import DataError
from prmcal.registry.grading import without_working
from prmcal.registry.messages import excerpt, shown
from prmcal.registry.reading.records import Record, good_records
from prmcal.registry.reading.shapes import (
    ANSWERS,
    CLEAR_LABELS,
    COSTS,
    LABELS,
    LEVELS,
    MANY,
    ONE,
    QUESTIONS,
    REFERENCES,
    SCORES,
    SHAPES,
    Content,
    Solution,
    known,
    of_one_filter,
    steps_of_text,
)

_Fits = Callable[[Any], bool]
Scale = Literal["logit", "probability"]
Use = Literal["audit", "training", "recording", "recorded scores"]
"""The reader of a file. An audit needs a score and a label, and a training a label. A recording needs solutions only,
and is graded by its answers unless it says what is right. Of recorded scores, only the scores are used."""


@dataclass(frozen=True)
class Fields:
    """The fields that a reader names. None: they are found by name and kind of value."""

    question: str | None = None
    score: str | None = None
    label: str | None = None
    scale: Scale | None = None
    solutions: str | None = None
    cost: str | None = None


def solutions_of(
    records: Sequence[Record],
    source: str,
    fields: Fields,
    use: Use = "audit",
    skip: bool | None = None,
    check: Callable[[str, list[Solution]], None] = lambda place, solutions: None,
) -> tuple[list[Solution], list[str]]:
    """Return the solutions in records, each with its `place`, and sentences that say how they were read.

    `skip` is that of :func:`prmcal.registry.reading.records.good_records`. `check` raises ValueError if the solutions
    of a record are bad. Raises a DataError if records are bad, a field that is needed cannot be found, or two fields
    can be meant.
    """

    def convert(place: str, record: Any) -> list[Solution]:
        if not isinstance(record, Mapping):
            raise ValueError(f"it must be an object with fields. Got {shown(record)}")
        try:
            own = [{**each, "place": place} for each in read(record)]
        except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
            raise ValueError(
                f"it is unlike the first record ({type(error).__name__}: {excerpt(str(error))})"
            ) from error
        check(place, own)
        return own

    first = next((content for _, content in records if isinstance(content, Mapping)), None)
    if first is None:
        good_records(records, convert, source, skip)
        raise DataError(f"{source} has no records with fields.")
    shape = next((each for each in SHAPES if each.fits(first)), None)
    records = of_one_filter(records, source, fields.label)
    reader = shape or _Reader(first, source, fields, use)
    read, words = reader.solutions, reader.words if isinstance(reader, _Reader) else f"Shape: {reader.name}."
    found = good_records(records, convert, source, skip)
    return _joined_steps([each for own in found for each in own], source), [words]


class _Reader:
    """Reads records whose fields are found by their names and by the kinds of their values."""

    def __init__(self, first: Content, source: str, fields: Fields, use: Use) -> None:
        self.source, self.use = source, use
        self.costs = (fields.cost,) if fields.cost else COSTS
        names = [name for name in QUESTIONS if name in first][:1]
        self.question = (
            self._chosen("question", names, fields.question, first, lambda value: True, True) or ""
        )
        given = fields.solutions
        names = [given] if given else [*MANY, *ONE]
        self.many = next((name for name in names if _has_many(name, first.get(name), name == given)), None)
        texts = (name for name in names if isinstance(first.get(name), str | list))
        self.text = None if self.many else next(texts, None)
        if given and not self.many and not self.text:
            self._chosen("solution", (), given, {}, _is_score, True)
        inner = first[self.many][0] if self.many and first[self.many] else {}
        every = {**first, **inner} if isinstance(inner, Mapping) else first
        self.reference = next(
            (name for name in REFERENCES if isinstance(every.get(name), str | int | float)), None
        )
        self.score = self._score(every, fields.score)
        self.label = self._label(every, fields.label)
        label = f"'{self.label or self.reference}'"
        graded = "" if self.label else ", against which the answers were graded"
        solution, score = (
            f"'{name}'" if name else "not there" for name in (self.many or self.text, self.score)
        )
        self.words = (
            f"Fields: the question is '{self.question}', the solution {solution}, the score {score}, the label "
            f"{label}{graded}."
        )

    def _score(self, every: Content, given: str | None) -> str | None:
        if self.use != "audit" and given is None and "logits" in every:
            return "logits"
        needed = self.use in ("audit", "recorded scores")
        return self._chosen("score", SCORES, given, every, _is_score, needed)

    def _label(self, every: Content, given: str | None) -> str | None:
        if self.use == "recorded scores":
            return None
        if self.use == "recording":
            if given is None and "correct" in every:
                return "correct"
            names = () if self.reference else CLEAR_LABELS
            return self._chosen("label", names, given, every, _is_label, False)
        labelled = any(_is_label(every.get(name)) for name in LABELS if name != self.score)
        if given is None and not labelled and self.reference and (self.many or self.text):
            return None
        return self._chosen("label", LABELS, given, every, _is_label, True)

    def _option(self, role: str, name: str) -> str:
        """Return what a user writes to name a field."""
        return f"--{role} {name}" if self.use in ("audit", "training") else f"fields: {{{role}: {name}}}"

    def _chosen(
        self, role: str, names: Sequence[str], given: str | None, every: Content, fits: _Fits, needed: bool
    ) -> str | None:
        """Return the field with a role, or None if it is neither there nor needed."""
        fields = f"Its fields are {excerpt(', '.join(map(str, every)))}."
        if given is not None:
            if given not in every:
                raise DataError(f"{self.source} has no field '{given}'. {fields}")
            return given
        taken = self.score if role == "label" else None
        found = [name for name in names if name in every and name != taken and fits(every[name])]
        if len(found) > 1 and (needed or role == "label"):
            ways = " or ".join(self._option(role, name) for name in found[:2])
            one, other = (f"'{name}' ({shown(every[name])})" for name in found[:2])
            raise DataError(f"{self.source}: the {role} can be {one} or {other}. Say which: {ways}.")
        if not found and needed:
            option = self._option(role, "FIELD")
            raise DataError(f"{self.source}: no field is known as the {role}. {fields} Name it: {option}.")
        return found[0] if len(found) == 1 else None

    def solutions(self, record: Content) -> Iterator[Solution]:
        """Yield the solutions of a record. Raises ValueError if it has none that can be read."""
        question = record.get(self.question)
        if question is None or not str(question).strip():
            raise ValueError(f"it must have a '{self.question}'")
        reference = record.get(self.reference or "")
        shared = {
            "question": str(question),
            "reference": None if self.label or reference is None else without_working(str(reference)),
            "level": known(record, LEVELS),
            "follow_ups": record.get("follow_ups"),
        }
        if self.many is None:
            yield {
                **shared,
                **_texts(record.get(self.text) if self.text else None, record.get(self.score or "")),
                "score": record.get(self.score or ""),
                "label": record.get(self.label or ""),
                "answer": known(record, ANSWERS),
                "cost": known(record, self.costs),
                "step": record.get("step"),
                "id": record.get("solution"),
            }
            return
        texts = record.get(self.many)
        if not isinstance(texts, list) or (self.use != "audit" and not texts):
            raise ValueError(f"'{self.many}' must be a list with at least one solution")
        lists = {name: value for name, value in record.items() if isinstance(value, list)}
        answers = known(lists, ANSWERS)
        for index, each in enumerate(texts):
            if not isinstance(each, str | list | Mapping):
                raise ValueError(
                    f"each of '{self.many}' must be a text, a list of steps, or an object with these"
                )
            inner = each if isinstance(each, Mapping) else {}
            text = next((inner[name] for name in ONE if name in inner), None) if inner else each
            score = _at(self.score, inner, record, index, len(texts))
            yield {
                **shared,
                **_texts(text, score),
                "number": index + 1,
                "score": score,
                "label": _at(self.label, inner, record, index, len(texts)),
                "answer": answers[index] if answers and len(answers) == len(texts) else inner.get("answer"),
                "cost": known(
                    {name: _at(name, inner, lists, index, len(texts)) for name in self.costs}, self.costs
                ),
                "finish_reason": inner.get("finish_reason"),
            }


def _has_many(name: str, value: Any, given: bool) -> bool:
    """Return whether a field has a list of solutions. A list of texts in a field such as `steps` is one solution."""
    inner = value[0] if isinstance(value, list) and value else None
    known = name in MANY or (given and name not in ONE) or (name == "output" and isinstance(inner, Mapping))
    return isinstance(value, list) and (known or isinstance(inner, list))


def _at(name: str | None, inner: Content, record: Content, index: int, count: int) -> Any:
    """Return a field of a solution: its own, or its place in a list of the record."""
    if name is not None and name in inner:
        return inner[name]
    value = record.get(name or "")
    if isinstance(value, list) and value:
        if len(value) != count:
            raise ValueError(f"'{name}' must be a list with an entry for each of its {count} solutions")
        return value[index]
    return None if isinstance(value, list) else value


def _texts(text: Any, scores: Any) -> Solution:
    if isinstance(text, list):
        return {"steps": [str(each) for each in text]}
    return {"text": None} if text is None else steps_of_text(str(text), scores)


def is_number(value: Any) -> bool:
    """Return whether a value is a number, and not True or False."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_score(value: Any) -> bool:
    """Return whether there is a number in nested lists."""
    return any(map(_is_score, value)) if isinstance(value, list) else is_number(value)


def _is_label(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    flat = [each for one in values for each in (one if isinstance(one, list) else [one]) if each is not None]
    return bool(flat) and all(isinstance(each, bool) or (is_number(each) and 0 <= each <= 1) for each in flat)


def share_of(value: Any) -> float | None:
    """Return a label as a share in [0, 1]: 1 for right, 0 for wrong, or None if it is neither."""
    if isinstance(value, list):
        value = value[0] if len(value) == 1 else None
    return float(value) if isinstance(value, bool) or is_number(value) else None


def _joined_steps(found: list[Solution], source: str) -> list[Solution]:
    """Join the rows of a table that has a row for each step."""
    if not found or not is_number(found[0].get("step")) or isinstance(found[0].get("score"), list):
        return found
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
