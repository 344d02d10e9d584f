"""The contract of a strategy: how a question's samples are spent, and which answer comes of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from prmcal.errors import PluginFailedError
from prmcal.registry.contracts.plugin import Plugin

__all__ = ["READS", "Answered", "Pool", "PoolStrategy", "Reads", "Setting", "Strategy"]

Reads = Literal["scores", "rewards", "success"]
READS: tuple[Reads, ...] = ("scores", "rewards", "success")

_MEANING = {
    "scores": "the PRM's scores",
    "rewards": "the calibrated rewards",
    "success": "the true success rates",
}


class Pool:
    """Sampled and graded trajectories: M of each question, drawn independently, in no order that means anything.

    What a strategy may see at inference (`scores`, `rewards`) is there if its `reads` names it. What it may not see,
    `correct` and `success`, is there to say in expectation how it does, and for reference points.

    Parameters
    ----------
    correct : ndarray of shape (questions, M), bool
        Whether each trajectory's final answer is right.
    answers : ndarray of shape (questions, M), int64
        The final answers as numbers: equal within a question where the answers' texts are equal, -1 without one.
    scores : ndarray of shape (questions, M), float64, optional
        The PRM's log-odds that the whole trajectory is right, uncalibrated; NaN where it is over-long.
    rewards : ndarray of shape (questions,), float64, optional
        Calibrated reward of the bare question in [0, 1] at one level beta; NaN where it is over-long.
    success : ndarray of shape (questions,), float64, optional
        Success rate of the bare question in [0, 1], over the pool and the follow-ups of the bare question.
    """

    def __init__(
        self,
        correct: NDArray[np.bool_],
        answers: NDArray[np.int64],
        scores: NDArray[np.float64] | None = None,
        rewards: NDArray[np.float64] | None = None,
        success: NDArray[np.float64] | None = None,
    ) -> None:
        self.correct = correct
        self.answers = answers
        self._given = {"scores": scores, "rewards": rewards, "success": success}

    @property
    def questions(self) -> int:
        """How many questions there are."""
        return len(self.correct)

    @property
    def size(self) -> int:
        """M, the trajectories of each question."""
        return int(self.correct.shape[1])

    @property
    def scores(self) -> NDArray[np.float64]:
        """The PRM's scores, if the strategy declares that it reads them."""
        return self._read("scores")

    @property
    def rewards(self) -> NDArray[np.float64]:
        """The calibrated rewards, if the strategy declares that it reads them."""
        return self._read("rewards")

    @property
    def success(self) -> NDArray[np.float64]:
        """The true success rates, if the strategy declares that it reads them."""
        return self._read("success")

    def _read(self, name: Reads) -> NDArray[np.float64]:
        value = self._given[name]
        if value is None:
            raise PluginFailedError(
                f"It uses {_MEANING[name]} without declaring it. Put '{name}' into its 'reads'."
            )
        return value


@dataclass(frozen=True, slots=True)
class Setting:
    """What the grid asks of a strategy.

    Attributes
    ----------
    samples : int
        N, the samples per question of the fixed budget: no strategy may use more. At most the pool's M.
    target : float or None
        Target probability C in (0, 1); None if the strategy is not `targeted`.
    """

    samples: int
    target: float | None = None


@dataclass(frozen=True, eq=False)
class Answered:
    """What a strategy comes to, for each question in expectation.

    Attributes
    ----------
    accuracy : ndarray of shape (questions,), float64
        Chance in [0, 1] that the final answer is right.
    samples : ndarray of shape (questions,), float64
        Expected number of trajectories that are drawn, above 0.
    pass_at_samples : ndarray of shape (questions,), float64, or None
        Chance that one of them at least is right: what a perfect choice would make of the same budget.
    """

    accuracy: NDArray[np.float64]
    samples: NDArray[np.float64]
    pass_at_samples: NDArray[np.float64] | None = None


class Strategy(Plugin, ABC):
    """Spends samples on questions and picks answers. Derive from PoolStrategy, or from SearchStrategy.

    Attributes
    ----------
    reads : tuple of {"scores", "rewards", "success"}
        What it needs of a pool, which decides for what it is run: without "scores" and "rewards" once for each LLM
        and data set, with "scores" for each PRM too, with "rewards" for each calibrator and level beta too.
    targeted : bool
        Whether it aims at a target probability C. It is then run for every C of the grid.
    """

    reads: ClassVar[tuple[Reads, ...]] = ()
    targeted: ClassVar[bool] = False


class PoolStrategy(Strategy):
    """A strategy that draws whole trajectories: what comes of it follows from a pool, with no further generation."""

    @abstractmethod
    def answer(self, pool: Pool, setting: Setting) -> Answered:
        """Say how the strategy does on a pool, in expectation over which of its trajectories are drawn.

        Samples are drawn from the pool without replacement. Where there is a closed form, use it
        (:mod:`prmcal.registry.strategies.exact`): a result must not depend on random numbers. Where there is none, draw
        with a fixed seed and say how large the error is.

        Parameters
        ----------
        pool : Pool
            With what `reads` declares.
        setting : Setting
            The largest number of samples, and the target probability C.
        """
