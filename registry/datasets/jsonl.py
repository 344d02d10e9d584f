"""The data set `jsonl`: questions of a JSON Lines file, and how such files are read."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from prmcal.errors import DataError
from prmcal.registry.contracts.data import Question
from prmcal.registry.contracts.dataset import Dataset
from prmcal.registry.contracts.plugin import Share
from prmcal.registry.grading import Grading, extract_answer
from prmcal.registry.messages import excerpt, reading, shown

Record = tuple[str, Any]
"""The place of a record ("line 3"), and its content."""

_TEXT_FIELDS = ("question", "problem")
_ID_FIELDS = ("id", "unique_id")
_ANSWER_FIELDS = ("answer", "final_answer", "ground_truth")
_SUBJECT_FIELDS = ("subject", "type")
_LEVEL = re.compile(r"(?:level\s*)?([1-5])", re.IGNORECASE)
_NO_LEVEL = ("", "level ?")
_SURROGATE = re.compile(rb"\\ud[89a-f]", re.IGNORECASE)


def read_records(path: Path) -> list[Record]:
    """Read the records of a file: Parquet (.parquet), a JSON list (.json) or else JSON lines.

    Raises
    ------
    DataError
        If the file cannot be read or has another format.
    """
    with reading(f"The data set file {path} cannot be read"):
        content = path.expanduser().read_bytes()
    if path.suffix == ".parquet":
        return _parquet_rows(path, content)
    if path.suffix == ".json" and content.lstrip().startswith(b"["):
        return _json_list(path, content)
    return list(_json_lines(path, content))


def questions_of(
    records: list[Record], source: str, check: Callable[[Question], None] | None = None
) -> list[Question]:
    """Convert records to questions.

    Parameters
    ----------
    records : list of (str, object)
        The return value of :func:`read_records`.
    source : str
        The source of the records, for error messages.
    check : callable, optional
        Raises ValueError if a question cannot belong to the data set.

    Raises
    ------
    DataError
        If there are no records, a record is invalid, or an id occurs twice.
    """
    questions: list[Question] = []
    first_seen: dict[str, str] = {}
    for place, record in records:
        try:
            question = _question(record, place.rpartition(" ")[2])
            if question.id in first_seen:
                raise ValueError(f"the id '{question.id}' is already used in {first_seen[question.id]}")
            if check is not None:
                check(question)
        except ValueError as error:
            raise DataError(f"{source}, {place}: {error}.") from error
        first_seen[question.id] = place
        questions.append(question)
    if not questions:
        raise DataError(f"The data set file {source} contains no questions.")
    return questions


def first_questions(questions: list[Question], count: int | None, source: str) -> list[Question]:
    """Return the first `count` questions. Raise DataError if there are fewer."""
    if count is not None and count > len(questions):
        raise DataError(f"{source} has {len(questions)} questions, fewer than the {count} requested.")
    return questions[:count]


def _json_lines(path: Path, content: bytes) -> Iterator[Record]:
    for number, line in enumerate(content.splitlines(), start=1):
        if line.strip():
            with reading(f"{path}, line {number}", "Correct or remove this line."):
                record = _json(line)
            yield f"line {number}", record


def _json_list(path: Path, content: bytes) -> list[Record]:
    with reading(f"{path} is not a valid JSON list"):
        records = _json(content)
    return [(f"record {number}", record) for number, record in enumerate(records, start=1)]


def _json(content: bytes) -> Any:
    """Parse UTF-8 text. Raise ValueError also for half of a surrogate pair, which cannot be written as text again."""
    value = json.loads(content.decode())
    if _SURROGATE.search(content):
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _parquet_rows(path: Path, content: bytes) -> list[Record]:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    with reading(f"{path} is not a valid Parquet file"):
        rows = parquet.read_table(pa.BufferReader(content)).to_pylist()
    return [(f"row {number}", row) for number, row in enumerate(rows, start=1)]


def _question(record: Any, number: str) -> Question:
    if not isinstance(record, dict):
        raise ValueError(f"it must be a JSON object with 'question' and 'answer'. Got {shown(record)}")
    text = _first(record, _TEXT_FIELDS)
    if text is None:
        raise ValueError(f"it has neither a 'question' nor a 'problem'.{_fields(record)}")
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"its question must be a non-empty string. Got {shown(text)}")
    subject = _first(record, _SUBJECT_FIELDS)
    if subject is not None and not isinstance(subject, str):
        raise ValueError(f"its 'subject' must be a string. Got {shown(subject)}")
    own_id = _first(record, _ID_FIELDS)
    if own_id is not None and not _is_text_or_number(own_id):
        raise ValueError(f"its 'id' must be a string or a number. Got {shown(own_id)}")
    return Question(
        id=number if own_id is None else str(own_id),
        text=text,
        answer=_answer(record),
        level=_level(record.get("level")),
        subject=subject,
    )


def _answer(record: Mapping[str, Any]) -> str:
    value = _first(record, _ANSWER_FIELDS)
    if value is None and isinstance(record.get("solution"), str):
        value = extract_answer(record["solution"])
    if value is None:
        raise ValueError(f"it has no 'answer'.{_fields(record)}")
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if not _is_text_or_number(value) or not str(value).strip():
        raise ValueError(f"its 'answer' must be a string or a number. Got {shown(value)}")
    return _without_working(str(value))


def _is_text_or_number(value: Any) -> bool:
    if isinstance(value, float | Decimal):
        return math.isfinite(value)
    return isinstance(value, str | int) and not isinstance(value, bool)


def _without_working(answer: str) -> str:
    """Return the last line of a GSM8K answer, which follows the working. Other answers are returned as they are."""
    head, _, last = answer.rstrip().rpartition("\n")
    _, mark, found = last.partition("A:" if head and last.startswith("A:") else "####")
    return found.strip() if mark and found.strip() else answer


def _level(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, str | int):
        text = str(value).strip()
        if text.lower() in _NO_LEVEL:
            return None
        if match := _LEVEL.fullmatch(text):
            return int(match[1])
    raise ValueError(f"its 'level' must be a number from 1 to 5. Got {shown(value)}")


def _first(record: Mapping[str, Any], fields: tuple[str, ...]) -> Any:
    return next((record[field] for field in fields if record.get(field) is not None), None)


def _fields(record: Mapping[str, Any]) -> str:
    return f" Its fields are: {excerpt(', '.join(map(str, record))) or 'none'}"


class JsonlDataset(Dataset):
    """Questions from files of JSON lines.

    A line has the fields `question` (or `problem`) and `answer`. Optional fields are `id` (or `unique_id`, by default
    the line's number), `level` (1 to 5, also as "Level 3") and `subject`. Other fields are ignored, and empty lines are
    skipped. Files that end in .json (a list of such objects) or .parquet are read too. Field names of published files
    also work: `final_answer`, `ground_truth` or the box in `solution` for `answer`, and `type` for `subject`.

    Parameters
    ----------
    path : str
        The file of the test split.
    calibration : str, optional
        The file of the calibration split. Without it and `calibration_share` there is only a test split.
    calibration_share : float, optional
        The share of the questions in `path`, in (0, 1), that belong to the calibration split and not to the test split.
        Use it instead of `calibration`. A hash of the question's text decides, so a question is in the same split in
        every file.
    grading : {"symbolic", "integer", "plain"}
        The kind of answers: any mathematics, integers from 0 to 999, or plain numbers and words.
    """

    def __init__(
        self,
        path: str,
        calibration: str | None = None,
        calibration_share: Share | None = None,
        grading: Grading = "symbolic",
    ) -> None:
        self.path = path
        self.calibration = calibration
        self.calibration_share = calibration_share
        self.grading = grading
        alone = calibration is None and calibration_share is None
        self.splits = ("test",) if alone else ("calibration", "test")

    def check_arguments(self) -> None:
        """Raise ValueError if there are both a calibration file and a share."""
        if self.calibration is not None and self.calibration_share is not None:
            raise ValueError("Give 'calibration' or 'calibration_share', not both.")

    def questions(self, split: str, count: int | None = None) -> list[Question]:
        """Read the first `count` questions of a split; see :meth:`prmcal.Dataset.questions`.

        Raises
        ------
        DataError
            If the split does not exist, its file cannot be read, a line is invalid, an id occurs twice, or there are
            fewer than `count` questions.
        """
        if split not in self.splits:
            raise DataError(
                f"The data set {self.path} has no split '{split}'. It has: {', '.join(self.splits)}."
                + (" Give its 'calibration' argument a file." if split == "calibration" else "")
            )
        file = self.calibration if split == "calibration" and self.calibration is not None else self.path
        questions = questions_of(read_records(Path(file)), file)
        share = self.calibration_share
        if share is not None:
            questions = [
                each for each in questions if (_uniform(each.text) < share) == (split == "calibration")
            ]
        return first_questions(questions, count, file)


def _uniform(text: str) -> float:
    """Return a number in [0, 1) that depends only on the text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64
