"""The PRM `recorded`: replay the scores of trajectories from a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from prmcal.errors import DataError, PluginFailedError
from prmcal.registry.contracts.data import PrefixScores
from prmcal.registry.contracts.prm import PRM
from prmcal.registry.excerpts import shown
from prmcal.registry.recordings import RecordedQuestion, check_recording, read_recording, recording_identity
from prmcal.steps import join_steps, split_steps

__all__ = ["RecordedPRM"]

_LARGEST_LOGIT = float(np.finfo(np.float32).max)


class RecordedPRM(PRM):
    """Replay the recorded scores of a reward model.

    Scores are found by the text of the prefix, without its blank lines. If a text occurs several times, the first score
    is used.

    A prefix without a score has the flag `over_long` and is left out of calibration. With outcome rewards, only whole
    solutions have a score, and the bare question has none.

    Parameters
    ----------
    path : str
        The recording; see :mod:`prmcal.registry.recordings` for the format.
    solutions : str, default="solutions"
        The field with a question's solutions.
    logits : str, default="logits"
        The field with the log-odds of success. Each solution has one number, or a list of T+1 numbers, one per prefix.
    """

    def __init__(self, path: str, solutions: str = "solutions", logits: str = "logits") -> None:
        self.path = path
        self.solutions = solutions
        self.logits = logits
        self._scores: dict[str, dict[str, float]] = {}

    def check_arguments(self) -> None:
        """Raise InvalidArgumentsError if the file does not exist."""
        check_recording(self.path)

    def identity(self) -> dict[str, Any]:
        """Return the identity, with a hash of the recording in place of its path."""
        return recording_identity(super().identity(), self.path)

    def score(self, question: str, trajectories: Sequence[Sequence[str]]) -> list[PrefixScores]:
        """Return the recorded score of every prefix; see :meth:`prmcal.PRM.score`.

        Raises
        ------
        PluginFailedError
            If the question or a whole trajectory has no recorded score.
        """
        known = self._scores_of(question)
        found = []
        for steps in trajectories:
            logit = np.array(
                [known.get(_key(steps[:count]), np.nan) for count in range(len(steps) + 1)], dtype=np.float32
            )
            if np.isnan(logit[-1]):
                raise PluginFailedError(
                    f"{self.path} has no score for a trajectory of the question {question[:60]!r} that ends with "
                    f"{join_steps(steps)[-60:]!r}. Use the PRM 'recorded' with the LLM 'recorded' and the same file."
                )
            found.append(_prefix_scores(logit))
        return found

    def _scores_of(self, question: str) -> dict[str, float]:
        """The logits of a question's prefixes, by their text."""
        if question not in self._scores:
            recorded = read_recording(self.path, self.solutions, self.logits).get(question)
            if recorded is None or not recorded.logits:
                raise PluginFailedError(
                    f"{self.path} has no '{self.logits}' for the question {question[:60]!r}"
                    + (f" in {recorded.place}." if recorded else ".")
                )
            self._scores[question] = self._logits_by_text(recorded)
        return self._scores[question]

    def _logits_by_text(self, question: RecordedQuestion) -> dict[str, float]:
        found: dict[str, float] = {}
        for solution, given in zip(question.solutions, question.logits, strict=True):
            steps = split_steps(solution.text)
            logits = given if isinstance(given, list) else [given]
            if len(logits) not in (1, len(steps) + 1) or not all(_is_number(each) for each in logits):
                raise DataError(
                    f"{self.path}, {question.place}: '{self.logits}' must have a number for each solution, or a list "
                    f"of {len(steps) + 1} numbers for a solution with {len(steps)} steps. Got {shown(given)}."
                )
            for count, logit in zip(range(len(steps) + 1 - len(logits), len(steps) + 1), logits, strict=True):
                found.setdefault(_key(steps[:count]), float(logit))
        return found


def _key(steps: Sequence[str]) -> str:
    return "\n".join(line for line in join_steps(steps).split("\n") if line.strip())


def _is_number(value: Any) -> bool:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return known and abs(value) <= _LARGEST_LOGIT


def _prefix_scores(logit: NDArray[np.float32]) -> PrefixScores:
    reward = expit(logit.astype(np.float64))
    return PrefixScores(logit, reward, np.isnan(logit), tokens=0)
