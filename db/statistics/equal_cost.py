"""Best-of-n with a number of samples for each question, against a fixed n of the same mean cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

__all__ = [
    "EqualCost",
    "Verdict",
    "against_fixed",
    "at_equal_cost",
    "equal_cost_values",
    "fixed_at",
    "verdict",
]

Verdict = Literal["gain", "no gain", "loss"]
"""What the interval of a difference in accuracy says: above 0, around 0, below 0."""

_TAIL = 0.025


@dataclass(frozen=True, eq=False)
class EqualCost:
    """The difference in accuracy at equal cost, for several points.

    Attributes
    ----------
    samples : ndarray of shape (points,), float64
        Mean number of samples per question, in [1, N].
    fixed : ndarray of shape (points,), float64
        Accuracy of the fixed n of this cost, in [0, 1].
    difference, low, high : ndarray of shape (points,), float64
        Accuracy minus that of the fixed n, and its 95% interval; the interval is NaN for a single question.
    """

    samples: NDArray[np.float64]
    fixed: NDArray[np.float64]
    difference: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def at_equal_cost(accuracy: NDArray[np.float64], samples: NDArray[np.int64]) -> EqualCost:
    """Compare numbers of samples that differ between questions with one fixed n of the same mean.

    The interval is Student's t interval of the mean of :func:`equal_cost_values`.

    Parameters
    ----------
    accuracy : ndarray of shape (questions, N)
        Expected accuracy of best-of-n for n from 1 to N.
    samples : ndarray of shape (questions, points)
        n_q in [1, N].
    """
    questions = len(accuracy)
    values = equal_cost_values(accuracy, samples)
    mean = samples.mean(axis=0)
    fixed = fixed_at(accuracy, mean)[0].mean(axis=0)
    difference = values.mean(axis=0)
    half = np.full(len(mean), np.nan)
    if questions > 1:
        half = -stdtrit(questions - 1, _TAIL) * values.std(axis=0, ddof=1) / np.sqrt(questions)
    return EqualCost(mean, fixed, difference, difference - half, difference + half)


def equal_cost_values(accuracy: NDArray[np.float64], samples: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return one value for each question, whose mean is the difference in accuracy at equal cost.

    Question q has n_q samples and the accuracy a_q(n_q). The fixed n is the mean m of all n_q. Between two whole
    numbers, a_q is interpolated linearly: with probability m - floor(m) the question gets the larger one. The
    difference is D = mean of a_q(n_q) - a_q(m), paired over questions.

    An interval must treat m as what it is, an estimate from the same questions: with other questions, the fixed n would
    be another one too. To first order, D is the mean of the values

        x_q = a_q(n_q) - a_q(m) - s (n_q - m),

    where s is the slope at m of the mean accuracy against n. The last term carries the error of the estimated cost
    into the interval (delta method). Its mean is 0, so it does not change D.

    Parameters
    ----------
    accuracy : ndarray of shape (questions, N)
        Expected accuracy of best-of-n for n from 1 to N.
    samples : ndarray of shape (questions, points)
        n_q in [1, N].

    Returns
    -------
    ndarray of shape (questions, points), float64
    """
    return against_fixed(np.take_along_axis(accuracy, samples - 1, axis=1), samples, accuracy)


def against_fixed(
    own: NDArray[np.float64], samples: NDArray[np.float64] | NDArray[np.int64], accuracy: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the values of :func:`equal_cost_values` for any strategy: its accuracy may be another than best-of-n's.

    Parameters
    ----------
    own, samples : ndarray of shape (questions, points)
        The accuracy of each question, and its expected number of samples in [1, N].
    accuracy : ndarray of shape (questions, N)
        Expected accuracy of best-of-n for n from 1 to N.
    """
    mean = np.asarray(samples.mean(axis=0), dtype=np.float64)
    of_fixed, slope = fixed_at(accuracy, mean)
    values: NDArray[np.float64] = own - of_fixed - slope * (samples - mean)
    return values


def fixed_at(
    accuracy: NDArray[np.float64], samples: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the accuracy of best-of-n with a fixed n that need not be whole, and the slope of its mean.

    Parameters
    ----------
    accuracy : ndarray of shape (questions, N)
    samples : ndarray of shape (points,)
        The fixed n in [1, N].

    Returns
    -------
    accuracy : ndarray of shape (questions, points)
    slope : ndarray of shape (points,)
        Mean accuracy per sample, between the whole numbers below and above.
    """
    most = accuracy.shape[1]
    below = np.clip(np.floor(samples).astype(np.int64), 1, max(most - 1, 1))
    above = np.minimum(below + 1, most)
    left, right = accuracy[:, below - 1], accuracy[:, above - 1]
    return left + (samples - below) * (right - left), (right - left).mean(axis=0)


def verdict(low: float, high: float) -> Verdict:
    """Return what the 95% interval of a difference says."""
    return "gain" if low > 0 else "loss" if high < 0 else "no gain"
