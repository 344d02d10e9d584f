"""The PRM `recorded`: replays the scores of trajectories from a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from prmcal.errors import DataError, PluginFailedError
from prmcal.registry.contracts.data import PrefixScores, join_steps, split_steps
from prmcal.registry.contracts.prm import PRM
from prmcal.registry.recordings import RecordedQuestion, check_recording, read_recording, recording_identity

__all__ = ["RecordedPRM"]


class RecordedPRM(PRM):
    """Scores that a reward model gave once, found by the text of the prefix.

    Blank lines in it do not matter, and of equal texts the first one's score counts.

    A prefix without a score is flagged as one that could not be read, as an over-long one is, and left out of
    calibration. With outcome rewards those are all but whole solutions, the bare question among them.

    Parameters
    ----------
    path : str
        A recording; see ``registry/recordings.py`` for its form.
    solutions : str, default="solutions"
        The field with a question's solutions.
    logits : str, default="logits"
        The field with a log-odds of success for each solution, or a list of T+1 of them, one for each prefix.
    """

    def __init__(self, path: str, solutions: str = "solutions", logits: str = "logits") -> None:
        self.path = path
        self.solutions = solutions
        self.logits = logits
        self._scores: dict[str, dict[str, float]] = {}

    def check_arguments(self) -> None:
        """Refuse a file that is not there."""
        check_recording(self.path)

    def identity(self) -> dict[str, Any]:
        """What is recorded, wherever the file lies."""
        return recording_identity(super().identity(), self.path)

    def score(self, question: str, trajectories: Sequence[Sequence[str]]) -> list[PrefixScores]:
        """Look up every prefix; see :meth:`prmcal.PRM.score`.

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
                    f"{self.path} has no score of a trajectory of the question {question[:60]!r} that ends "
                    f"{join_steps(steps)[-60:]!r}. Score only what the LLM 'recorded' replays from the same file."
                )
            found.append(_prefix_scores(logit))
        return found

    def _scores_of(self, question: str) -> dict[str, float]:
        """The logits of a question's prefixes, by their text."""
        if question not in self._scores:
            recorded = read_recording(self.path, self.solutions, self.logits).get(question)
            if recorded is None or not recorded.logits:
                raise PluginFailedError(
                    f"{self.path} has no '{self.logits}' of the question {question[:60]!r}."
                    + (f" It stands in {recorded.place}." if recorded else "")
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
                    f"{self.path}, {question.place}: '{self.logits}' must hold for each solution a number, or "
                    f"{len(steps) + 1} of them for a solution of {len(steps)} steps. Got {str(given)[:60]}."
                )
            for count, logit in zip(range(len(steps) + 1 - len(logits), len(steps) + 1), logits, strict=True):
                found.setdefault(_key(steps[:count]), float(logit))
        return found


def _key(steps: Sequence[str]) -> str:
    return "\n".join(line for line in join_steps(steps).split("\n") if line.strip())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(np.isfinite(value))


def _prefix_scores(logit: NDArray[np.float32]) -> PrefixScores:
    reward = expit(logit.astype(np.float64))
    return PrefixScores(logit, reward, np.isnan(logit), tokens=0)
