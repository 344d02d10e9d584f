"""Published data sets, read from a local file or from the Hugging Face hub."""

import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from prmcal.errors import DataError
from prmcal.registry.contracts.data import Question
from prmcal.registry.contracts.dataset import Dataset
from prmcal.registry.datasets.jsonl import first_questions, questions_of
from prmcal.registry.grading import Answers, Grading
from prmcal.registry.grading.extraction import MARKED
from prmcal.registry.messages import excerpt, shown
from prmcal.registry.reading.records import Record, read_records

_TRAINING_PROBLEMS = 7500
_EVERY = 15
_AIME_ANSWER = re.compile(r"0{0,9}[0-9]{1,3}")
_DEGREES = re.compile(r"(\^\s*(\\circ|\{\s*\\circ\s*\})|°)$")
_SUBJECTS = (
    *("algebra", "counting_and_probability", "geometry", "intermediate_algebra", "number_theory", "prealgebra"),
    "precalculus",
)


@dataclass(frozen=True)
class _HubTable:
    """One split of a data set on the Hugging Face hub: the rows of its configurations, one after the other."""

    repository: str
    configurations: tuple[str | None, ...]
    split: str

    def __str__(self) -> str:
        names = " and ".join(f"'{name}'" for name in self.configurations if name)
        return f"{self.repository}{f', configuration {names}' if names else ''}, split '{self.split}'"

    def is_downloaded(self) -> bool:
        """Return whether the local cache of the hub contains the data set."""
        from huggingface_hub import constants

        return (Path(constants.HF_HUB_CACHE) / f"datasets--{self.repository.replace('/', '--')}").is_dir()

    def records(self, plugin: str) -> list[Record]:
        import datasets

        try:
            rows = [
                row
                for configuration in self.configurations
                for row in datasets.load_dataset(self.repository, configuration, split=self.split)
            ]
        except Exception as error:  # `datasets` raises errors without a common base class.
            raise DataError(
                f"The data set '{plugin}' is not on this machine, and its download from the Hugging Face hub "
                f"({self}) failed: {type(error).__name__}: {excerpt(str(error))}. Give it a file of the same questions "
                "(.jsonl, .json or .parquet) as an argument, or run `hf auth login` if the hub requires a token."
            ) from error
        return [(f"row {number}", dict(row)) for number, row in enumerate(rows, start=1)]


@dataclass(eq=False)
class _PublishedDataset(Dataset):
    """Questions of one split from a file, if it is given, or else from the hub. They are read once."""

    table: ClassVar[_HubTable]
    size: ClassVar[int]

    path: str | None = None
    """A file of its questions (.jsonl, .json or .parquet). By default they come from the Hugging Face hub."""
    answers: Answers = MARKED
    """Where the answer of a solution stands, as in the data set `jsonl`."""

    def questions(self, split: str, count: int | None = None) -> list[Question]:
        """Return the first `count` questions of a split; see :meth:`prmcal.Dataset.questions`.

        Raises a DataError if the split does not exist, the file or the hub cannot be read, a record is invalid, or
        there are fewer than `count` questions.
        """
        if split not in self.splits:
            raise DataError(f"The data set '{self._name}' has no split '{split}'. It has: {', '.join(self.splits)}.")
        return first_questions(self._all_questions, count, f"The {split} split of '{self._name}'")

    def absent_size(self, split: str) -> int | None:
        """Return the published number of questions if they have to be downloaded from the hub, else None."""
        return None if self.path is not None or self.table.is_downloaded() else self.size

    @property
    def _name(self) -> str:
        return self.plugin_name or type(self).__name__

    @cached_property
    def _all_questions(self) -> list[Question]:
        if self.path is None:
            return self._questions(self.table.records(self._name), str(self.table))
        return self._questions(read_records(Path(self.path)), self.path)

    def _questions(self, records: list[Record], source: str) -> list[Question]:
        return questions_of(records, source)


class MATH500(_PublishedDataset):
    """MATH-500: 500 problems of the MATH test set (Lightman et al. 2023), from HuggingFaceH4/MATH-500."""

    citation = "Lightman et al. (2024), ICLR, arXiv:2305.20050"
    table, size = _HubTable("HuggingFaceH4/MATH-500", (None,), "test"), 500


