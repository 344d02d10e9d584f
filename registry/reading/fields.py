"""The fields of a file by their roles, found by their names and by the kinds of their values.

If two fields can have the same role, or none can, an error shows fields with their first values, and the option that
decides.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from prmcal.errors import DataError
from prmcal.registry.messages import excerpt, shown
from prmcal.registry.reading import roles
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
_MOST_RECORDS = 1000  # in which fields are looked for
_FEW_VALUES, _TIMES_MORE = 10, 5
"""A field with few values may be the data set, if another field has this many times as many values."""
Use = Literal["audit", "training", "recording", "recorded scores"]
"""The reader of a file. An audit needs a score and a label, and a training a label. A recording needs solutions only.
It is graded by its answers unless it has verdicts. Of recorded scores, only the scores are used."""


@dataclass(frozen=True)
class Fields:
    """The fields that a reader names. With None, they are found by name and kind of value."""

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
    """Return a record with the first non-empty value of each field, in the order of the fields."""
    merged: dict[str, Any] = {}
    for record in islice(contents, _MOST_RECORDS):
        for name, value in record.items():
            if name not in merged or (is_missing(merged[name]) and not is_missing(value)):
                merged[name] = value
    return merged


class FileFields:
    """The fields of a file by their roles; None where there is none. Raises a DataError if a role is not clear.

    The roles are found one after another, since each depends on those before it.
    """

    question: str = ""
    question_texts: list[str]
    """Fields with the text of a question, if `question` has its name."""
    dataset: str | None
    """The field with the data set, if data sets share names of questions."""
    solution_list: str | None = None
    """The list of the solutions of a record."""
    solution_text: str | None = None
    """The text or the steps of the only solution of a record."""
    answer: str | None
    answer_is_field: bool
    """True if `answer` has the answers of solutions with texts too. Otherwise answers are read from the texts."""
    reference: str | None
    """The right answer."""
    score: str | None = None
    scores_are_classes: bool
    """Whether a score is a list with the shares of the classes of each step."""
    label: str | None
    labels: Labels

    def __init__(self, contents: Sequence[Content], source: str, fields: Fields, use: Use) -> None:
        self.contents, self.source, self.use = contents, source, use
        self.cost_fields = (fields.cost,) if fields.cost else roles.COSTS
        record = self.first_values = typical(contents)
        self.question = self._question(fields.question)
        self.dataset = _data_set(self.question, contents)
        is_name = " " not in str(record.get(self.question))
        self.question_texts = [name for name in roles.QUESTIONS if is_name and " " in str(record.get(name))]
        self.solution_list, self.solution_text = self._solutions(fields.solutions)
        solutions = record[self.solution_list] if self.solution_list else ()
        self.solution_values = typical([solution for solution in solutions if isinstance(solution, Mapping)])
        self.first_values = {**record, **self.solution_values}
        self.answer, self.reference = self._compared(fields)
        self.answer_is_field = fields.answer is not None or self.answer not in roles.ANSWERS
        has_solutions = self.solution_list or self.solution_text
        if not has_solutions and isinstance(record.get(self.answer or ""), list):
            has_solutions = self.solution_list = self.answer
        self.score = self._score(fields)
        self.label = self._label(fields)
        if not has_solutions and self.label and _in_parallel(record, self.score, self.label):
            self.solution_list = self.label
        self.labels = self._labels()
        scores = [score for score in self._column(self.score) if not is_missing(score)]
        self.scores_are_classes = bool(scores) and all(right_class(score) for score in scores)

    @property
    def words(self) -> str:
        """The sentence that says how the file was read."""
        names = (self.solution_list or self.solution_text, self.score, self.answer)
        solution, score, answer = (f"'{name}'" if name else "not there" for name in names)
        label = f"'{self.label or self.reference}'{self.labels.words}"
        is_field = self.answer and (self.answer_is_field or not self.solution_list or self.solution_list == self.answer)
        what = f"{answer} was" if is_field else "the answers were"
        comparison = "" if self.label else f", against which {what} graded"
        return (
            f"Fields: question '{self.question}', solution {solution}, score {score}, label {label}{comparison}."
            f"{' A score is 1 - the first class of its step.' if self.scores_are_classes else ''}"
        )

    def _question(self, chosen_name: str | None) -> str:
        names = [name for name in roles.QUESTIONS if name in self.first_values]
        counts = {name: len({str(record.get(name)) for record in self.contents}) for name in names}
        # An instruction that all records share is no question.
        names = [name for name in counts if counts[name] > 1] or [*counts]
        question = self._field_of("question", names[:1], chosen_name, lambda value: True, True) or ""
        if chosen_name is None and counts[question] < _FEW_VALUES and " " not in str(self.first_values[question]):
            for name in names[1:]:
                if counts[name] >= _TIMES_MORE * counts[question]:
                    raise self._either("question", question, name)
        return question

    def _solutions(self, chosen_name: str | None) -> tuple[str | None, str | None]:
        """Return the field with the list of solutions of a record, or with the only solution."""
        record = self.first_values
        names = [chosen_name] if chosen_name else [*roles.SOLUTION_LISTS, *roles.SOLUTION_TEXTS]
        for name in names if chosen_name else [*names, *record]:
            if _has_many(name, record.get(name), name == chosen_name):
                return name, None
        text = next((name for name in names if isinstance(record.get(name), str | list)), None)
        if chosen_name and not text:
            self._field_of("solution", (), chosen_name, is_score, True)
        return None, text

    def _compared(self, fields: Fields) -> tuple[str | None, str | None]:
        """Return the fields with the answer of a solution and with the right one."""
        for role, name in (("answer", fields.answer), ("truth", fields.truth)):
            self._field_of(role, (), name, is_score, False)
        answer = fields.answer or next((name for name in roles.ANSWERS if name in self.first_values), None)
        references = self._fitting(
            roles.REFERENCES, lambda value: isinstance(value, str | int | float) and not is_missing(value)
        )
        truth = fields.truth or next((name for name in references if name != answer), None)
        if answer is None and truth is not None:  # Beside the truth, a field named "answer" is that of the solution.
            is_of_solution = "final_answer" in self.solution_values or not (self.solution_list or self.solution_text)
            names = ("answer", "final_answer") if is_of_solution else ("answer",)
            answers = self._fitting(names, lambda value: not is_missing(value))
            answer = next((name for name in answers if name != truth), None)
        return answer, truth

    def _fitting(self, names: Iterable[str], fits: _Fits) -> list[str]:
        """Return the names of fields whose first values fit."""
        return [name for name in names if name in self.first_values and fits(self.first_values[name])]

    def _score(self, fields: Fields) -> str | None:
        if self.use != "audit" and fields.score is None and "logits" in self.first_values:
            return "logits"
        if fields.score is None and not self._fitting(roles.SCORES, is_score):
            names = [name for name in roles.SCORES if name != fields.label]
            written = self._fitting(names, is_written_score)
            booleans = self._fitting(names, lambda value: isinstance(value, bool))
            labels = self._fitting(roles.LABELS, is_label) if booleans else []
            if written or any(name != booleans[0] for name in labels):
                return [*written, *booleans][0]
        names = [name for name in roles.SCORES if name not in (fields.label, fields.truth, fields.answer)]
        # Without scores, solutions with answers have votes.
        has_votes = self.answer or (self.reference and (self.solution_list or self.solution_text))
        is_needed = self.use == "recorded scores" or (self.use == "audit" and not has_votes)
        return self._field_of("score", names, fields.score, is_score, is_needed)

    def _label(self, fields: Fields) -> str | None:
        chosen_name = fields.label
        if self.use == "recorded scores" or (chosen_name is None and fields.truth):
            return None
        if self.use == "recording":
            if chosen_name is None and "correct" in self.first_values:
                return "correct"
            names = () if self.reference else roles.CLEAR_LABELS
            return self._field_of("label", names, chosen_name, is_label, False)
        if chosen_name is not None and chosen_name == self.score:
            raise DataError(
                f"{self.source}: '{chosen_name}' cannot be both the score and the label. Name another: --score FIELD."
            )
        has_label = any(name != self.score for name in self._fitting(roles.LABELS, is_label))
        has_answers = self.reference and (self.solution_list or self.solution_text or self.answer)
        if chosen_name is None and not has_label and has_answers:
            return None
        label = self._field_of("label", roles.LABELS, chosen_name, is_label, True)
        if chosen_name is None and self.answer and label not in roles.CLEAR_LABELS:
            answers, labels = (self._column(name) for name in (self.answer, label))
            if all(map(is_label, answers)) and set(map(str, answers)) & set(map(str, labels)):
                raise DataError(
                    f"{self.source}: '{label}' ({self._values(label)}) can be the label, or the right value of "
                    f"'{self.answer}' ({self._values(self.answer)}). Say which: --label {label}, or --answer "
                    f"{self.answer} --truth {label}."
                )
        return label

    def _labels(self) -> Labels:
        """Return the meaning of the labels, from all of their values. Raises a DataError if they can be no labels."""
        if self.label is None:
            return Labels("outcome")
        values, scores = self._column(self.label), self._column(self.score)
        lengths = [len(score) if isinstance(score, list) else 1 for score in scores if not is_missing(score)]
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
            solutions, value = record.get(self.solution_list or ""), record.get(name or "")
            objects = filter(lambda entry: isinstance(entry, Mapping), solutions if isinstance(solutions, list) else [])
            record_values = value if self.solution_list and isinstance(value, list) else [value]
            values += [solution[name] for solution in objects if name in solution] or record_values
        return values

    def _values(self, name: str | None) -> str:
        """Return the first values of a field."""
        values = self._column(name)[:3]
        return ", ".join(f"{value:.4g}" if isinstance(value, float) else excerpt(shown(value), 30) for value in values)

    def _option(self, role: str, name: str) -> str:
        """Return the option that names a field."""
        return f"--{role} {name}" if self.use in ("audit", "training") else f"fields: {{{role}: {name}}}"

    def _field_of(
        self, role: str, names: Sequence[str], chosen_name: str | None, fits: _Fits, is_needed: bool
    ) -> str | None:
        """Return the field with a role, or None if the role is absent and not needed."""
        if chosen_name is not None:
            if chosen_name not in self.first_values:
                raise DataError(f"{self.source} has no field '{chosen_name}'. {self._listed}")
            return chosen_name
        if role == "label":
            names = [name for name in names if name != self.score]
        candidates = self._fitting(names, fits)
        if role == "label":
            candidates = [name for name in candidates if name not in roles.SCORES] or candidates
        if len(candidates) > 1 and (is_needed or role == "label"):
            raise self._either(role, *candidates[:2])
        if not candidates and is_needed:
            raise self._absent(role, [name for name in names if name in self.first_values])
        return candidates[0] if len(candidates) == 1 else None

    @property
    def _listed(self) -> str:
        return f"Its fields are {excerpt(', '.join(map(str, self.first_values)))}."

    def _either(self, role: str, first_name: str, second_name: str) -> DataError:
        """Return the error that two fields can have a role."""
        names = (first_name, second_name)
        fields = " or ".join(f"'{name}' ({self._values(name)})" for name in names)
        ways = " or ".join(self._option(role, name) for name in names)
        comparison = f" To compare them: --score {first_name} --score {second_name}." if role == "score" else ""
        return DataError(f"{self.source}: the {role} can be {fields}. Say which: {ways}.{comparison}")

    def _absent(self, role: str, unfit: Sequence[str]) -> DataError:
        """Return the error that no field has a role, with the candidates."""
        is_label = role == "score" and not unfit and {"reward", "score", "value"} & set(self.first_values)
        problem = "no other field is a score" if is_label else f"no field is known as the {role}"
        problem += f", and '{unfit[0]}' ({self._values(unfit[0])}) is none" if unfit else ""
        likely = [f"{self._option(role, name)} ({self._values(name)})" for name in islice(self._likely(role), 2)]
        ways = " or ".join([*likely, *([] if likely else [self._option(role, "FIELD")])])
        comparison = " Or name an answer and the right one: --answer FIELD --truth FIELD." if role == "label" else ""
        return DataError(f"{self.source}: {problem}. {self._listed} Name it: {ways}.{comparison}")

    def _likely(self, role: str) -> Iterator[str]:
        """Yield the fields without a role whose values look like the values of this role."""
        for name in self.first_values:
            if name in (self.question, self.solution_list, self.solution_text):
                continue
            values = [value for value in self._column(name) if not is_missing(value)]
            if role == "question":
                is_text = all(isinstance(value, str | int) and not is_written_score(value) for value in values)
                fits = is_text and len({*map(str, values)}) >= _FEW_VALUES
            elif role == "score":
                is_varied = len({*map(str, leaves(values))}) > 2 and name not in roles.IDS
                fits = is_varied and all(is_score(value) or is_written_score(value) for value in values)
            else:
                marks = {share_of(value) for value in leaves(values)}
                fits = marks <= {-1, 0, 1} or FIRST_WRONG.search(name) is not None
            if values and fits:
                yield name


def _has_many(name: str, value: Any, is_chosen: bool) -> bool:
    """Return whether a field has a list of solutions. A list of texts in a field such as `steps` is one solution."""
    if not isinstance(value, list):
        return False
    if name in roles.SOLUTION_LISTS or (is_chosen and name not in roles.SOLUTION_TEXTS):
        return True
    first_entry = value[0] if value else None
    if name in roles.SOLUTION_TEXTS:
        return isinstance(first_entry, list) or (name == "output" and isinstance(first_entry, Mapping))
    return isinstance(first_entry, Mapping) and not {*roles.SCORES, *roles.CLEAR_LABELS}.isdisjoint(first_entry)


def _data_set(question: str, contents: Sequence[Content]) -> str | None:
    """Return the field that tells data sets apart, if several have questions of the same name."""
    if any(" " in str(record.get(question)) for record in contents):
        return None  # Equal texts are one question.
    for name in roles.SUBSETS:
        owners: dict[str, str] = {}
        for record in contents if name in contents[0] and name != question else ():
            owner = str(record.get(name))
            if owners.setdefault(str(record.get(question)), owner) != owner:
                return name
    return None


def _in_parallel(first_values: Content, score: str | None, label: str) -> bool:
    """Return whether lists of scores and labels have one entry for each solution, and not for each step."""
    scores, labels = first_values.get(score or ""), first_values.get(label)
    are_parallel = isinstance(scores, list) and isinstance(labels, list) and len(scores) == len(labels) > 1
    return are_parallel and not OF_STEPS.search(label) and not OF_STEPS.search(score or "")
