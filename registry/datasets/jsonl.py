"""The data set `jsonl`: a user's own questions, one JSON object per line."""

from __future__ import annotations

from pathlib import Path

from registry.contracts.data import Question
from registry.contracts.dataset import Dataset
from registry.datasets.records import first_questions, questions_of, read_records
from registry.errors import DataError
from registry.grading import Grading

__all__ = ["JsonlDataset"]


class JsonlDataset(Dataset):
    """Questions from files of JSON lines.

    A line holds `question` (or `problem`) and `answer`, and may hold `id` (or `unique_id`; else the line's number),
    `level` (1 to 5, also as "Level 3") and `subject`. Other fields are left alone, empty lines are skipped. Files that
    end in .json (a list of such objects) or .parquet are read too, and the names that published files have for the
    same things (`final_answer`, `ground_truth`, or the box in `solution`; `type`).

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
        path = Path(file).expanduser()
        return first_questions(questions_of(read_records(path), str(path)), count, file)
