"""The contract of a data set: questions in splits, and how answers to them are graded."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import astuple

from prmcal.errors import DataError
from prmcal.registry.contracts.data import Question
from prmcal.registry.contracts.plugin import Plugin
from prmcal.registry.grading import Answer, Grading, Verdict, find_answer, grade_answer, grader_version
from prmcal.registry.grading.extraction import BOXED, Ways


class Dataset(Plugin, ABC):
    """A source of questions. Job keys contain the hash of its questions and not its name."""

    splits: tuple[str, ...] = ("test",)
    """The names of its splits, e.g. ``("train", "calibration", "test")``."""
    grading: Grading = "symbolic"
    """The kind of its answers: plain numbers and words, integers from 0 to 999 (AIME), any mathematics, or programs."""
    answers: Ways = BOXED
    """The places of the answers in solutions: ``boxed``, ``phrase`` (behind "the answer is"), ``hashes`` (behind ####),
    ``last number``, ``whole``, ``{pattern: REGEX}``, or a list of these, which are tried in order."""

    @abstractmethod
    def questions(self, split: str, count: int | None = None) -> list[Question]:
        """Return the first `count` questions of a split, or all. A larger count begins with the same questions.

        Raises a DataError if the split does not exist or has fewer than `count` questions.
        """

    def absent_size(self, split: str) -> int | None:
        """Return the number of questions of a split that must be downloaded first; None if it is here.

        Plans use this number instead of the questions. Return None also if the size is not known before the download.
        """
        return None

    def grade(self, question: Question, trajectory: str) -> tuple[Verdict, str | None]:
        """Grade a whole trajectory. Return the verdict and the final answer, or None if there is no answer.

        Raises a DataError if the question has no reference answer.
        """
        if not question.answer:
            raise DataError(
                f"The question {question.id} has no answer, and the LLM does not say which solutions are right. Give "
                "answers to the questions, or use the LLM 'recorded' with a field 'correct'."
            )
        answer = self.find_answer(trajectory)
        if answer is None:
            return "unparsed", None
        return grade_answer(answer.text, question.answer, self.grading), answer.text

    def find_answer(self, text: str, whole: bool = True) -> Answer | None:
        """Return the final answer of a solution, or None. In a beginning, not `whole`, it must be marked."""
        return find_answer(text, self.answers, whole)

    @property
    def grader_version(self) -> str:
        """The version of the grader, part of the keys of all graded work. It must change when a verdict can change."""
        version = grader_version(self.grading)
        return version if self.answers == BOXED else f"{version}, answers 2 {json.dumps(self.answers)}"


def content_hash(questions: Sequence[Question], references: bool = True) -> str:
    """Return the hash of questions in their order, without their `fields`: 16 hexadecimal digits of SHA-256.

    Without `references`, only ids and texts count.
    """
    content = [astuple(question)[:-1] if references else (question.id, question.text) for question in questions]
    text = json.dumps(content, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
