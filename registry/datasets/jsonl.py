"""The data set `jsonl`: a user's own questions, one JSON object per line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from registry.contracts.data import Question
from registry.contracts.dataset import Dataset
from registry.errors import DataError
from registry.grading import Grading

__all__ = ["JsonlDataset"]

_TEXT_FIELDS = ("question", "problem")
_ID_FIELDS = ("id", "unique_id")
_LEVEL = re.compile(r"(?:level\s*)?([1-5])", re.IGNORECASE)
_NO_LEVEL = ("", "level ?")


class JsonlDataset(Dataset):
    """Questions from files of JSON lines.

    A line holds `question` (or `problem`) and `answer`, and may hold `id` (or `unique_id`; else the line's number),
    `level` (1 to 5, also as "Level 3") and `subject`. Other fields are left alone, empty lines are skipped.

    Parameters
    ----------
    path : str
        The file of the test split.
    calibration : str, optional
        The file of a calibration split, if there is to be one.
    grading : {"symbolic", "integer", "plain"}
        What the answers are: any mathematics, integers from 0 to 999, or plain numbers and words.
    """

    def __init__(self, path: str, calibration: str | None = None, grading: Grading = "symbolic") -> None:
        self.path = path
        self.calibration = calibration
        self.grading = grading
        self.splits = ("test",) if calibration is None else ("calibration", "test")

    def questions(self, split: str, count: int | None = None) -> list[Question]:
        """Read the first `count` questions of a split; see :meth:`registry.Dataset.questions`.

        Raises
        ------
        DataError
            If the split does not exist, its file cannot be read, a line is broken, an id comes twice, or there are
            fewer than `count` questions.
        """
        files = {"test": self.path, "calibration": self.calibration}
        file = files.get(split)
        if file is None:
            raise DataError(
                f"The data set {self.path} has no split '{split}'. It has: {', '.join(self.splits)}."
                + (" Give its 'calibration' argument a file." if split == "calibration" else "")
            )
        questions = _read(Path(file).expanduser())
        if count is not None and count > len(questions):
            raise DataError(
                f"{file} has {len(questions)} questions, fewer than the {count} that are asked for."
            )
        return questions[:count]


def _read(path: Path) -> list[Question]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise DataError(f"The data set file {path} cannot be read: {error.strerror}.") from error
    questions: list[Question] = []
    first_seen: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            question = _question(line, number)
            if question.id in first_seen:
                raise ValueError(f"the id '{question.id}' is already that of line {first_seen[question.id]}")
        except ValueError as error:
            raise DataError(f"{path}, line {number}: {error}.") from error
        first_seen[question.id] = number
        questions.append(question)
    if not questions:
        raise DataError(f"The data set file {path} holds no questions.")
    return questions


def _question(line: bytes, number: int) -> Question:
    try:
        record = json.loads(line.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 text ({error.reason} at byte {error.start})") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON ({error.msg} at character {error.pos + 1})") from error
    if not isinstance(record, dict):
        raise ValueError(f"it must be a JSON object with 'question' and 'answer'. Got {_shown(record)}")
    text = _first(record, _TEXT_FIELDS)
    if text is None:
        raise ValueError("it has neither a 'question' nor a 'problem'")
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"its question must be a text that is not empty. Got {_shown(text)}")
    subject = record.get("subject")
    if subject is not None and not isinstance(subject, str):
        raise ValueError(f"its 'subject' must be a text. Got {_shown(subject)}")
    own_id = _first(record, _ID_FIELDS)
    if isinstance(own_id, bool | list | dict):
        raise ValueError(f"its 'id' must be a text or a number. Got {_shown(own_id)}")
    return Question(
        id=str(number if own_id is None else own_id),
        text=text,
        answer=_answer(record.get("answer")),
        level=_level(record.get("level")),
        subject=subject,
    )


def _answer(value: Any) -> str:
    if value is None:
        raise ValueError("it has no 'answer'")
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, bool | list | dict) or not str(value).strip():
        raise ValueError(f"its 'answer' must be a text or a number. Got {_shown(value)}")
    return str(value)


def _level(value: Any) -> int | None:
    if value is None or str(value).strip().lower() in _NO_LEVEL:
        return None
    match = _LEVEL.fullmatch(str(value).strip())
    if match is None:
        raise ValueError(f"its 'level' must be a number from 1 to 5. Got {_shown(value)}")
    return int(match.group(1))


def _first(record: dict[str, Any], fields: tuple[str, ...]) -> Any:
    return next((record[field] for field in fields if record.get(field) is not None), None)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
