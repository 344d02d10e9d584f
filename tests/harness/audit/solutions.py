"""Four solutions of two questions, which the files of all public shapes have in their own ways."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Solution:
    """A solution with the scores and the labels that the files have in their own ways."""

    question: str
    answer: str
    steps: tuple[str, ...]
    scores: tuple[float, ...]
    right: bool
    wrong_steps: tuple[int, ...]
    """The steps that are wrong, counted from 1."""
    rates: tuple[float, ...]

    @property
    def text(self) -> str:
        return "\n\n".join(self.steps)

    @property
    def first_error(self) -> int:
        """The first wrong step, counted from 0; -1 if none is wrong."""
        return min(self.wrong_steps, default=0) - 1


SOLUTIONS = (
    Solution("What is 2+3?", "5", ("2+3 is 5.", "The answer is 5."), (0.9, 0.8), True, (), (1.0, 1.0)),
    Solution(
        "What is 2+3?",
        answer="5",
        steps=("2+3 is 6.", "So it is 6.", "The answer is 6."),
        scores=(0.6, 0.3, 0.2),
        right=False,
        wrong_steps=(1,),
        rates=(0.25, 0.125, 0.0),
    ),
    Solution("What is 4*2?", "8", ("4*2 is 8.", "The answer is 8."), (0.95, 0.85), True, (), (0.875, 1.0)),
    Solution(
        "What is 4*2?",
        answer="8",
        steps=("4*2 is 8.", "8+1 is 9.", "The answer is 9."),
        scores=(0.7, 0.4, 0.1),
        right=False,
        wrong_steps=(2, 3),
        rates=(0.75, 0.25, 0.0),
    ),
)
GROUPS = (SOLUTIONS[:2], SOLUTIONS[2:])
"""The solutions by their questions."""

Files = Mapping[str, bytes]
"""The contents of files by their names."""


def lines(records: Sequence[Any]) -> bytes:
    """Return records as JSON lines."""
    return "\n".join(json.dumps(each, ensure_ascii=False) for each in records).encode()


def scores(key: str = "id", name: str = "scores", prefix: str = "") -> bytes:
    """Return a file with the scores alone, in another order."""
    return lines([{key: f"{prefix}{place}", name: each.scores} for place, each in enumerate(SOLUTIONS)][::-1])
