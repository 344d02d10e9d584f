"""The contract of a grader, which compares answers with references."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from prmcal.registry.contracts.data import Question
from prmcal.registry.contracts.plugin import Plugin
from prmcal.registry.grading.processes import Verdict


@dataclass(frozen=True, slots=True)
class GradingRequest:
    """A solution to grade."""

    question: Question
    answer: str | None
    """The final answer that was found in the solution; None if none was found."""
    solution: str


@dataclass(frozen=True, slots=True)
class Graded:
    """The verdict of a grader on a solution."""

    verdict: Verdict
    probability: float = math.nan
    """The probability that the answer is correct, in [0, 1], if the grader gives one."""
    tokens: int = 0
    """Tokens that a model read for the verdict."""


class Grader(Plugin, ABC):
    """Compares the answers of solutions with the references of their questions."""

    runs_model: ClassVar[bool] = False
    """True if the grader needs a model. Such a grader cannot be the first grader of a data set."""
    undecided_only: bool = False
    """True if it grades only answers on which the first grader could not decide, and else repeats its verdict."""

    @abstractmethod
    def grade(self, requests: Sequence[GradingRequest]) -> list[Graded]:
        """Return the verdict on each solution, in their order."""

    def close(self) -> None:
        """Free the model's memory, if it has one."""
