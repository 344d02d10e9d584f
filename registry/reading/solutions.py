"""The solutions in the records of a file, by its published format or by the roles of its fields."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from prmcal.errors import DataError
from prmcal.registry.grading import without_working
from prmcal.registry.messages import excerpt, shown
from prmcal.registry.reading import roles, shapes
from prmcal.registry.reading.fields import Fields, FileFields, Use, typical
from prmcal.registry.reading.records import Record, good_records
from prmcal.registry.reading.shapes import Content, Solution, first_value, of_lm_eval, steps_of_text
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

    `skip` is as in :func:`prmcal.registry.reading.records.good_records`. `check` raises ValueError if the solutions of
    a record are bad. Raises a DataError if records are bad, a needed field is not found, or two fields are possible.
    """

    def convert(place: str, record: Any) -> list[Solution]:
        if not isinstance(record, Mapping):
            raise ValueError(f"it must be an object with fields. Got {shown(record)}")
        try:
            solutions = [{"field": field, **solution, "place": place} for solution in reader.solutions(record)]
        except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
            raise ValueError(
                f"it is unlike the first record ({type(error).__name__}: {excerpt(str(error))})"
            ) from error
        check(place, solutions)
        return solutions

    contents = [content for _, content in records if isinstance(content, Mapping)]
    if not contents:
        good_records(records, convert, source, skip)
        raise DataError(f"{source} has no records with fields.")
    first_values = typical(contents)
    shape = next((shape for shape in shapes.SHAPES if shape.fits(contents[0]) or shape.fits(first_values)), None)
    records, words = of_lm_eval(records, source, fields.label)
    reader = shape or _Reader(contents, source, fields, use)
    field = reader.score if isinstance(reader, _Reader) else None
    description = reader.words if isinstance(reader, _Reader) else f"Shape: {reader.name}.{words}"
    groups = good_records(records, convert, source, skip)
    return _joined_steps([solution for group in groups for solution in group], source), [description]


class _Reader(FileFields):
    """Reads records whose fields have roles."""

    def solutions(self, record: Content) -> Iterator[Solution]:
        """Yield the solutions of a record. Raises ValueError if the record has no readable solution."""
        question = record.get(self.question)
        if question is None or not str(question).strip():
            raise ValueError(f"it must have a '{self.question}'")
        if self.dataset:
            question = f"{record.get(self.dataset)}: {question}"
        reference = record.get(self.reference or "")
        shared = {
            "question": str(question),
            "asked": first_value(record, self.question_texts),
            "reference": None if self.label or reference is None else without_working(str(reference)),
            "level": first_value(record, roles.LEVELS),
            "options": options if isinstance(options := record.get("options"), list) else None,
            "follow_ups": record.get("follow_ups"),
        }
        if self.solution_list is None:
            score = record.get(self.score or "")
            yield {
                **shared,
                **_texts(record.get(self.solution_text) if self.solution_text else None, score),
                **self.labels.read(record.get(self.label or "")),
                "score": right_class(score) if self.scores_are_classes else score,
                "answer": record.get(self.answer or ""),
                "cost": first_value(record, self.cost_fields),
                "step": first_value(record, roles.STEPS),
                "ids": tuple(str(record.get(name)) for name in roles.IDS if name in record),
            }
            return
        texts = record.get(self.solution_list)
        if not isinstance(texts, list) or (self.use != "audit" and not texts):
            raise ValueError(f"'{self.solution_list}' must be a list with at least one solution")
        lists = {name: value for name, value in record.items() if isinstance(value, list)}
        answers = lists.get(self.answer or "")
        for index, solution in enumerate(texts):
            if self.solution_list in (self.label, self.answer):
                solution = {}
            if not isinstance(solution, str | list | Mapping):
                many = f"each of '{self.solution_list}'"
                raise ValueError(f"{many} must be a text, a list of steps, or an object with these")
            inner, text = (solution, None) if isinstance(solution, Mapping) else ({}, solution)
            if isinstance(solution, Mapping):
                text = next((inner[name] for name in roles.SOLUTION_TEXTS if name in inner), None)
            score = _at(self.score, inner, record, index, len(texts))
            answer = inner.get(self.answer or "answer" if text is None or self.answer_is_field else "answer")
            costs = {name: _at(name, inner, lists, index, len(texts)) for name in self.cost_fields}
            yield {
                **shared,
                **_texts(text, score),
                "number": index + 1,
                **self.labels.read(_at(self.label, inner, record, index, len(texts))),
                "score": right_class(score) if self.scores_are_classes else score,
                "answer": answers[index] if answers and len(answers) == len(texts) else answer,
                "cost": first_value(costs, self.cost_fields),
                "finish_reason": inner.get("finish_reason"),
            }


def _at(name: str | None, inner: Content, record: Content, index: int, count: int) -> Any:
    """Return a field of a solution: its own, or its element in a list of the record."""
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
        return {"steps": [str(step) for step in text]}
    return {"text": None} if text is None else steps_of_text(str(text), scores)


def _joined_steps(rows: list[Solution], source: str) -> list[Solution]:
    """Join the rows of a table that has a row for each step."""
    if not rows or not is_number(rows[0].get("step")) or isinstance(rows[0].get("score"), list):
        return rows
    count = _naming_ids(rows)
    solutions: dict[tuple[Any, ...], Solution] = {}
    for row in sorted(rows, key=lambda row: row["step"]):
        solution = solutions.setdefault(
            (row["question"], *row["ids"][:count]), {**row, "steps": [], "score": [], "rates": []}
        )
        if solution["step"] == row["step"] and solution["steps"]:
            raise DataError(
                f"{source}: the question {excerpt(row['question'])} has step {row['step']} twice in one solution. "
                "Name the solutions in a field 'solution'."
            )
        solution["step"] = row["step"]
        solution["steps"].append(row.get("text") or "")
        solution["score"].append(row["score"])
        solution["label"] = row.get("label")
        solution["rates"].append(solution["label"])
    labels = [solution.pop("rates") for solution in solutions.values()]
    if any(len(set(solution_labels) - {None}) > 1 for solution_labels in labels):  # Each step has a label of its own.
        kind = "right" if set().union(*labels) <= {None, 0, 1} else "rates"
        for solution, solution_labels in zip(solutions.values(), labels, strict=True):
            solution[kind] = solution_labels
    step_numbers = {row["step"] for row in rows}
    if min(step_numbers) == 0 < max(step_numbers):  # Step 0 is the bare question.
        for solution in solutions.values():
            solution["steps"] = solution["steps"][1:]
    return list(solutions.values())


def _naming_ids(rows: Sequence[Solution]) -> int:
    """Return how many of the ids of rows tell solutions apart. A number of the row is no name of a solution."""
    for count in range(len(rows[0]["ids"]) + 1):
        names = {(row["question"], *row["ids"][:count]) for row in rows}
        steps = {(row["question"], *row["ids"][:count], row["step"]) for row in rows}
        if len(steps) == len(rows) > len(names):
            return count
    return 0
