"""The probability that an answer is right, given everything that was drawn, and how well it is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Setting
from prmcal.registry.strategies.sequential.posterior_vote import PosteriorVote

__all__ = ["AnswerChances", "Chance"]

_REPLICATES = 100
_SEED = 0


@dataclass(frozen=True, slots=True)
class Chance:
    """The probability that an answer is right, with its 95% interval. All are in [0, 1]."""

    probability: float
    low: float
    high: float


class AnswerChances:
    """The law by which answers are judged, fitted to the calibration questions.

    It is that of the strategy `posterior vote`: the scores of all trajectories and their votes give the probability
    that each answer is right. It holds for trajectories that were drawn independently. That a strategy stops when it is
    sure does no harm: given the trajectories, the posterior does not depend on when one stops.

    The interval says how well the law is known from so many calibration questions: the law is fitted again to
    resamples of the questions, and the middle 95% of the probabilities are kept. It does not say what happens to
    questions of another kind.

    Parameters
    ----------
    calibration : Pool
        The trajectories of the calibration questions with their scores.
    """

    def __init__(self, calibration: Pool) -> None:
        self._vote = PosteriorVote()
        self._vote.tune(calibration, Setting(calibration.size))
        random = np.random.default_rng(_SEED)
        self._others = []
        for _ in range(_REPLICATES):
            drawn = random.integers(0, calibration.questions, calibration.questions)
            again = PosteriorVote()
            again.fit_laws(calibration.drawn(drawn, slice(None)))
            again.agreement_ = self._vote.agreement_
            self._others.append(again)

    def of(self, scores: NDArray[np.float64], answers: NDArray[np.int64], answer: int) -> Chance:
        """Return the probability that an answer is right.

        Parameters
        ----------
        scores : ndarray of shape (drawn,), float64
            Log-odds of the whole trajectories; NaN if one is too long for the PRM.
        answers : ndarray of shape (drawn,), int64
            Their answers as numbers from 0; -1 for none.
        answer : int
            One of them, not -1.
        """
        own = float(self._vote.chances(scores, answers)[answer])
        others = [float(each.chances(scores, answers)[answer]) for each in self._others]
        low, high = np.quantile(others, [0.025, 0.975])
        return Chance(own, min(float(low), own), max(float(high), own))
