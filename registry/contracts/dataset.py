"""The contract of a data set: questions in splits, and how an answer to them is graded."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from prmcal.registry.contracts.data import Question, Verdict
from prmcal.registry.contracts.plugin import Plugin
from prmcal.registry.grading import Grading, extract_answer, grade_answer, grader_version

__all__ = ["Dataset", "FollowedUp", "FollowedUpDataset", "content_hash"]


class Dataset(Plugin, ABC):
    """A source of questions. Job keys hold the hash of its questions, not its name.

    Attributes
    ----------
    splits : tuple of str
        The splits it has, e.g. ``("train", "calibration", "test")``.
    grading : {"plain", "integer", "symbolic"}
        What its answers are: plain numbers and words, integers from 0 to 999 (AIME), or any mathematics.
    """

    splits: tuple[str, ...] = ("test",)
    grading: Grading = "symbolic"

    @abstractmethod
    def questions(self, split: str, count: int | None = None) -> list[Question]:
        """The first `count` questions of a split (all if None). A larger count begins with the same questions.

        Raises
        ------
        DataError
            If the split does not exist or has fewer than `count` questions.
        """

    def absent_size(self, split: str) -> int | None:
        """How many questions a split has that would have to be downloaded; None if it is on this machine.

        For plans, which then do without it. A data set whose size is not known in advance says None too.
        """
        return None

    def grade(self, question: Question, trajectory: str) -> tuple[Verdict, str | None]:
        """Grade a whole trajectory: the verdict and the final answer that was found in it, if any."""
        answer = extract_answer(trajectory)
        if answer is None:
            return "unparsed", None
        return grade_answer(answer, question.answer, self.grading), answer

    @property
    def grader_version(self) -> str:
        """Part of the keys of all graded work; raise it when a verdict can change."""
        return grader_version(self.grading)


@dataclass(frozen=True, slots=True)
class FollowedUp:
    """A trajectory whose prefixes were followed up.

    Attributes
    ----------
    steps : tuple of str
    counts : mapping of int to (int, int)
        For the prefixes of t steps that were: k successes of n follow-ups.
    """

    steps: tuple[str, ...]
    counts: Mapping[int, tuple[int, int]]


class FollowedUpDataset(Dataset):
    """Questions with trajectories of LLMs that were followed up already: to calibrate on, without generating.

    Its questions need no answers, since nothing of it is graded.
    """

    splits = ("calibration",)

    @abstractmethod
    def content(self, llm: str) -> Any:
        """What tells the data of an LLM from all other, as JSON data, for job keys."""

    @abstractmethod
    def trajectories(self, llm: str, follow_ups: int) -> Mapping[str, Sequence[FollowedUp]]:
        """The trajectories of an LLM, by the text of their question.

        Parameters
        ----------
        llm : str
            The LLM's name in the grid.
        follow_ups : int
            How many a prefix had, where the data does not say.

        Raises
        ------
        DataError
            If there are none of this LLM, or the data is broken.
        """


def content_hash(questions: Sequence[Question]) -> str:
    """Hash of all that the questions hold, in their order (SHA-256, 16 hexadecimal digits)."""
    text = json.dumps([astuple(question) for question in questions], ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
