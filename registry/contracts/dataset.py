"""The contract of a data set: questions in splits, and how answers to them are graded."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from prmcal.registry.contracts.data import Question
from prmcal.registry.contracts.plugin import Plugin
from prmcal.registry.grading import Grading, Verdict, extract_answer, grade_answer, grader_version


class Dataset(Plugin, ABC):
    """A source of questions. Job keys contain the hash of its questions and not its name.

    Attributes
    ----------
    splits : tuple of str
        The names of its splits, e.g. ``("train", "calibration", "test")``.
    grading : {"plain", "integer", "symbolic"}
        The kind of its answers: plain numbers and words, integers from 0 to 999 (AIME), or any mathematics.
    """

    splits: tuple[str, ...] = ("test",)
    grading: Grading = "symbolic"

    @abstractmethod
    def questions(self, split: str, count: int | None = None) -> list[Question]:
        """Return the first `count` questions of a split, or all. A larger count begins with the same questions.

        Raises
        ------
        DataError
            If the split does not exist or has fewer than `count` questions.
        """

    def absent_size(self, split: str) -> int | None:
        """Return the number of questions of a split that must be downloaded first; None if it is on this machine.

        Plans use it instead of the questions. Return None also if the size is not known before the download.
        """
        return None

    def grade(self, question: Question, trajectory: str) -> tuple[Verdict, str | None]:
        """Grade a whole trajectory. Return the verdict and the final answer, or None if there is no answer."""
        answer = extract_answer(trajectory)
        if answer is None:
            return "unparsed", None
        return grade_answer(answer, question.answer, self.grading), answer

    @property
    def grader_version(self) -> str:
        """The version of the grader, part of the keys of all graded work. It changes when a verdict can change."""
        return grader_version(self.grading)


@dataclass(frozen=True, slots=True)
class FollowedUp:
    """A trajectory whose prefixes were followed up.

    Attributes
    ----------
    steps : tuple of str
    counts : mapping of int to (int, int)
        k successes of n follow-ups for each prefix that was followed up, by its number of steps t.
    """

    steps: tuple[str, ...]
    counts: Mapping[int, tuple[int, int]]


class FollowedUpDataset(Dataset):
    """Questions with trajectories of LLMs whose prefixes were followed up already. Calibrators can be fitted to it.

    Nothing is generated or graded, so its questions need no answers.
    """

    splits = ("calibration",)

    @abstractmethod
    def content(self, llm: str) -> Any:
        """Return JSON data that identifies the data of an LLM, for the job keys."""

    @abstractmethod
    def trajectories(self, llm: str, follow_ups: int) -> Mapping[str, Sequence[FollowedUp]]:
        """Return the trajectories of an LLM, by the text of their question.

        Parameters
        ----------
        llm : str
            The LLM's name in the grid.
        follow_ups : int
            How many follow-ups a prefix had, if the data does not say.

        Raises
        ------
        DataError
            If there are no trajectories of this LLM, or the data is invalid.
        """


def content_hash(questions: Sequence[Question]) -> str:
    """Return the hash of the questions in their order: 16 hexadecimal digits of SHA-256."""
    text = json.dumps([astuple(question) for question in questions], ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
