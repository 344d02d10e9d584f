"""The data set `jsonl`: questions of a file of records."""

import hashlib
import itertools
import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from prmcal.errors import DataError
from prmcal.registry.contracts.data import Level, Question
from prmcal.registry.contracts.dataset import Dataset
from prmcal.registry.contracts.plugin import Share
from prmcal.registry.grading import Answers, Grading, any_of, extract_answer, without_working
from prmcal.registry.grading.extraction import MARKED
from prmcal.registry.grading.letters import letters_of
from prmcal.registry.grading.rules import accepted_answers
from prmcal.registry.messages import excerpt, shown
from prmcal.registry.reading.fields import Fields
from prmcal.registry.reading.recordings import FieldNames, Recording, RowValues
from prmcal.registry.reading.records import Record, good_records
from prmcal.registry.reading.shapes import first_value
from prmcal.registry.reading.solutions import solutions_of

_TEXT_FIELDS = ("question", "problem")
_ID_FIELDS = ("id", "unique_id")
_ANSWER_FIELDS = ("answer", "final_answer", "ground_truth", "gold_answer", "answerKey")
_OPTION_FIELDS = ("options", "choices")
_SUBJECT_FIELDS = ("subject", "type")
_OTHER_FIELDS = (*_TEXT_FIELDS, *_ID_FIELDS, *_ANSWER_FIELDS, *_OPTION_FIELDS, *_SUBJECT_FIELDS, "level", "solution")
_LETTERS = "ABCDEFGHIJ"
_REFERS = re.compile(r"\b(?:above|below|both|these|options?)\b|\b[A-J] (?:and|or|&) [A-J]\b", re.IGNORECASE)
"""In an option that refers to others, such as "all of the above"."""
_MOST_GROUPS = 20
"""A field with more values than this groups nothing."""
_LEVEL = re.compile(r"(?:level\s*)?(\d{1,9})(?:\.0+)?", re.IGNORECASE)
_NO_LEVEL = ("", "level ?")


Check = Callable[[Question], None]


def questions_of(
    records: list[Record], source: str, check: Check | None = None, skip: bool | None = None, solved: bool = False
) -> list[Question]:
    """Convert records of :func:`read_records` to questions.

    `source` names the file of the records in error messages. `check` raises ValueError if a question cannot belong to
    the data set, and `skip` is as in :func:`good_records`. With `solved`, questions need no answers, because verdicts
    on their solutions are known. Raises a DataError if there are no records, or some are invalid or have an id that
    occurs before.
    """
    first_seen: dict[str, str] = {}

    def convert(place: str, record: Any) -> Question:
        question = _question(record, place.rpartition(" ")[2], solved)
        if question.id in first_seen:
            raise ValueError(f"the id '{question.id}' is already used in {first_seen[question.id]}")
        if check is not None:
            check(question)
        first_seen[question.id] = place
        return question

    questions = good_records(records, convert, source, skip)
    if not questions:
        raise DataError(f"The data set file {source} contains no questions.")
    values_of: dict[str, set[str]] = defaultdict(set)
    for name, value in itertools.chain.from_iterable(question.fields for question in questions):
        values_of[name].add(value)
    grouping = {name for name, values in values_of.items() if len(values) <= _MOST_GROUPS}
    return [
        replace(question, fields=tuple((name, value) for name, value in question.fields if name in grouping))
        for question in questions
    ]


def first_questions(questions: list[Question], count: int | None, source: str) -> list[Question]:
    """Return the first `count` questions. Raise DataError if there are fewer."""
    if count is not None and count > len(questions):
        raise DataError(f"{source} has {len(questions)} questions, fewer than the {count} requested.")
    return questions[:count]


def _question(record: Any, number: str, solved: bool) -> Question:
    if not isinstance(record, dict):
        raise ValueError(f"it must be a JSON object with 'question' and 'answer'. Got {shown(record)}")
    text = first_value(record, _TEXT_FIELDS)
    if text is None:
        raise ValueError(f"it has neither a 'question' nor a 'problem'.{_fields(record)}")
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"its question must be a non-empty string. Got {shown(text)}")
    subject = first_value(record, _SUBJECT_FIELDS)
    if subject is not None and not isinstance(subject, str):
        raise ValueError(f"its 'subject' must be a string. Got {shown(subject)}")
    own_id = first_value(record, _ID_FIELDS)
    if own_id is not None and not _is_text_or_number(own_id):
        raise ValueError(f"its 'id' must be a string or a number. Got {shown(own_id)}")
    return Question(
        id=number if own_id is None else str(own_id),
        text=text,
        answer="" if solved and first_value(record, _ANSWER_FIELDS) is None else _answer(record),
        level=_level(record.get("level")),
        subject=subject,
        options=_options(record),
        fields=tuple(
            (name, _as_text(value))
            for name, value in record.items()
            if name not in _OTHER_FIELDS and (isinstance(value, bool) or _is_text_or_number(value))
        ),
    )


