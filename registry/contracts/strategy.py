"""The contract of a strategy: how many samples each question gets, and which answer is chosen from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from prmcal.errors import PluginFailedError
from prmcal.registry.contracts.plugin import Plugin

__all__ = ["READS", "Answered", "OnceFor", "Pool", "PoolStrategy", "Reads", "Setting", "Strategy"]

OnceFor = Literal["data", "prm", "calibrator", "level"]
Reads = Literal["scores", "rewards", "success"]
READS: tuple[Reads, ...] = ("scores", "rewards", "success")

_MEANING = {
    "scores": "the PRM's scores",
    "rewards": "the calibrated rewards",
    "success": "the true success rates",
}


class Pool:
    """The pool: M sampled, graded and scored trajectories of each question. They are independent and unordered.

    A strategy may use `scores` and `rewards` at inference, if its `reads` names them. It must not choose by `correct`
    or `success`: these serve to compute its expected results, and reference points.

    Parameters
    ----------
    correct : ndarray of shape (questions, M), bool
        Whether the final answer of each trajectory is correct.
    answers : ndarray of shape (questions, M), int64
        The final answers as numbers: equal within a question if their texts are equal; -1 if there is none.
    scores : ndarray of shape (questions, M), float64, optional
        The PRM's uncalibrated log-odds of success of the whole trajectory; NaN where it is too long for the PRM.
    rewards : ndarray of shape (questions,), float64, optional
        Calibrated reward of the bare question in [0, 1] at one level beta; NaN where it is too long for the PRM.
    success : ndarray of shape (questions,), float64, optional
        Success rate of the bare question in [0, 1]: the share of correct ones among its follow-ups. These are samples
        of their own, independent of the pool. NaN where the bare question has no follow-ups.
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
        """The number of questions."""
        return len(self.correct)

    @property
    def size(self) -> int:
        """M, the number of trajectories of each question."""
        return int(self.correct.shape[1])

    @property
    def scores(self) -> NDArray[np.float64]:
        """The PRM's scores. An error is raised unless the strategy declares that it reads them."""
        return self._read("scores")

    @property
    def rewards(self) -> NDArray[np.float64]:
        """The calibrated rewards. An error is raised unless the strategy declares that it reads them."""
        return self._read("rewards")

    @property
    def success(self) -> NDArray[np.float64]:
        """The success rates. An error is raised unless the strategy declares that it reads them."""
        return self._read("success")

    def _read(self, name: Reads) -> NDArray[np.float64]:
        value = self._given[name]
        if value is None:
            raise PluginFailedError(
                f"It uses {_MEANING[name]} without declaring it. Add '{name}' to its 'reads'."
            )
        return value


@dataclass(frozen=True, slots=True)
class Setting:
    """The setting in which a strategy is run.

    Attributes
    ----------
    samples : int
        N, the samples per question of the fixed budget. No strategy may use more. At most the pool's M.
    target : float or None
        Target probability C in (0, 1); None if the strategy is not `targeted`.
    """

    samples: int
    target: float | None = None


@dataclass(frozen=True, eq=False)
class Answered:
    """The expected results of a strategy for each question.

    The budget of a strategy is the mean of `samples`. It has an interval, since other questions would need other
    numbers of samples. Two fields name the cases in which the interval does not follow from `samples`.

    Attributes
    ----------
    accuracy : ndarray of shape (questions,), float64
        Probability in [0, 1] that the final answer is correct.
    samples : ndarray of shape (questions,), float64
        Expected number of trajectories that are drawn, above 0.
    pass_at_samples : ndarray of shape (questions,), float64, or None
        Probability that at least one of the drawn trajectories is correct: the accuracy of a perfect choice.
    fixed : bool
        Whether `samples` is one number that is known before any question is read, as for best-of-n. The budget then is
        not an estimate and has no uncertainty.
    estimated_from : ndarray of shape (questions,), float64, or None
        If every question gets the mean of other numbers of samples: these numbers, from which the budget is estimated.
        Their mean must be that of `samples`.
    """

    accuracy: NDArray[np.float64]
    samples: NDArray[np.float64]
    pass_at_samples: NDArray[np.float64] | None = None
    fixed: bool = False
    estimated_from: NDArray[np.float64] | None = None

    def budget_flaw(self) -> str | None:
        """Say what is wrong with the description of the budget; None if nothing is."""
        if self.fixed and (self.estimated_from is not None or np.ptp(self.samples) > 0):
            return (
                "With 'fixed', every question must get the same 'samples', and 'estimated_from' must be None."
            )
        if self.estimated_from is not None and not np.isclose(
            self.estimated_from.mean(), self.samples.mean(), rtol=1e-9
        ):
            return "The mean of 'estimated_from' must be the mean of 'samples'."
        return None


class Strategy(Plugin, ABC):
    """The base of PoolStrategy and SearchStrategy. Derive from one of these.

    Attributes
    ----------
    reads : tuple of {"scores", "rewards", "success"}
        What it reads of the pool. This decides `once_for`.
    targeted : bool
        Whether it has a target probability C. It is then run once for every C of the grid.
    """

    reads: ClassVar[tuple[Reads, ...]] = ()
    targeted: ClassVar[bool] = False

    @property
    def once_for(self) -> OnceFor:
        """What it is run once for.

        "data": each LLM and data set. "prm": also each PRM, if it reads scores. "calibrator": also each calibrator.
        "level": also each level beta of the calibrator, if it reads rewards.
        """
        return "level" if "rewards" in self.reads else "prm" if "scores" in self.reads else "data"


class PoolStrategy(Strategy):
    """A strategy that draws whole trajectories. Its results follow from the pool, without further generation."""

    @abstractmethod
    def answer(self, pool: Pool, setting: Setting) -> Answered:
        """Return the expected results of the strategy over all ways to draw trajectories from the pool.

        Trajectories are drawn without replacement. A result must not depend on random numbers: use a closed form if
        there is one (:mod:`prmcal.registry.strategies.exact`). Otherwise draw with a fixed seed and document the size
        of the error.

        Parameters
        ----------
        pool : Pool
            The pool with what `reads` declares.
        setting : Setting
            The largest number of samples, and the target probability C.

        Returns
        -------
        Answered
        """
