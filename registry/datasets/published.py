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
    "algebra",
    "counting_and_probability",
    "geometry",
    "intermediate_algebra",
    "number_theory",
    "prealgebra",
    "precalculus",
)


@dataclass(frozen=True)
class _HubTable:
    """One split of a data set on the Hugging Face hub: the rows of its configurations, one after the other."""

    repository: str
    configurations: tuple[str | None, ...]
    split: str

    def __str__(self) -> str:
        named = " and ".join(f"'{each}'" for each in self.configurations if each)
        return f"{self.repository}{f', configuration {named}' if named else ''}, split '{self.split}'"

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
    """Questions from a file for each split, if one is given, or else from the hub. Each split is read once."""

    tables: ClassVar[dict[str, _HubTable]]
    sizes: ClassVar[dict[str, int]]
    files: ClassVar[dict[str, str]] = {"test": "path"}
    """The argument for the file of each split."""

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
            raise DataError(
                f"The data set '{self._name}' has no split '{split}'. It has: {', '.join(self.splits)}."
            )
        read: dict[str, list[Question]] = self.__dict__.setdefault("_read", {})
        if split not in read:
            read[split] = self._read_split(split)
        return first_questions(read[split], count, f"The {split} split of '{self._name}'")

    def absent_size(self, split: str) -> int | None:
        """Return the published number of questions if they have to be downloaded from the hub, else None."""
        given = getattr(self, self.files[split]) is not None
        return None if given or self.tables[split].is_downloaded() else self.sizes[split]

    @property
    def _name(self) -> str:
        return self.plugin_name or type(self).__name__

    def _read_split(self, split: str) -> list[Question]:
        file: str | None = getattr(self, self.files[split])
        if file is None:
            table = self.tables[split]
            return self._questions(table.records(self._name), str(table))
        return self._questions(read_records(Path(file)), file)

    def _questions(self, records: list[Record], source: str) -> list[Question]:
        return questions_of(records, source)


class MATH500(_PublishedDataset):
    """MATH-500: 500 problems of the MATH test set (Lightman et al. 2023), from HuggingFaceH4/MATH-500."""

    citation = "Lightman et al. (2024), ICLR, arXiv:2305.20050"
    tables: ClassVar = {"test": _HubTable("HuggingFaceH4/MATH-500", (None,), "test")}
    sizes: ClassVar = {"test": 500}


class _AIME(_PublishedDataset):
    grading: Grading = "integer"
    sizes: ClassVar = {"test": 30}

    def _questions(self, records: list[Record], source: str) -> list[Question]:
        questions = questions_of(records, source, _check_aime_answer)
        return [replace(question, answer=_without_degrees(question.answer)) for question in questions]


class AIME24(_AIME):
    """AIME 2024, I and II: 30 problems whose answers are integers from 0 to 999, from HuggingFaceH4/aime_2024."""

    citation = "Mathematical Association of America (2024)"
    tables: ClassVar = {"test": _HubTable("HuggingFaceH4/aime_2024", (None,), "train")}


class AIME25(_AIME):
    """AIME 2025, I and II: 30 problems whose answers are integers from 0 to 999.

    They come from opencompass/AIME2025, which the paper names: first those of AIME I, then those of AIME II.
    """

    citation = "Mathematical Association of America (2025)"
    tables: ClassVar = {"test": _HubTable("opencompass/AIME2025", ("AIME2025-I", "AIME2025-II"), "test")}


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
        both = [
            replace(question, id=f"{year}-{question.id}")
            for year, dataset in self._years.items()
            for question in dataset.questions(split)
        ]
        return first_questions(both, count, "The test split of 'aime24-25'")

    def absent_size(self, split: str) -> int | None:
        """Return the total of both years if one of them has to be downloaded from the hub, else None."""
        sizes = [dataset.absent_size(split) for dataset in self._years.values()]
        return (
            None if sizes == [None, None] else sum(dataset.sizes[split] for dataset in self._years.values())
        )

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
    tables: ClassVar = {"calibration": _HubTable("EleutherAI/hendrycks_math", _SUBJECTS, "train")}
    sizes: ClassVar = {"calibration": _TRAINING_PROBLEMS // _EVERY}
    files: ClassVar = {"calibration": "path"}

    path: str | None = None
    """A file of all 7,500 problems (.jsonl, .json or .parquet). By default they come from EleutherAI/hendrycks_math,
    subject by subject in alphabetical order, as in the authors' code since the original data set,
    hendrycks/competition_math, is no longer on the hub. Files differ in the order of problems, and therefore in every
    15th problem."""

    def _questions(self, records: list[Record], source: str) -> list[Question]:
        if len(records) != _TRAINING_PROBLEMS:
            raise DataError(
                f"{source} has {len(records)} problems. The data set 'math-calibration' takes every 15th of MATH's "
                f"{_TRAINING_PROBLEMS} training problems; use the data set 'jsonl' for problems of your own."
            )
        return questions_of(records[::_EVERY], source)


@dataclass(eq=False)
class GSM8K(_PublishedDataset):
    """GSM8K: grade school word problems (Cobbe et al. 2021), 1,319 to test on and 7,473 to calibrate on."""

    citation = "Cobbe et al. (2021), arXiv:2110.14168"
    splits = ("calibration", "test")
    tables: ClassVar = {
        "calibration": _HubTable("openai/gsm8k", ("main",), "train"),
        "test": _HubTable("openai/gsm8k", ("main",), "test"),
    }
    sizes: ClassVar = {"calibration": 7473, "test": 1319}
    files: ClassVar = {"calibration": "calibration", "test": "path"}

    path: str | None = None
    """A file of the test questions (.jsonl, .json or .parquet). Without one they come from openai/gsm8k."""
    calibration: str | None = None
    """A file of the training questions, likewise."""


def _without_degrees(answer: str) -> str:
    """Remove the sign of degrees, which one answer of opencompass/AIME2025 has."""
    return _DEGREES.sub("", answer.rstrip()).rstrip()


def _check_aime_answer(question: Question) -> None:
    answer = _without_degrees(question.answer)
    if not _AIME_ANSWER.fullmatch(answer):
        raise ValueError(
            f"its answer must be an integer from 0 to 999, like all answers of AIME. Got {shown(question.answer)}"
        )
