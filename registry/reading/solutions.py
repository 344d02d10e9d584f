"""The solutions in the records of a file, by its published format or by the roles of its fields."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from prmcal.errors import DataError
from prmcal.registry.grading import without_working
from prmcal.registry.messages import excerpt, shown
from prmcal.registry.reading import shapes
from prmcal.registry.reading.fields import Fields, FileFields, Use, typical
from prmcal.registry.reading.records import Record, good_records
from prmcal.registry.reading.shapes import Content, Solution, known, of_one_filter, steps_of_text
from prmcal.registry.reading.values import is_number, right_class


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
    shape = next((each for each in shapes.SHAPES if each.fits(contents[0]) or each.fits(first)), None)
    records = of_one_filter(records, source, fields.label)
    reader = shape or _Reader(contents, source, fields, use)
    read, words = reader.solutions, reader.words if isinstance(reader, _Reader) else f"Shape: {reader.name}."
    field = reader.score if isinstance(reader, _Reader) else None
    found = good_records(records, convert, source, skip)
    return _joined_steps([each for own in found for each in own], source), [words]


class _Reader(FileFields):
    """Reads records whose fields have roles."""

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
            "level": known(record, shapes.LEVELS),
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
                "step": known(record, shapes.STEPS),
                "ids": tuple(str(record.get(name)) for name in shapes.IDS if name in record),
            }
            return
        texts = record.get(self.many)
        if not isinstance(texts, list) or (self.use != "audit" and not texts):
            raise ValueError(f"'{self.many}' must be a list with at least one solution")
        lists = {name: value for name, value in record.items() if isinstance(value, list)}
        answers = lists.get(self.answer or "")
        for index, each in enumerate(texts):
            if self.many in (self.label, self.answer):
                each = {}
            if not isinstance(each, str | list | Mapping):
                raise ValueError(f"each of '{self.many}' must be a text, a list of steps, or an object with these")
            inner = each if isinstance(each, Mapping) else {}
            is_object = isinstance(each, Mapping)
            text = next((inner[name] for name in shapes.ONE if name in inner), None) if is_object else each
            score = _at(self.score, inner, record, index, len(texts))
            answer = inner.get(self.answer or "answer" if text is None or self.is_said else "answer")
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
