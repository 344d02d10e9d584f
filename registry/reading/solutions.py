"""The solutions in the records of a file, by its published format or by the names of its fields.

Where two fields can have the same meaning, an error names both and the option that decides.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from prmcal.errors import DataError
from prmcal.registry.grading import without_working
from prmcal.registry.messages import excerpt, shown
from prmcal.registry.reading.records import Record, good_records
from prmcal.registry.reading.scales import ScaleName
from prmcal.registry.reading.shapes import (
    ANSWERS,
    CLEAR_LABELS,
    COSTS,
    DATASETS,
    IDS,
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
from prmcal.registry.reading.values import (
    OF_STEPS,
    Labels,
    is_label,
    is_missing,
    is_number,
    is_score,
    is_written_score,
    right_class,
)

_Fits = Callable[[Any], bool]
_FIRST = 1000  # records, in which each field is looked for
Use = Literal["audit", "training", "recording", "recorded scores"]
"""The reader of a file. An audit needs a score and a label, and a training a label. A recording needs solutions only,
and is graded by its answers unless it says what is right. Of recorded scores, only the scores are used."""


@dataclass(frozen=True)
class Fields:
    """The fields that a reader names. None: they are found by name and kind of value."""

    question: str | None = None
    score: str | None = None
    label: str | None = None
    scale: ScaleName | None = None
    solutions: str | None = None
    cost: str | None = None
    answer: str | None = None
    truth: str | None = None
    reverse: bool = False
    """Whether a smaller score is better."""


def solutions_of(
    records: Sequence[Record],
    source: str,
    fields: Fields,
    use: Use = "audit",
    skip: bool | None = None,
    check: Callable[[str, list[Solution]], None] = lambda place, solutions: None,
) -> tuple[list[Solution], list[str]]:
    """Return the solutions in records, and sentences that say how they were read.

    Each solution has its `place`, and the `field` of its scores, unless the file has a published shape.

    `skip` is that of :func:`prmcal.registry.reading.records.good_records`. `check` raises ValueError if the solutions
    of a record are bad. Raises a DataError if records are bad, a field that is needed cannot be found, or two fields
    can be meant.
    """

    def convert(place: str, record: Any) -> list[Solution]:
        if not isinstance(record, Mapping):
            raise ValueError(f"it must be an object with fields. Got {shown(record)}")
        try:
            own = [{**each, "place": place, "field": field} for each in read(record)]
        except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
            raise ValueError(
                f"it is unlike the first record ({type(error).__name__}: {excerpt(str(error))})"
            ) from error
        check(place, own)
        return own

    contents = [content for _, content in records if isinstance(content, Mapping)]
    if not contents:
        good_records(records, convert, source, skip)
        raise DataError(f"{source} has no records with fields.")
    first = typical(contents)
    shape = next((each for each in SHAPES if each.fits(contents[0]) or each.fits(first)), None)
    records = of_one_filter(records, source, fields.label)
    reader = shape or _Reader(first, contents, source, fields, use)
    read, words = reader.solutions, reader.words if isinstance(reader, _Reader) else f"Shape: {reader.name}."
    field = reader.score if isinstance(reader, _Reader) else None
    found = good_records(records, convert, source, skip)
    return _joined_steps([each for own in found for each in own], source), [words]


def typical(contents: Sequence[Content]) -> Content:
    """Return a record with the first value of each field that says something, in the order of the fields."""
    merged: dict[str, Any] = {}
    for record in islice(contents, _FIRST):
        for name, value in record.items():
            if name not in merged or (is_missing(merged[name]) and not is_missing(value)):
                merged[name] = value
    return merged


class _Reader:
    """Reads records whose fields are found by their names and by the kinds of their values."""

    def __init__(self, first: Content, contents: Sequence[Content], source: str, fields: Fields, use: Use) -> None:
        self.source, self.use = source, use
        self.costs = (fields.cost,) if fields.cost else COSTS
        names = [name for name in QUESTIONS if name in first]
        # An instruction that all records share is no question.
        varied = [name for name in names if len({str(each.get(name)) for each in contents[:_FIRST]}) > 1]
        names = (varied or names)[:1]
        self.question = self._chosen("question", names, fields.question, first, lambda value: True, True) or ""
        self.dataset = _data_set(self.question, contents)
        is_name = " " not in str(first.get(self.question))
        self.texts = [name for name in QUESTIONS if is_name and " " in str(first.get(name))]
        given = fields.solutions
        names = [given] if given else [*MANY, *ONE]
        self.many = next((name for name in names if _has_many(name, first.get(name), name == given)), None)
        texts = (name for name in names if isinstance(first.get(name), str | list))
        self.text = None if self.many else next(texts, None)
        if given and not self.many and not self.text:
            self._chosen("solution", (), given, {}, is_score, True)
        inner = typical([each for each in first[self.many] if isinstance(each, Mapping)]) if self.many else {}
        every = {**first, **inner}
        self.answer, self.reference = self._compared(every, fields)
        self.is_named = fields.answer is not None
        self.score = self._score(every, fields)
        self.label = self._label(every, fields)
        if not (self.many or self.text) and self.label and _in_parallel(first, self.score, self.label):
            self.many = self.label
        self.labels = self._labels(contents)
        scores = [each for each in self._column(contents, self.score) if not is_missing(each)]
        self.is_classes = bool(scores) and all(right_class(each) for each in scores)
        label = f"'{self.label or self.reference}'{self.labels.words}"
        graded = "" if self.label else ", against which the answers were graded"
        solution, score = (f"'{name}'" if name else "not there" for name in (self.many or self.text, self.score))
        self.words = (
            f"Fields: question '{self.question}', solution {solution}, score {score}, label {label}{graded}."
            f"{' A score is 1 - the first class of its step.' if self.is_classes else ''}"
        )

    def _compared(self, every: Content, fields: Fields) -> tuple[str | None, str | None]:
        """Return the fields with the answer of a solution and with the right one."""
        answers = [name for name in ANSWERS if name in every]
        references = [
            name
            for name in REFERENCES
            if isinstance(every.get(name), str | int | float) and not is_missing(every[name])
        ]
        for role, name in (("answer", fields.answer), ("truth", fields.truth)):
            self._chosen(role, (), name, every, is_score, False)
        answer = fields.answer or (answers[0] if answers else None)
        references = [name for name in references if name != answer]
        truth = fields.truth or (references[0] if references else None)
        if answer is None and truth not in (None, "answer") and not is_missing(every.get("answer")):
            answer = "answer"  # Beside a truth of another name, it is what the solution says.
        return answer, truth

    def _score(self, every: Content, fields: Fields) -> str | None:
        given = fields.score
        if self.use != "audit" and given is None and "logits" in every:
            return "logits"
        if given is None and not any(name in every and is_score(every[name]) for name in SCORES):
            written = [name for name in SCORES if is_written_score(every.get(name)) and name != fields.label]
            said = [name for name in SCORES if isinstance(every.get(name), bool) and name != fields.label]
            if written or (said and any(is_label(every.get(name)) for name in LABELS if name != said[0])):
                return [*written, *said][0]
        names = [name for name in SCORES if name not in (fields.label, fields.truth, fields.answer)]
        # Without scores, solutions with answers have votes.
        needed = self.use == "recorded scores" or (self.use == "audit" and not (self.answer or self._text_graded))
        return self._chosen("score", names, given, every, is_score, needed)

    @property
    def _text_graded(self) -> bool:
        return bool(self.reference and (self.many or self.text))

    def _label(self, every: Content, fields: Fields) -> str | None:
        given = fields.label
        if self.use == "recorded scores" or (given is None and fields.truth):
            return None
        if self.use == "recording":
            if given is None and "correct" in every:
                return "correct"
            names = () if self.reference else CLEAR_LABELS
            return self._chosen("label", names, given, every, is_label, False)
        if given is not None and given == self.score:
            raise DataError(
                f"{self.source}: '{given}' cannot be both the score and the label. Name another: --score FIELD."
            )
        labelled = any(is_label(every.get(name)) for name in LABELS if name != self.score)
        if given is None and not labelled and self.reference and (self.many or self.text or self.answer):
            return None
        return self._chosen("label", LABELS, given, every, is_label, True)

    def _labels(self, contents: Sequence[Content]) -> Labels:
        """Return how the labels are meant, by all of their values. Raises a DataError if they can be no labels."""
        if self.label is None:
            return Labels("outcome")
        values, scores = (self._column(contents, name) for name in (self.label, self.score))
        lengths = [len(each) if isinstance(each, list) else 0 for each in scores]
        try:
            return Labels.of(self.label, values, lengths if len(lengths) == len(values) else [])
        except ValueError as error:
            raise DataError(
                f"{self.source}: '{self.label}' ({', '.join(map(shown, values[:3]))}) cannot be read as a label: "
                f"{error}. Name another field: {self._option('label', 'FIELD')}, or compare answers: --answer FIELD "
                "--truth FIELD."
            ) from error

    def _column(self, contents: Sequence[Content], name: str | None) -> list[Any]:
        """Return the values of a field, one for each solution."""
        values: list[Any] = []
        for record in contents:
            inner = record.get(self.many or "")
            parts = [part for part in inner if isinstance(part, Mapping)] if isinstance(inner, list) else []
            value = record.get(name or "")
            alone = value if self.many and isinstance(value, list) else [value]
            values += [part[name] for part in parts if name in part] or alone
        return values

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
        found = [name for name in found if name not in SCORES] or found if role == "label" else found
        if len(found) > 1 and (needed or role == "label"):
            ways = " or ".join(self._option(role, name) for name in found[:2])
            one, other = (f"'{name}' ({shown(every[name])})" for name in found[:2])
            both = f" To compare them: --score {found[0]} --score {found[1]}." if role == "score" else ""
            raise DataError(f"{self.source}: the {role} can be {one} or {other}. Say which: {ways}.{both}")
        if not found and needed:
            option = self._option(role, "FIELD")
            other = f"no field is known as the {role}"
            if role == "score" and {"reward", "score", "value"} & set(every):
                other = "no other field is a score"
            compared = " Or name an answer and the right one: --answer FIELD --truth FIELD." if role == "label" else ""
            raise DataError(f"{self.source}: {other}. {fields} Name it: {option}.{compared}")
        return found[0] if len(found) == 1 else None

    def solutions(self, record: Content) -> Iterator[Solution]:
        """Yield the solutions of a record. Raises ValueError if it has none that can be read."""
        question = record.get(self.question)
        if question is None or not str(question).strip():
            raise ValueError(f"it must have a '{self.question}'")
        if self.dataset:
            question = f"{record.get(self.dataset)}: {question}"
        reference = record.get(self.reference or "")
        shared = {
            "question": str(question),
            "asked": known(record, self.texts),
            "reference": None if self.label or reference is None else without_working(str(reference)),
            "level": known(record, LEVELS),
            "follow_ups": record.get("follow_ups"),
        }
        if self.many is None:
            score = record.get(self.score or "")
            yield {
                **shared,
                **_texts(record.get(self.text) if self.text else None, score),
                **self.labels.read(record.get(self.label or "")),
                "score": right_class(score) if self.is_classes else score,
                "answer": record.get(self.answer or ""),
                "cost": known(record, self.costs),
                "step": record.get("step"),
                "ids": tuple(str(record.get(name)) for name in IDS if name in record),
            }
            return
        texts = record.get(self.many)
        if not isinstance(texts, list) or (self.use != "audit" and not texts):
            raise ValueError(f"'{self.many}' must be a list with at least one solution")
        lists = {name: value for name, value in record.items() if isinstance(value, list)}
        answers = lists.get(self.answer or "")
        for index, each in enumerate(texts):
            if self.many == self.label:
                each = {}
            if not isinstance(each, str | list | Mapping):
                raise ValueError(f"each of '{self.many}' must be a text, a list of steps, or an object with these")
            inner = each if isinstance(each, Mapping) else {}
            is_object = isinstance(each, Mapping)
            text = next((inner[name] for name in ONE if name in inner), None) if is_object else each
            score = _at(self.score, inner, record, index, len(texts))
            # The answers of texts are read from them, unless a field is named.
            answer = inner.get("answer" if text is not None and not self.is_named else self.answer or "answer")
            yield {
                **shared,
                **_texts(text, score),
                "number": index + 1,
                **self.labels.read(_at(self.label, inner, record, index, len(texts))),
                "score": right_class(score) if self.is_classes else score,
                "answer": answers[index] if answers and len(answers) == len(texts) else answer,
                "cost": known({name: _at(name, inner, lists, index, len(texts)) for name in self.costs}, self.costs),
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


def _data_set(question: str, contents: Sequence[Content]) -> str | None:
    """Return the field that tells data sets apart, if several have questions of the same name."""
    name = next((name for name in DATASETS if name in contents[0] and name != question), None)
    if name is None or any(" " in str(record.get(question)) for record in contents):
        return None  # Equal texts are one question.
    owners: dict[str, str] = {}
    for record in contents:
        owner = str(record.get(name))
        if owners.setdefault(str(record.get(question)), owner) != owner:
            return name
    return None


def _in_parallel(first: Content, score: str | None, label: str) -> bool:
    """Return whether lists of scores and labels have one entry for each solution, and not for each step."""
    scores, labels = first.get(score or ""), first.get(label)
    both = isinstance(scores, list) and isinstance(labels, list) and len(scores) == len(labels) > 1
    return both and not OF_STEPS.search(label) and not OF_STEPS.search(score or "")


def _joined_steps(found: list[Solution], source: str) -> list[Solution]:
    """Join the rows of a table that has a row for each step."""
    if not found or not is_number(found[0].get("step")) or isinstance(found[0].get("score"), list):
        return found
    count = _naming_ids(found)
    whole: dict[tuple[Any, ...], Solution] = {}
    for each in sorted(found, key=lambda row: row["step"]):
        one = whole.setdefault(
            (each["question"], *each["ids"][:count]), {**each, "steps": [], "score": [], "rates": []}
        )
        if one["step"] == each["step"] and one["steps"]:
            raise DataError(
                f"{source}: the question {excerpt(each['question'])} has step {each['step']} twice in one solution. "
                "Name the solutions in a field 'solution'."
            )
        one["step"] = each["step"]
        one["steps"].append(each.get("text") or "")
        one["score"].append(each["score"])
        one["label"] = each.get("label")
        one["rates"].append(one["label"])
    marks = [one.pop("rates") for one in whole.values()]
    if any(len(set(own) - {None}) > 1 for own in marks):  # Each step has a label of its own.
        kind = "right" if {mark for own in marks for mark in own} <= {None, 0, 1} else "rates"
        for one, own in zip(whole.values(), marks, strict=True):
            one[kind] = own
    bare = min(each["step"] for each in found) == 0 and max(each["step"] for each in found) > 0
    for one in whole.values():
        if bare:  # Step 0 is the bare question.
            one["steps"] = one["steps"][1:]
    return list(whole.values())


def _naming_ids(rows: Sequence[Solution]) -> int:
    """Return how many of the ids of rows tell solutions apart. A number of the row is no name of a solution."""
    for count in range(len(rows[0]["ids"]) + 1):
        names = {(row["question"], *row["ids"][:count]) for row in rows}
        steps = {(row["question"], *row["ids"][:count], row["step"]) for row in rows}
        if len(steps) == len(rows) > len(names):
            return count
    return 0
