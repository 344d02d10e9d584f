"""A question while it is solved: its trajectories so far, and the pool that they are to a strategy."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from prmcal.harness.inference.basis.results import Spent, Trajectory
from prmcal.harness.inference.basis.rewarding import Rewarded
from prmcal.harness.storage.keys import content_key, seed_from_key
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.grading import extract_answer
from prmcal.steps import join_steps

__all__ = ["Drawn", "OpenQuestion", "pool_of"]


@dataclass(eq=False)
class Drawn:
    """One trajectory.

    Attributes
    ----------
    steps : tuple of str
    tokens : int
        Generated tokens.
    finish_reason : str
    step_scores : ndarray of shape (T + 1,), float64
        The PRM's log-odds after t steps. NaN where the prefix is too long for the PRM.
    rewarded : Rewarded or None
        Its calibrated rewards, if they are known already.
    """

    steps: tuple[str, ...]
    tokens: int
    finish_reason: str
    step_scores: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    rewarded: Rewarded | None = None

    @property
    def text(self) -> str:
        """The steps, separated by blank lines."""
        return join_steps(self.steps)

    @property
    def answer(self) -> str | None:
        """The final answer, or None."""
        return extract_answer(self.text)

    @property
    def score(self) -> float:
        """The PRM's log-odds of the whole trajectory; NaN if it is too long for the PRM."""
        return float(self.step_scores[-1])

    def result(self) -> Trajectory:
        """Return it as plain data."""
        score = None if np.isnan(self.score) else self.score
        return Trajectory(self.text, self.answer, score, self.tokens, self.finish_reason)


@dataclass(eq=False)
class OpenQuestion:
    """A question that is not answered yet.

    Attributes
    ----------
    number : int
        Its place among the questions of the call.
    text : str
    bare : Rewarded
        The rewards of the bare question.
    drawn : list of Drawn
    prm_tokens : int
    started : float
        On the clock of ``time.monotonic``.
    """

    number: int
    text: str
    bare: Rewarded
    started: float
    drawn: list[Drawn] = field(default_factory=list)
    prm_tokens: int = 0

    def seed(self, seed: int, *place: int) -> int:
        """Return the seed of a sample, which does not depend on the other questions of the call."""
        return seed_from_key(content_key(["ask", seed, self.text, *place]))

    @property
    def answers(self) -> NDArray[np.int64]:
        """The answers as numbers in the order of their first appearance; -1 for none. Equal texts are equal."""
        numbers: dict[str, int] = {}
        given = [each.answer for each in self.drawn]
        return np.array(
            [-1 if each is None else numbers.setdefault(each, len(numbers)) for each in given],
            dtype=np.int64,
        )

    @property
    def scores(self) -> NDArray[np.float64]:
        """The scores of whole trajectories, of shape (drawn,)."""
        return np.array([each.score for each in self.drawn], dtype=np.float64)

    def spent(self) -> Spent:
        """Return what it has cost so far."""
        return Spent(
            samples=len(self.drawn),
            generated_tokens=sum(each.tokens for each in self.drawn),
            prm_tokens=self.prm_tokens,
            seconds=time.monotonic() - self.started,
        )


def pool_of(
    questions: Sequence[OpenQuestion], size: int, levels: tuple[float, ...], level: float | None
) -> Pool:
    """Return the trajectories of some questions as a strategy reads them; see :meth:`prmcal.PoolStrategy.needed`.

    Parameters
    ----------
    questions : sequence of OpenQuestion
        At least one.
    size : int
        The number of trajectories of each question in the pool. Those that are not drawn have no answer, and NaN.
    levels : tuple of float
        The levels of the calibrated rewards.
    level : float or None
        The level of `rewards`.
    """
    count = len(questions)
    longest = max((len(each.step_scores) for one in questions for each in one.drawn), default=1)
    answers = np.full((count, size), -1, dtype=np.int64)
    scores = np.full((count, size), np.nan)
    step_scores = np.full((count, size, longest), np.nan)
    step_rewards = np.full((count, size, longest, len(levels)), np.nan)
    trajectory_rewards = np.full((count, size, len(levels)), np.nan)
    for row, question in enumerate(questions):
        answers[row, : len(question.drawn)] = question.answers
        for column, drawn in enumerate(question.drawn):
            scores[row, column] = drawn.score
            step_scores[row, column, : len(drawn.step_scores)] = drawn.step_scores
            if drawn.rewarded is not None:
                quantiles = drawn.rewarded.quantiles
                step_rewards[row, column, : len(quantiles)] = quantiles
                trajectory_rewards[row, column] = quantiles[-1]
    bare = np.stack([question.bare.quantiles[0] for question in questions])
    nearest = 0 if level is None else int(np.argmin(np.abs(np.array(levels) - level)))
    return Pool(
        np.zeros((count, size), dtype=np.bool_),
        answers,
        scores=scores,
        rewards=bare[:, nearest],
        step_scores=step_scores,
        question_rewards=bare,
        trajectory_rewards=trajectory_rewards,
        step_rewards=step_rewards,
        levels=levels,
    )
