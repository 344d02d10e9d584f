"""The data set `jsonl`: your own questions, one JSON object per line."""

from __future__ import annotations

import hashlib
from pathlib import Path

from prmcal.errors import DataError
from prmcal.registry.contracts.data import Question
from prmcal.registry.contracts.dataset import Dataset
from prmcal.registry.contracts.ranges import Share
from prmcal.registry.datasets.records import first_questions, questions_of, read_records
from prmcal.registry.grading import Grading

__all__ = ["JsonlDataset"]


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
