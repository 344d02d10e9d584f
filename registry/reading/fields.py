"""The fields of a file by their roles, found by their names and by the kinds of their values.

Where two fields can have the same role, or none has it, an error names fields with their first values and the option
that decides.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from prmcal.errors import DataError
from prmcal.registry.messages import excerpt, shown
from prmcal.registry.reading import shapes
from prmcal.registry.reading.shapes import Content
from prmcal.registry.reading.values import (
    FIRST_WRONG,
    OF_STEPS,
    Labels,
    is_label,
    is_missing,
    is_score,
    is_written_score,
    leaves,
    right_class,
    share_of,
)

_Fits = Callable[[Any], bool]
_FIRST = 1000  # records, in which each field is looked for
_FEW, _FINER = 10, 5
"""A name with fewer values may be that of a data set, if another one has so many times as many."""
Use = Literal["audit", "training", "recording", "recorded scores"]
"""The reader of a file. An audit needs a score and a label, and a training a label. A recording needs solutions only,
and is graded by its answers unless it says what is right. Of recorded scores, only the scores are used."""


@dataclass(frozen=True)
class Fields:
    """The fields that a reader names. None: they are found by name and kind of value."""

    question: str | None = None
    score: str | None = None
    label: str | None = None
    scale: str | None = None
    """One of :data:`prmcal.registry.reading.scales.NAMES`, or the lowest and the highest grade, such as ``1-7``."""
    solutions: str | None = None
    cost: str | None = None
    answer: str | None = None
    truth: str | None = None
    reverse: bool = False
    """Whether a smaller score is better."""


def typical(contents: Sequence[Content]) -> Content:
    """Return a record with the first value of each field that says something, in the order of the fields."""
    merged: dict[str, Any] = {}
    for record in islice(contents, _FIRST):
        for name, value in record.items():
            if name not in merged or (is_missing(merged[name]) and not is_missing(value)):
                merged[name] = value
    return merged


class FileFields:
    """The fields of a file by their roles; None where there is none. Raises a DataError if a role is not clear."""

    question: str = ""
    score: str | None = None
    label: str | None = None
    many: str | None = None
    """The list of the solutions of a record."""
    text: str | None = None
    """The text or the steps of the only solution of a record."""

    def __init__(self, contents: Sequence[Content], source: str, fields: Fields, use: Use) -> None:
        self.contents, self.source, self.use = contents, source, use
        self.costs = (fields.cost,) if fields.cost else shapes.COSTS
        self.every = first = typical(contents)
        self.question = self._question(fields.question)
        self.dataset = _data_set(self.question, contents)
        is_name = " " not in str(first.get(self.question))
        self.texts = [name for name in shapes.QUESTIONS if is_name and " " in str(first.get(name))]
        given = fields.solutions
        names = [given] if given else [*shapes.MANY, *shapes.ONE]
        lists = names if given else [*names, *first]
        self.many = next((name for name in lists if _has_many(name, first.get(name), name == given)), None)
        texts = (name for name in names if isinstance(first.get(name), str | list))
        self.text = None if self.many else next(texts, None)
        if given and not self.many and not self.text:
            self._chosen("solution", (), given, is_score, True)
        inner = typical([each for each in first[self.many] if isinstance(each, Mapping)]) if self.many else {}
        self.every, self.inner = {**first, **inner}, inner
        self.answer, self.reference = self._compared(fields)
        if not (self.many or self.text) and isinstance(first.get(self.answer or ""), list):
            self.many = self.answer
        # Of solutions with texts, the answers are read from these, unless a field is named.
        self.is_said = fields.answer is not None or self.answer not in shapes.ANSWERS
        self.score = self._score(fields)
        self.label = self._label(fields)
        if not (self.many or self.text) and self.label and _in_parallel(first, self.score, self.label):
            self.many = self.label
        self.labels = self._labels()
        scores = [each for each in self._column(self.score) if not is_missing(each)]
        self.is_classes = bool(scores) and all(right_class(each) for each in scores)

    @property
    def words(self) -> str:
        """The sentence that says how the file was read."""
        solution, score, answer = (
            f"'{name}'" if name else "not there" for name in (self.many or self.text, self.score, self.answer)
        )
        label = f"'{self.label or self.reference}'{self.labels.words}"
        is_field = self.answer and (self.is_said or not self.many or self.many == self.answer)
        what = f"{answer} was" if is_field else "the answers were"
        graded = "" if self.label else f", against which {what} graded"
        return (
            f"Fields: question '{self.question}', solution {solution}, score {score}, label {label}{graded}."
            f"{' A score is 1 - the first class of its step.' if self.is_classes else ''}"
        )

    def _question(self, given: str | None) -> str:
        counts = {
            name: len({str(each.get(name)) for each in self.contents})
            for name in shapes.QUESTIONS
            if name in self.every
        }
        # An instruction that all records share is no question.
        names = [name for name in counts if counts[name] > 1] or [*counts]
        found = self._chosen("question", names[:1], given, lambda value: True, True) or ""
        finer = [name for name in names[1:] if counts[name] >= _FINER * counts[found]] if given is None else []
        if finer and counts[found] < _FEW and " " not in str(self.every[found]):
            raise self._either("question", found, finer[0])
        return found

    def _compared(self, fields: Fields) -> tuple[str | None, str | None]:
        """Return the fields with the answer of a solution and with the right one."""
        every = self.every
        for role, name in (("answer", fields.answer), ("truth", fields.truth)):
            self._chosen(role, (), name, is_score, False)
        answer = fields.answer or next((name for name in shapes.ANSWERS if name in every), None)
        references = [
            name
            for name in shapes.REFERENCES
            if name != answer and isinstance(every.get(name), str | int | float) and not is_missing(every[name])
        ]
        truth = fields.truth or (references[0] if references else None)
        if answer is None and truth is not None:  # Beside a truth of another name, it is what the solution says.
            is_own = "final_answer" in self.inner or not (self.many or self.text)
            names = ("answer", "final_answer") if is_own else ("answer",)
            answer = next((name for name in names if name != truth and not is_missing(every.get(name))), None)
        return answer, truth

    def _score(self, fields: Fields) -> str | None:
        given, every = fields.score, self.every
        if self.use != "audit" and given is None and "logits" in every:
            return "logits"
        names = [name for name in shapes.SCORES if name not in (fields.label, fields.truth, fields.answer)]
        if given is None and not any(name in every and is_score(every[name]) for name in shapes.SCORES):
            written = [name for name in shapes.SCORES if is_written_score(every.get(name)) and name != fields.label]
            said = [name for name in shapes.SCORES if isinstance(every.get(name), bool) and name != fields.label]
            if written or (said and any(is_label(every.get(name)) for name in shapes.LABELS if name != said[0])):
                return [*written, *said][0]
        # Without scores, solutions with answers have votes.
        needed = self.use == "recorded scores" or (self.use == "audit" and not (self.answer or self._text_graded))
        return self._chosen("score", names, given, is_score, needed)

    @property
    def _text_graded(self) -> bool:
        return bool(self.reference and (self.many or self.text))

    def _label(self, fields: Fields) -> str | None:
        given = fields.label
        if self.use == "recorded scores" or (given is None and fields.truth):
            return None
        if self.use == "recording":
            if given is None and "correct" in self.every:
                return "correct"
            names = () if self.reference else shapes.CLEAR_LABELS
            return self._chosen("label", names, given, is_label, False)
        if given is not None and given == self.score:
            raise DataError(
                f"{self.source}: '{given}' cannot be both the score and the label. Name another: --score FIELD."
            )
        labelled = any(is_label(self.every.get(name)) for name in shapes.LABELS if name != self.score)
        if given is None and not labelled and self.reference and (self.many or self.text or self.answer):
            return None
        found = self._chosen("label", shapes.LABELS, given, is_label, True)
        if given is None and self.answer and found not in shapes.CLEAR_LABELS:
            answers, labels = (self._column(name) for name in (self.answer, found))
            if all(map(is_label, answers)) and set(map(str, answers)) & set(map(str, labels)):
                raise DataError(
                    f"{self.source}: '{found}' ({self._values(found)}) can be the label, or what '{self.answer}' "
                    f"({self._values(self.answer)}) should be. Say which: --label {found}, or --answer {self.answer} "
                    f"--truth {found}."
                )
        return found

    def _labels(self) -> Labels:
        """Return how the labels are meant, by all of their values. Raises a DataError if they can be no labels."""
        if self.label is None:
            return Labels("outcome")
        values, scores = self._column(self.label), self._column(self.score)
        lengths = [len(each) if isinstance(each, list) else 1 for each in scores if not is_missing(each)]
        try:
            return Labels.of(self.label, values, lengths if len(lengths) == len(values) else [])
        except ValueError as error:
            raise DataError(
                f"{self.source}: '{self.label}' ({self._values(self.label)}) cannot be read as a label: {error}. Name "
                f"another field: {self._option('label', 'FIELD')}, or compare answers: --answer FIELD --truth FIELD."
            ) from error

    def _column(self, name: str | None) -> list[Any]:
        """Return the values of a field, one for each solution."""
        values: list[Any] = []
        for record in self.contents:
            inner = record.get(self.many or "")
            parts = [part for part in inner if isinstance(part, Mapping)] if isinstance(inner, list) else []
            value = record.get(name or "")
            alone = value if self.many and isinstance(value, list) else [value]
            values += [part[name] for part in parts if name in part] or alone
        return values

    def _values(self, name: str | None) -> str:
        """Return the first values of a field."""
        values = self._column(name)[:3]
        return ", ".join(f"{each:.4g}" if isinstance(each, float) else excerpt(shown(each), 30) for each in values)

    def _option(self, role: str, name: str) -> str:
        """Return what a user writes to name a field."""
        return f"--{role} {name}" if self.use in ("audit", "training") else f"fields: {{{role}: {name}}}"

    def _chosen(self, role: str, names: Sequence[str], given: str | None, fits: _Fits, needed: bool) -> str | None:
        """Return the field with a role, or None if it is neither there nor needed."""
        if given is not None:
            if given not in self.every:
                raise DataError(f"{self.source} has no field '{given}'. {self._listed}")
            return given
        taken = self.score if role == "label" else None
        found = [name for name in names if name in self.every and name != taken and fits(self.every[name])]
        found = [name for name in found if name not in shapes.SCORES] or found if role == "label" else found
        if len(found) > 1 and (needed or role == "label"):
            raise self._either(role, *found[:2])
        if not found and needed:
            raise self._absent(role, [name for name in names if name in self.every and name != taken])
        return found[0] if len(found) == 1 else None

    @property
    def _listed(self) -> str:
        return f"Its fields are {excerpt(', '.join(map(str, self.every)))}."

    def _either(self, role: str, one: str, other: str) -> DataError:
        """Return the error that says that two fields can have a role."""
        ways = " or ".join(self._option(role, name) for name in (one, other))
        both = f" To compare them: --score {one} --score {other}." if role == "score" else ""
        first, second = (f"'{name}' ({self._values(name)})" for name in (one, other))
        return DataError(f"{self.source}: the {role} can be {first} or {second}. Say which: {ways}.{both}")

    def _absent(self, role: str, unfit: Sequence[str]) -> DataError:
        """Return the error that says that no field has a role, and which ones may have it."""
        is_label = role == "score" and not unfit and {"reward", "score", "value"} & set(self.every)
        what = "no other field is a score" if is_label else f"no field is known as the {role}"
        what += f", and '{unfit[0]}' ({self._values(unfit[0])}) is none" if unfit else ""
        likely = [f"{self._option(role, name)} ({self._values(name)})" for name in islice(self._likely(role), 2)]
        ways = " or ".join([*likely, *([] if likely else [self._option(role, "FIELD")])])
        compared = " Or name an answer and the right one: --answer FIELD --truth FIELD." if role == "label" else ""
        return DataError(f"{self.source}: {what}. {self._listed} Name it: {ways}.{compared}")

    def _likely(self, role: str) -> Iterator[str]:
        """Yield the fields without a role whose values are like those of a role."""
        for name in self.every:
            if name in (self.question, self.many, self.text):
                continue
            values = [each for each in self._column(name) if not is_missing(each)]
            if role == "question":
                is_text = all(isinstance(each, str | int) and not is_written_score(each) for each in values)
                fits = is_text and len({*map(str, values)}) >= _FEW
            elif role == "score":
                is_varied = len({*map(str, leaves(values))}) > 2
                fits = (
                    is_varied
                    and name not in shapes.IDS
                    and all(is_score(each) or is_written_score(each) for each in values)
                )
            else:
                marks = {share_of(each) for each in leaves(values)}
                fits = marks <= {-1, 0, 1} or FIRST_WRONG.search(name) is not None
            if values and fits:
                yield name


def _has_many(name: str, value: Any, given: bool) -> bool:
    """Return whether a field has a list of solutions. A list of texts in a field such as `steps` is one solution."""
    inner = value[0] if isinstance(value, list) and value else None
    if not isinstance(value, list):
        return False
    if name in shapes.MANY or (given and name not in shapes.ONE) or (name == "output" and isinstance(inner, Mapping)):
        return True
    if name in shapes.ONE or not isinstance(inner, Mapping):
        return name in shapes.ONE and isinstance(inner, list)
    return not inner.keys().isdisjoint({*shapes.SCORES, *shapes.CLEAR_LABELS})


def _data_set(question: str, contents: Sequence[Content]) -> str | None:
    """Return the field that tells data sets apart, if several have questions of the same name."""
    if any(" " in str(record.get(question)) for record in contents):
        return None  # Equal texts are one question.
    for name in shapes.SUBSETS:
        owners: dict[str, str] = {}
        for record in contents if name in contents[0] and name != question else ():
            owner = str(record.get(name))
            if owners.setdefault(str(record.get(question)), owner) != owner:
                return name
    return None


def _in_parallel(first: Content, score: str | None, label: str) -> bool:
    """Return whether lists of scores and labels have one entry for each solution, and not for each step."""
    scores, labels = first.get(score or ""), first.get(label)
    both = isinstance(scores, list) and isinstance(labels, list) and len(scores) == len(labels) > 1
    return both and not OF_STEPS.search(label) and not OF_STEPS.search(score or "")