class _AIME(_PublishedDataset):
    grading: Grading = "integer"
    size = 30

    def _questions(self, records: list[Record], source: str) -> list[Question]:
        questions = questions_of(records, source, _check_aime_answer)
        return [replace(question, answer=_without_degrees(question.answer)) for question in questions]


class AIME24(_AIME):
    """AIME 2024, I and II: 30 problems whose answers are integers from 0 to 999, from HuggingFaceH4/aime_2024."""

    citation = "Mathematical Association of America (2024)"
    table = _HubTable("HuggingFaceH4/aime_2024", (None,), "train")


class AIME25(_AIME):
    """AIME 2025, I and II: 30 problems whose answers are integers from 0 to 999.

    The source is opencompass/AIME2025, as in the paper: first AIME I, then AIME II.
    """

    citation = "Mathematical Association of America (2025)"
    table = _HubTable("opencompass/AIME2025", ("AIME2025-I", "AIME2025-II"), "test")


@dataclass(eq=False)
class AIME2425(Dataset):
    """AIME 2024 and 2025 together, the paper's out-of-distribution test: 60 problems. The year is part of each id."""

    citation = "Mathematical Association of America (2024, 2025)"
    grading = "integer"

    aime24: str | None = None
    aime25: str | None = None
    """Files of the questions of each year. By default they come from the hub, like `aime24` and `aime25`."""
    answers: Answers = MARKED
    """Where the answer of a solution stands, as in the data set `jsonl`."""

    def questions(self, split: str, count: int | None = None) -> list[Question]:
        """Return the questions of 2024, then those of 2025; see :meth:`prmcal.Dataset.questions`."""
        questions = [
            replace(question, id=f"{year}-{question.id}")
            for year, dataset in self._years.items()
            for question in dataset.questions(split)
        ]
        return first_questions(questions, count, "The test split of 'aime24-25'")

    def absent_size(self, split: str) -> int | None:
        """Return the number of questions of both years if one must be downloaded from the hub, else None."""
        sizes = [dataset.absent_size(split) for dataset in self._years.values()]
        return None if sizes == [None, None] else sum(dataset.size for dataset in self._years.values())

    @cached_property
    def _years(self) -> dict[str, _AIME]:
        years: dict[str, _AIME] = {"2024": AIME24(self.aime24), "2025": AIME25(self.aime25)}
        for dataset in years.values():
            dataset.plugin_name = "aime24-25"
        return years


@dataclass(eq=False)
class MathCalibration(_PublishedDataset):
    """Every 15th of MATH's 7,500 training problems: the 500 calibration questions of the paper."""

    citation = "Hendrycks et al. (2021), NeurIPS, arXiv:2103.03874"
    splits = ("calibration",)
    table = _HubTable("EleutherAI/hendrycks_math", _SUBJECTS, "train")
    size = _TRAINING_PROBLEMS // _EVERY

    path: str | None = None
    """A file of all 7,500 problems (.jsonl, .json or .parquet). By default the problems come from
    EleutherAI/hendrycks_math, subject by subject in alphabetical order, as in the authors' code since the original data
    set, hendrycks/competition_math, is no longer on the hub. Files differ in the order of problems, and therefore in
    every 15th problem."""

    def _questions(self, records: list[Record], source: str) -> list[Question]:
        if len(records) != _TRAINING_PROBLEMS:
            raise DataError(
                f"{source} has {len(records)} problems. The data set 'math-calibration' takes every 15th of MATH's "
                f"{_TRAINING_PROBLEMS} training problems; use the data set 'jsonl' for problems of your own."
            )
        return questions_of(records[::_EVERY], source)


def _without_degrees(answer: str) -> str:
    """Remove the sign of degrees from an answer: one answer of opencompass/AIME2025 has it."""
    return _DEGREES.sub("", answer.rstrip()).rstrip()


def _check_aime_answer(question: Question) -> None:
    answer = _without_degrees(question.answer)
    if not _AIME_ANSWER.fullmatch(answer):
        raise ValueError(
            f"its answer must be an integer from 0 to 999, like all answers of AIME. Got {shown(question.answer)}"
        )
