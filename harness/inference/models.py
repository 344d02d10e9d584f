"""The LLM and the calibrated PRM side by side, and what is known from the calibration questions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from prmcal.errors import NoAnswerError, PrmcalError
from prmcal.harness.inference.calibration_questions import AnswerChances, CalibrationQuestions
from prmcal.harness.inference.rewarding import Item, Rewarded, Rewarder
from prmcal.harness.jobs.plugin_calls import (
    check_completions,
    in_steps,
    next_steps,
    plugin_guard,
    require_length,
)
from prmcal.registry.contracts.data import Completion, GenerationRequest, PrefixScores, Sampling
from prmcal.registry.contracts.models import LLM

__all__ = ["Models", "each_or_error"]

T = TypeVar("T")
R = TypeVar("R")


class Models:
    """What answers new questions. One call of a model runs at a time, so that several threads may share it.

    Parameters
    ----------
    llm : LLM or None
        None if there is no LLM: then there are rewards, but no answers.
    llm_name : str
        The name of the LLM in messages.
    rewarder : Rewarder
    sampling : Sampling
        How trajectories are sampled, as for the calibration.
    calibration : CalibrationQuestions or None
        None if they are not known.
    question_rewards : ndarray of shape (questions, levels), float64, optional
        The calibrated rewards of the bare calibration questions. By default they are computed when they are needed.
    """

    def __init__(
        self,
        llm: LLM | None,
        llm_name: str,
        rewarder: Rewarder,
        sampling: Sampling,
        calibration: CalibrationQuestions | None,
        question_rewards: NDArray[np.float64] | None = None,
    ) -> None:
        self.llm = llm
        self.llm_name = llm_name
        self.rewarder = rewarder
        self.sampling = sampling
        self.calibration = calibration
        self._question_rewards = question_rewards
        self._lock = threading.RLock()

    def generate(self, requests: Sequence[GenerationRequest]) -> list[list[Completion]]:
        """Sample completions, in the steps of the LLM's own splitting.

        Raises
        ------
        PrmcalError
            If there is no LLM, or it fails.
        """
        llm = self._asked()
        with self._lock, plugin_guard("llm", self.llm_name, "generate"):
            found = llm.generate_batch(requests, self.sampling)
            require_length(found, len(requests), "lists of completions")
            for request, drawn in zip(requests, found, strict=True):
                check_completions(drawn, request.n)
            return [
                in_steps(llm, request.prefix, drawn) for request, drawn in zip(requests, found, strict=True)
            ]

    def next_steps(self, requests: Sequence[GenerationRequest]) -> list[list[Completion]]:
        """Continue prefixes by one step each, as a search does. It raises the same errors."""
        llm = self._asked()
        with self._lock, plugin_guard("llm", self.llm_name, "generate"):
            return next_steps(llm, requests, self.sampling)

    def _asked(self) -> LLM:
        if self.llm is None:
            raise PrmcalError("This calibrated PRM was loaded without an LLM, so it cannot answer questions.")
        return self.llm

    def scores(self, items: Sequence[Item]) -> list[PrefixScores]:
        """Return the PRM's own scores; see :meth:`Rewarder.scores`."""
        with self._lock:
            return self.rewarder.scores(items)

    def rewards(self, items: Sequence[Item]) -> list[Rewarded]:
        """Return uncalibrated and calibrated rewards; see :meth:`Rewarder.rewards`."""
        with self._lock:
            return self.rewarder.rewards(items)

    def alone(self, call: Callable[[], T]) -> T:
        """Call something that uses both models, while nothing else does."""
        with self._lock:
            return call()

    @cached_property
    def chances(self) -> AnswerChances | None:
        """The law by which answers are judged; None if the calibration questions are not known."""
        if self.calibration is None:
            return None
        return AnswerChances(self.calibration.pool(("scores",), None, (), None))

    @cached_property
    def question_rewards(self) -> NDArray[np.float64] | None:
        """The calibrated rewards of the bare calibration questions, of shape (questions, levels).

        None if their texts are not known.
        """
        if self._question_rewards is not None:
            return self._question_rewards
        if self.calibration is None or not self.calibration.texts:
            return None
        found = self.rewards([(text, ()) for text in self.calibration.texts])
        return np.stack([each.quantiles[0] for each in found])

    def close(self) -> None:
        """Unload the models."""
        with self._lock:
            self.rewarder.prm.close()
            if self.llm is not None:
                self.llm.close()


def each_or_error(call: Callable[[list[T]], list[R]], items: Sequence[T]) -> list[R | PrmcalError]:
    """Call something for many items at once. If this fails, find the items that it fails for.

    A server that does not answer fails for all items, without another try.
    """
    if not items:
        return []
    try:
        return list(call(list(items)))
    except PrmcalError as error:
        if len(items) == 1 or isinstance(error, NoAnswerError):
            return [error] * len(items)
    middle = len(items) // 2
    return each_or_error(call, items[:middle]) + each_or_error(call, items[middle:])
