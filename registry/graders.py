r"""The built-in graders: of mathematics, of equal texts, of multiple choice, by a function, and by a language model."""

import importlib
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import expit

from prmcal.errors import PrmcalError
from prmcal.registry.contracts.data import PrefixScores, Question, ScoringRequest
from prmcal.registry.contracts.grader import Graded, Grader, GradingRequest
from prmcal.registry.contracts.models import PRM
from prmcal.registry.grading.letters import letters_of
from prmcal.registry.grading.rules import Grading, accepted_answers, grade_answer, grader_version
from prmcal.registry.messages import message_of
from prmcal.registry.sources import source_hash

_TEMPLATE = (
    "A problem with its reference answer:\n\n{{ question }}\n\nThe answer of a solution:\n\n{{ solution }}\n\n"
    "Does it mean the same as the reference answer? Answer Yes or No."
)


class _EachAnswer(Grader):
    """A grader that compares one answer at a time. Without an answer, nothing is compared."""

    def grade(self, requests: Sequence[GradingRequest]) -> list[Graded]:
        """Grade each answer; see :meth:`prmcal.Grader.grade`."""
        return [
            Graded("unparsed") if request.answer is None else self.compare(request.answer, request.question)
            for request in requests
        ]

    @abstractmethod
    def compare(self, answer: str, question: Question) -> Graded:
        """Compare an answer with the reference of its question."""


@dataclass(eq=False)
class SymbolicGrader(_EachAnswer):
    """The rules of the page "How answers are compared": equal texts, numbers, structures and symbols."""

    kind: Grading = "symbolic"
    """The kind of answers, as `grading` of a data set."""

    def identity(self) -> dict[str, Any]:
        """Return the identity, with the versions of the libraries that can change a verdict."""
        return {**super().identity(), "rules": grader_version(self.kind)}

    def compare(self, answer: str, question: Question) -> Graded:
        """Compare an answer with the reference of its question."""
        return Graded(grade_answer(answer, question.answer, self.kind))


@dataclass(eq=False)
class ExactGrader(_EachAnswer):
    """Equal texts, apart from white space."""

    ignore_case: bool = False
    """If true, capital letters are equal to small ones."""

    def compare(self, answer: str, question: Question) -> Graded:
        """Compare an answer with the reference of its question."""
        accepted = map(self._normal, accepted_answers(question.answer))
        return Graded("correct" if self._normal(answer) in accepted else "incorrect")

    def _normal(self, text: str) -> str:
        text = " ".join(text.split())
        return text.casefold() if self.ignore_case else text


@dataclass(eq=False)
class LetterGrader(_EachAnswer):
    """Multiple choice: the letters of the options, or their texts.

    "B", "(B) 42", "Option B" and the text of option B are equal. Several letters are a set: "A, C" is equal to "C and
    A", and not to "A". The question has the options, in the field `options` of a file. Without them, only letters are
    read.
    """

    version = "2"

    def compare(self, answer: str, question: Question) -> Graded:
        """Compare an answer with the reference of its question."""
        letters = letters_of(answer, question.options)
        if not letters:
            return Graded("unparsed")
        accepted = [letters_of(text, question.options) for text in accepted_answers(question.answer)]
        return Graded("correct" if letters in accepted else "incorrect")


@dataclass(eq=False)
class FunctionGrader(Grader):
    """A function of yours, ``function(question, answer, reference) -> bool``, called with three texts.

    `answer` is None if no answer was read. If the function raises an error, the solution is wrong, with the verdict
    `failed`.
    """

    function: str
    """The function as ``module:name``. The module must be importable where the grid runs."""

    def check_arguments(self) -> None:
        """Raise ValueError if there is no such function."""
        if not callable(self._function):
            raise ValueError(f"'{self.function}' is not a function.")

    def identity(self) -> dict[str, Any]:
        """Return the identity, with the hash of the function's code."""
        return {**super().identity(), "source": source_hash(self._function)}

    def grade(self, requests: Sequence[GradingRequest]) -> list[Graded]:
        """Grade each answer by the function; see :meth:`prmcal.Grader.grade`."""
        return [self._grade(request) for request in requests]

    def _grade(self, request: GradingRequest) -> Graded:
        try:
            is_right = self._function(request.question.text, request.answer, request.question.answer)
        except Exception:
            return Graded("failed")
        return Graded("correct" if is_right else "incorrect")

    @cached_property
    def _function(self) -> Callable[[str, str | None, str], Any]:
        module, _, name = self.function.partition(":")
        try:
            function: Callable[[str, str | None, str], Any] = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError) as error:
            raise ValueError(
                f"The function '{self.function}' cannot be imported: {message_of(error)}. Write module:name, and run "
                "prmcal where Python finds the module."
            ) from error
        return function


@dataclass(eq=False)
class JudgeGrader(Grader):
    """A language model that is asked whether an answer means the same as the reference.

    The probability of Yes against No is stored. From 0.5 on, an answer is correct. Solutions without an answer are not
    judged. If a text is too long for the model, the verdict is `failed`.
    """

    runs_model = True

    model: dict[str, Any]
    """The model: arguments of the PRM `judge`, such as `checkpoint` for a model on this machine, or `base_url` and
    `model` for one on a server."""
    template: str = _TEMPLATE
    """The prompt, as Jinja text with `question` (the problem with its reference) and `solution` (the answer)."""
    undecided_only: bool = False
    """Whether it judges only answers on which the first grader could not decide."""

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """The checkpoints of the model, which must be on the machine before a run."""
        return self._judge.checkpoints

    def check_arguments(self) -> None:
        """Raise an error if the model has wrong arguments."""
        self._judge.check_arguments()

    def identity(self) -> dict[str, Any]:
        """Return the identity: the model, its prompt, and whether it grades undecided answers only."""
        return {**super().identity(), "arguments": {"undecided_only": self.undecided_only}} | {
            "judge": self._judge.identity()
        }

    def problems(self, solution_counts: Mapping[str, int]) -> list[PrmcalError]:
        """Return why the model cannot be used."""
        return super().problems(solution_counts) + self._judge.problems(solution_counts)

    def grade(self, requests: Sequence[GradingRequest]) -> list[Graded]:
        """Grade each answer by the model; see :meth:`prmcal.Grader.grade`."""
        answered_requests = [request for request in requests if request.answer is not None]
        scores = self._judge.score_batch(
            [
                ScoringRequest(
                    f"{request.question.text}\n\nReference answer: {request.question.answer}",
                    ((str(request.answer),),),
                    whole_only=True,
                )
                for request in answered_requests
            ]
        )
        grades = iter(_judged(score) for (score,) in scores)
        return [Graded("unparsed") if request.answer is None else next(grades) for request in requests]

    def close(self) -> None:
        """Free the model's memory."""
        self._judge.close()

    @cached_property
    def _judge(self) -> PRM:
        from prmcal.registry.plugins import prms

        return prms.create("judge", **{"template": self.template, **self.model})


def _judged(score: PrefixScores) -> Graded:
    if score.over_long[-1]:
        return Graded("failed")
    probability = float(expit(np.float64(score.logit[-1])))
    return Graded("correct" if probability >= 0.5 else "incorrect", probability, score.tokens)
