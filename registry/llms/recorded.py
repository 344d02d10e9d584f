"""The LLM `recorded`: replay trajectories and follow-ups from a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from prmcal.errors import PluginFailedError
from prmcal.registry.contracts.data import Completion, Prefix, Sampling
from prmcal.registry.contracts.llm import LLM
from prmcal.registry.recordings import (
    RecordedQuestion,
    as_one_step,
    check_recording,
    read_recording,
    recording_identity,
)
from prmcal.steps import join_steps, split_steps

__all__ = ["RecordedLLM"]


class RecordedLLM(LLM):
    """Replay the recorded completions of a policy, in their order.

    The completions of the bare question are the recorded solutions. The completions of another prefix are those
    recorded for it. If there are none, they are the rest of every solution that begins with the prefix. The completion
    of a whole solution is empty. Sampling and seed are ignored, since the recording has fixed them.

    Parameters
    ----------
    path : str
        The recording; see :mod:`prmcal.registry.recordings` for the format.
    solutions : str, default="solutions"
        The field with a question's solutions.
    one_step : bool, default=False
        Replay each solution as a single step, without its blank lines. Use it for outcome rewards, which exist only for
        whole solutions. No follow-ups of shorter prefixes are then needed.

    Notes
    -----
    A call does not know which trajectories of a question to draw. So a shard of the grid must contain all of them: set
    ``shards.trajectories`` to at least ``scaling.samples``, ``calibration.trajectories`` and the numbers of follow-ups.
    """

    version = "2"
    repeats = True

    def __init__(self, path: str, solutions: str = "solutions", one_step: bool = False) -> None:
        self.path = path
        self.solutions = solutions
        self.one_step = one_step

    def check_arguments(self) -> None:
        """Raise InvalidArgumentsError if the file does not exist."""
        check_recording(self.path)

    def identity(self) -> dict[str, Any]:
        """Return the identity, with a hash of the recording in place of its path."""
        return recording_identity(super().identity(), self.path)

    def generate(
        self, prefixes: Sequence[Prefix], n: int, sampling: Sampling, seed: int
    ) -> list[list[Completion]]:
        """Return the first `n` recorded completions of each prefix; see :meth:`prmcal.LLM.generate`.

        Raises
        ------
        PluginFailedError
            If a question is not recorded, or a prefix has fewer than `n` completions.
        """
        questions = read_recording(self.path, self.solutions, "")
        completions = []
        for prefix in prefixes:
            question = questions.get(prefix.question)
            if question is None:
                raise PluginFailedError(
                    f"{self.path} has no recording of the question {prefix.question[:60]!r}. It has {len(questions)} "
                    "questions. Test and calibrate on these."
                )
            found = self._completions_of(question, prefix.steps, n)
            if len(found) < n:
                raise PluginFailedError(
                    f"{self.path}, {question.place}: the grid needs {n} completions of the prefix of "
                    f"{len(prefix.steps)} steps that ends with {join_steps(prefix.steps)[-60:]!r}, but {len(found)} "
                    "are recorded. Lower the number of samples or follow-ups in the grid, or record more."
                )
            completions.append(found[:n])
        return completions

    def _completions_of(self, question: RecordedQuestion, steps: tuple[str, ...], n: int) -> list[Completion]:
        solutions = [self._solution(each) for each in question.solutions]
        if not steps:
            return solutions
        recorded = question.follow_ups.get(steps)
        if recorded is not None:
            return list(recorded)
        split = [split_steps(solution.text) for solution in solutions]
        if steps in split:
            return [Completion("", 0, "end")] * n
        return [
            _rest(solution, whole, len(steps))
            for solution, whole in zip(solutions, split, strict=True)
            if whole[: len(steps)] == steps
        ]

    def _solution(self, solution: Completion) -> Completion:
        return replace(solution, text=as_one_step(solution.text)) if self.one_step else solution


def _rest(solution: Completion, steps: tuple[str, ...], start: int) -> Completion:
    """The text after the first `start` steps, with a proportional share of the tokens."""
    text = join_steps(steps[start:])
    share = len(text) / max(1, len(join_steps(steps)))
    return Completion(text, round(solution.tokens * share), solution.finish_reason)
