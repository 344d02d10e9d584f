"""The LLM `recorded`: replays trajectories and follow-ups from a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from prmcal.errors import PluginFailedError
from prmcal.registry.contracts.data import (
    STEP_SEPARATOR,
    Completion,
    Prefix,
    Sampling,
    join_steps,
    split_steps,
)
from prmcal.registry.contracts.llm import LLM
from prmcal.registry.recordings import (
    RecordedQuestion,
    as_one_step,
    check_recording,
    read_recording,
    recording_identity,
)

__all__ = ["RecordedLLM"]


class RecordedLLM(LLM):
    """A policy that was sampled once. It gives what is recorded, in its order, and nothing else.

    The bare question gets the recorded solutions. Another prefix gets the completions recorded for it, and if there
    are none the rest of every solution that begins with it. A whole solution has come to its end: its completion is
    empty. Sampling and seed were decided when the recording was made, and are ignored.

    Parameters
    ----------
    path : str
        A recording; see ``registry/recordings.py`` for its form.
    solutions : str, default="solutions"
        The field with a question's solutions.
    one_step : bool, default=False
        Replay each solution as a single step, its blank lines left out: for outcome rewards, which exist only for whole
        solutions, so that no follow-ups of parts are needed.

    Notes
    -----
    A call is not told which trajectories of a question it draws. In a grid a shard must therefore hold all of them:
    ``shards.trajectories`` at least ``scaling.samples``, ``calibration.trajectories`` and the numbers of follow-ups.
    """

    repeats = True

    def __init__(self, path: str, solutions: str = "solutions", one_step: bool = False) -> None:
        self.path = path
        self.solutions = solutions
        self.one_step = one_step

    def check_arguments(self) -> None:
        """Refuse a file that is not there."""
        check_recording(self.path)

    def identity(self) -> dict[str, Any]:
        """What is recorded, wherever the file lies."""
        return recording_identity(super().identity(), self.path)

    def generate(
        self, prefixes: Sequence[Prefix], n: int, sampling: Sampling, seed: int
    ) -> list[list[Completion]]:
        """The first `n` recorded completions of each prefix.

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
                    "questions; test and calibrate on those."
                )
            found = self._completions_of(question, prefix.steps, n)
            if len(found) < n:
                raise PluginFailedError(
                    f"{self.path}, {question.place}: {len(found)} completions are recorded for the prefix of "
                    f"{len(prefix.steps)} steps that ends {join_steps(prefix.steps)[-60:]!r}, fewer than the {n} that "
                    "are asked for. Ask for fewer samples or follow-ups in the grid, or record more."
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
            return [Completion("", 0, "stop")] * n
        return [
            _rest(solution, whole, len(steps))
            for solution, whole in zip(solutions, split, strict=True)
            if whole[: len(steps)] == steps
        ]

    def _solution(self, solution: Completion) -> Completion:
        return replace(solution, text=as_one_step(solution.text)) if self.one_step else solution


def _rest(solution: Completion, steps: tuple[str, ...], start: int) -> Completion:
    """What follows the first `start` steps, with its share of the tokens."""
    text = STEP_SEPARATOR.join(steps[start:])
    share = len(text) / max(1, len(join_steps(steps)))
    return Completion(text, round(solution.tokens * share), solution.finish_reason)
