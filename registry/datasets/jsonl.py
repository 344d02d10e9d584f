"""The data set `jsonl`: a user's own questions, one JSON object per line."""

from __future__ import annotations

import hashlib
from pathlib import Path

from prmcal.errors import DataError
from prmcal.registry.contracts.data import Question
from prmcal.registry.contracts.dataset import Dataset
from prmcal.registry.datasets.records import first_questions, questions_of, read_records
from prmcal.registry.grading import Grading

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
    calibration_share : float, optional
        Instead of a file of its own: the share of the questions of `path`, in (0, 1), that is calibrated on and not
        tested on. A hash of a question's text decides, so that it is the same in every file.
    grading : {"symbolic", "integer", "plain"}
        What the answers are: any mathematics, integers from 0 to 999, or plain numbers and words.
    """

    def __init__(
        self,
        path: str,
        calibration: str | None = None,
        calibration_share: float | None = None,
        grading: Grading = "symbolic",
    ) -> None:
        self.path = path
        self.calibration = calibration
        self.calibration_share = calibration_share
        self.grading = grading
        alone = calibration is None and calibration_share is None
        self.splits = ("test",) if alone else ("calibration", "test")

    def check_arguments(self) -> None:
        """Refuse a share outside (0, 1), and two ways to calibrate."""
        if self.calibration_share is None:
            return
        if self.calibration is not None:
            raise ValueError("Give 'calibration' or 'calibration_share', not both.")
        if not 0 < self.calibration_share < 1:
            raise ValueError(
                f"The 'calibration_share' parameter must be a float in (0, 1). Got {self.calibration_share} instead."
            )

    def questions(self, split: str, count: int | None = None) -> list[Question]:
        """Read the first `count` questions of a split; see :meth:`prmcal.Dataset.questions`.

        Raises
        ------
        DataError
            If the split does not exist, its file cannot be read, a line is broken, an id comes twice, or there are
            fewer than `count` questions.
        """
        if split not in self.splits:
            raise DataError(
                f"The data set {self.path} has no split '{split}'. It has: {', '.join(self.splits)}."
                + (" Give its 'calibration' argument a file." if split == "calibration" else "")
            )
        file = self.calibration if split == "calibration" and self.calibration is not None else self.path
        path = Path(file).expanduser()
        questions = questions_of(read_records(path), str(path))
        share = self.calibration_share
        if share is not None:
            questions = [
                each for each in questions if (_uniform(each.text) < share) == (split == "calibration")
            ]
        return first_questions(questions, count, file)


def _uniform(text: str) -> float:
    """A number in [0, 1) that depends on nothing but the text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64
