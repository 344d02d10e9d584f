"""Logistic regression on success counts, which the calibrators `platt` and `beta` share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["fit_logistic"]

_PENALTY = 1e-6
_MOST_STEPS = 200
_MOST_HALVINGS = 60
_DECREMENT = 1e-20
"""The fit ends when a Newton step would lower the loss by less than about this."""


def fit_logistic(
    inputs: NDArray[np.float64],
    k: NDArray[np.int64],
    n: NDArray[np.int64],
    centre: NDArray[np.float64],
) -> tuple[NDArray[np.float64], float]:
    r"""Maximise the likelihood of k successes of n with success probability sigmoid(inputs . weights).

    The loss is the negative log-likelihood in nats plus 1e-6 times the squared distance of the weights from `centre`.
    The second term decides where the likelihood has no single maximum, for instance if all follow-ups are right, or if
    there is only one prefix. Otherwise it changes the weights by about 1e-6 over the number of follow-ups.

    Parameters
    ----------
    inputs : ndarray of shape (rows, inputs), float64
        Finite. A constant is an input like every other.
    k, n : ndarray of shape (rows,), int64
        Success counts.
    centre : ndarray of shape (inputs,), float64
        Where the search begins.

    Returns
    -------
    weights : ndarray of shape (inputs,), float64
    loss : float
        Its lowest value.
    """
    from scipy.special import expit

    def loss(weights: NDArray[np.float64]) -> float:
        log_odds = inputs @ weights
        likelihood = k * np.logaddexp(0, -log_odds) + (n - k) * np.logaddexp(0, log_odds)
        return float(likelihood.sum() + _PENALTY * np.sum((weights - centre) ** 2))

    weights, lowest = centre, loss(centre)
    for _ in range(_MOST_STEPS):
        rewards = expit(inputs @ weights)
        gradient = inputs.T @ (n * rewards - k) + 2 * _PENALTY * (weights - centre)
        curvature = (inputs.T * (n * rewards * (1 - rewards))) @ inputs
        step = np.linalg.solve(curvature + 2 * _PENALTY * np.eye(len(weights)), gradient)
        if gradient @ step <= _DECREMENT:
            break
        # The loss is convex, so a short enough step lowers it, up to rounding.
        for halving in range(_MOST_HALVINGS):
            shorter = weights - step * 0.5**halving
            found = loss(shorter)
            if found < lowest:
                break
        else:
            break
        weights, lowest = shorter, found
    return weights, lowest
