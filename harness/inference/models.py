"""The LLM and the calibrated PRM side by side, and what is known from the calibration questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from prmcal.errors import NoAnswerError, PrmcalError
from prmcal.harness.inference.calibration_questions import AnswerChances, CalibrationQuestions
from prmcal.harness.inference.rewarding import Item, Rewarded, Rewarder
from prmcal.harness.jobs.context import Models
from prmcal.harness.jobs.parameters import PluginReference
from prmcal.registry.contracts.data import Completion, GenerationRequest, Sampling
from prmcal.registry.contracts.models import LLM

T = TypeVar("T")
R = TypeVar("R")


class Answerer:
    """The models that answer new questions, with all that the calibration questions say. Several threads may share it.

    Parameters
    ----------
    models : Models
        It holds the LLM and the PRM.
    reference : PluginReference or None
        The LLM. None if there is none: then there are rewards, but no answers.
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
        models: Models,
        reference: PluginReference | None,
        rewarder: Rewarder,
        sampling: Sampling,
        calibration: CalibrationQuestions | None,
        question_rewards: NDArray[np.float64] | None = None,
    ) -> None:
        self.models = models
        self.rewarder = rewarder
        self.sampling = sampling
        self.calibration = calibration
        self._reference = reference
        self._question_rewards = question_rewards

    @property
    def llm_name(self) -> str:
        """The name of the LLM in messages; empty if there is none."""
        return "" if self._reference is None else self._reference.name

    @property
    def llm(self) -> LLM:
        """The LLM, which is loaded beside the PRM. Raise PrmcalError if there is none."""
        return self.models.llm(self._asked(), beside=True)

    def generate(self, requests: Sequence[GenerationRequest]) -> list[list[Completion]]:
        """Sample completions, in the steps of the LLM's own splitting.

        Raises
        ------
        PrmcalError
            If there is no LLM, or it fails.
        """
        return self.models.completions(self._asked(), requests, self.sampling)

    def next_steps(self, requests: Sequence[GenerationRequest]) -> list[list[Completion]]:
        """Continue prefixes by one step each, as a search does. It raises the same errors."""
        return self.models.next_steps(self._asked(), requests, self.sampling)

    def rewards(self, items: Sequence[Item]) -> list[Rewarded]:
        """Return uncalibrated and calibrated rewards; see :meth:`Rewarder.rewards`."""
        with self.models.lock:
            return self.rewarder.rewards(items)

    def _asked(self) -> PluginReference:
        if self._reference is None:
            raise PrmcalError("This calibrated PRM was loaded without an LLM, so it cannot answer questions.")
        return self._reference

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
