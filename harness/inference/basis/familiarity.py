"""Compare a new question with the calibration questions. If it is unlike them, calibrated rewards may be wrong."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from prmcal.harness.inference.basis.calibration_questions import CalibrationQuestions
from prmcal.harness.inference.basis.results import Familiarity, Place

__all__ = ["familiarity_of"]

_UNKNOWN = Familiarity(
    familiar=True,
    message="The calibration questions are not known here, so nothing is known of how usual this question is.",
)


def familiarity_of(
    known: CalibrationQuestions | None, question: str, bare_score: float, scores: NDArray[np.float64]
) -> Familiarity:
    """Compare a question with the calibration questions.

    It is unfamiliar if one of its values lies outside the range of all calibration questions. A new question of the
    same kind lies outside the range of m calibration questions with probability 2 / (m + 1) for each value.

    Parameters
    ----------
    known : CalibrationQuestions or None
        None if they are not known. Then it counts as familiar, with a message.
    question : str
    bare_score : float
        The PRM's log-odds of the bare question.
    scores : ndarray of shape (drawn,), float64
        The PRM's log-odds of the whole trajectories that were drawn. The first ones are compared, as many as a
        calibration question has.
    """
    if known is None:
        return _UNKNOWN
    places = [
        _place(
            "length of the question in characters", float(len(question)), known.lengths.astype(np.float64)
        ),
        _place("reward of the bare question", float(expit(bare_score)), expit(known.bare_scores)),
    ]
    first = scores[: known.scores.shape[1]]
    if np.isfinite(first).any():
        # A mean over fewer trajectories varies more, so calibration questions have as many.
        size = int(np.isfinite(first).sum())
        usual = np.nanmean(expit(known.scores[:, :size]), axis=1)
        places.append(_place("mean reward of the trajectories", float(np.nanmean(expit(first))), usual))
    unusual = [each for each in places if not each.lowest <= each.value <= each.highest]
    return Familiarity(not unusual, tuple(places), _message(unusual, len(known.lengths)))


def _place(what: str, value: float, known: NDArray[np.float64]) -> Place:
    usual = known[np.isfinite(known)]
    below = float(np.mean(usual < value) + np.mean(usual == value) / 2)
    return Place(what, value, below, float(usual.min()), float(usual.max()))


def _message(unusual: list[Place], questions: int) -> str:
    if not unusual:
        return ""
    parts = [
        f"the {each.what} is {_number(each.value)}, "
        f"{'lower' if each.value < each.lowest else 'higher'} than for all {questions} calibration questions "
        f"({_number(each.lowest)} to {_number(each.highest)})"
        for each in unusual
    ]
    return f"This question is unlike the calibration questions: {'; '.join(parts)}."


def _number(value: float) -> str:
    return f"{value:,.0f}" if value > 1 or value == 0 else f"{value:.3g}"