def _options(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the options of a multiple-choice question: a list, or a mapping from letters, as published files have."""
    options = first_value(record, _OPTION_FIELDS) or ()
    if isinstance(options, Mapping):
        options = options.get("text") or [options[letter] for letter in sorted(options)]
    if not isinstance(options, list | tuple) or not all(map(_is_text_or_number, options)):
        raise ValueError(f"its options must be a list of texts. Got {shown(options)}")
    return tuple(map(_as_text, options))


def _answer(record: Mapping[str, Any]) -> str:
    value = first_value(record, _ANSWER_FIELDS)
    if value is None and isinstance(record.get("solution"), str):
        value = extract_answer(record["solution"])
    if value is None:
        raise ValueError(f"it has no 'answer'.{_fields(record)}")
    answers = value if isinstance(value, list) else [value]
    if not answers or not all(_is_text_or_number(answer) and str(answer).strip() for answer in answers):
        raise ValueError(f"its 'answer' must be a string or a number, or a list of accepted ones. Got {shown(value)}")
    return any_of([without_working(_as_text(answer)) for answer in answers])


def _as_text(value: str | float) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _is_text_or_number(value: Any) -> bool:
    if isinstance(value, float | Decimal):
        return math.isfinite(value)
    return isinstance(value, str | int) and not isinstance(value, bool)


def _level(value: Any) -> Level | None:
    """Return a level as it is. A whole number is an int, also behind the word "Level"."""
    if value is None or (isinstance(value, str) and value.strip().lower() in _NO_LEVEL):
        return None
    if not _is_text_or_number(value):
        raise ValueError(f"its 'level' must be a number or a word. Got {shown(value)}")
    text = str(value).strip()
    if match := _LEVEL.fullmatch(text):
        return int(match[1])
    return text if isinstance(value, str) else float(value)


def _fields(record: Mapping[str, Any]) -> str:
    return f" Its fields are: {excerpt(', '.join(map(str, record))) or 'none'}"


def _of_solutions(records: list[Record], source: str, fields: Fields, skip: bool) -> tuple[list[Record], bool]:
    """Return one record for each question, and whether the file has verdicts on its solutions.

    Records without solutions are returned as they are.
    """
    try:
        (first_solution, *_), _ = solutions_of(records[:1], source, fields, "recording")
    except (DataError, ValueError):  # It is no solution, or a bad one. The error of its question says what is wrong.
        return records, False
    solved = first_solution.get("label") is not None
    if not solved and first_solution.get("score") is None:
        return records, False
    solutions, _ = solutions_of(records, source, fields, "recording", skip)
    contents, record_by_question = dict(records), dict[str, Record]()
    for solution in solutions:
        level = {} if solution.get("level") is None else {"level": solution["level"]}
        content = {**contents[solution["place"]], "question": solution["question"], **level}
        record_by_question.setdefault(solution["question"], (solution["place"], content))
    return list(record_by_question.values()), solved


@dataclass(eq=False)
class JsonlDataset(Dataset):
    """Questions from files of JSON lines.

    A line has the fields `question` (or `problem`) and `answer` (one, or a list of accepted ones). Optional fields are
    `id` (or `unique_id`, by default the line's number), `level` (a number or a word), `subject` and `options` (or
    `choices`, of a multiple-choice question, for the grader `letter`). Results are grouped by other fields with at most
    20 texts or numbers, such as `language`. Empty lines are skipped. Files that end in .json (a list of objects) or
    .parquet are read too. Field names of published files also work: `final_answer`, `ground_truth`, `answerKey`
    or the box in `solution` for `answer`, and `type` for `subject`.

    The files of the LLM `recorded` are read too, each question once. If the rows have verdicts on solutions, no answers
    are needed.
    """

    path: str | list[str]
    """The file or files of the test split, as in the LLM `recorded`."""
    calibration: str | None = None
    """The file of the calibration split. Without it and `calibration_share` there is only a test split."""
    calibration_share: Share | None = None
    """The share of the questions in `path`, in (0, 1), that belong to the calibration split and not to the test split.
    Use it instead of `calibration`. A hash of the question's text decides, so a question is in the same split in every
    file."""
    grading: Grading = "symbolic"
    """The kind of answers: any mathematics, integers from 0 to 999, or plain numbers and words."""
    answers: Answers = MARKED
    """Where the answer of a solution stands: ``boxed``, ``phrase`` (behind "the answer is"), ``hashes`` (behind ####),
    ``last number``, ``whole``, ``{pattern: REGEX}``, or a list of these, which are tried in order. See the page "How
    answers are compared"."""
    skip_bad_rows: bool = False
    """Leave out rows that cannot be read, and warn of them, instead of raising an error that names them."""
    fields: FieldNames | None = None
    """The names of fields in files of recorded solutions, as in the LLM `recorded`."""
    only: RowValues | None = None
    """As in the LLM `recorded`."""
    show_options: bool = False
    """Write the options below the question, as ``A. first option``."""
    shuffle_options: int | None = None
    """A seed, by which each question shows its options in an order of its own. Letters in `answer` follow. The order
    stays if an option refers to others, such as "all of the above"."""

    def __post_init__(self) -> None:
        alone = self.calibration is None and self.calibration_share is None
        self.splits = ("test",) if alone else ("calibration", "test")

    def check_arguments(self) -> None:
        """Raise ValueError if there are both a calibration file and a share."""
        if self.calibration is not None and self.calibration_share is not None:
            raise ValueError("Give 'calibration' or 'calibration_share', not both.")

    def questions(self, split: str, count: int | None = None) -> list[Question]:
        """Read the first `count` questions of a split; see :meth:`prmcal.Dataset.questions`.

        Raises a DataError if the split does not exist, its file cannot be read, a line is invalid, an id occurs twice,
        or there are fewer than `count` questions.
        """
        if split not in self.splits:
            raise DataError(
                f"The data set {self.path} has no split '{split}'. It has: {', '.join(self.splits)}."
                + (" Give its 'calibration' argument a file." if split == "calibration" else "")
            )
        paths = self.calibration if split == "calibration" and self.calibration is not None else self.path
        recording = Recording.of(paths, self.fields, self.only)
        file, records = recording.file_names, recording.records()
        records, solved = _of_solutions(records, file, recording.fields, self.skip_bad_rows)
        questions = questions_of(records, file, skip=self.skip_bad_rows, solved=solved)
        share = self.calibration_share
        if share is not None:
            for_calibration = split == "calibration"
            questions = [question for question in questions if (_uniform(question.text) < share) == for_calibration]
        if self.show_options or self.shuffle_options is not None:
            questions = [_with_options(question, self.shuffle_options, file) for question in questions]
        return first_questions(questions, count, file)


def _with_options(question: Question, seed: int | None, source: str) -> Question:
    """Return a question with its options below its text, in an order by the seed and its id. Letters in answers follow.

    Raises a DataError if the text has the options already, or an answer names none of them.
    """
    options, answers = question.options, accepted_answers(question.answer)
    if not options:
        return question
    chosen = [letters_of(answer, options) for answer in answers]
    listed = [rf"\b{letter}\W{{1,3}}{re.escape(option)}" for letter, option in zip(_LETTERS, options, strict=False)]
    in_text = re.search("|".join(listed), question.text)
    if in_text or not all(chosen) or len(options) > len(_LETTERS):
        problem = (
            f"its text has {shown(in_text[0])} already"
            if in_text
            else f"its answer must be letters or texts of at most {len(_LETTERS)} options. Got {shown(question.answer)}"
        )
        raise DataError(f"{source}: the options of the question '{question.id}' cannot be shown, since {problem}.")
    places = list(range(len(options)))
    if seed is not None and not any(map(_REFERS.search, options)):
        places.sort(key=lambda place: _uniform(f"{seed} {question.id} {place}"))
    shuffled = tuple(options[place] for place in places)
    letter_of = {_LETTERS[place]: letter for letter, place in zip(_LETTERS, places, strict=False)}
    for number, letters in enumerate(chosen):
        moved = sorted(letter_of[letter] for letter in letters)
        if letters_of(answers[number], shuffled) != set(moved):
            answers[number] = ", ".join(moved)
    text = "\n".join([question.text, *map(". ".join, zip(_LETTERS, shuffled, strict=False))])
    return replace(question, text=text, options=shuffled, answer=any_of(answers))


def _uniform(text: str) -> float:
    """Return a number in [0, 1) that depends only on the text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64
