"""A Beta distribution of the success probability whose parameters are linear in the inputs, fitted to counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["BetaLaw", "beta_quantiles", "fit_beta_law", "negative_log_likelihood"]

_LEAST = 1e-6
"""Added to both parameters of the Beta distribution, as in the code of BetaPRM."""

_PULL = 1e-6
_MOST_ROUNDS = 5
_SETTLED = 1e-3


@dataclass(frozen=True)
class BetaLaw:
    """p ~ Beta(mean * size, (1 - mean) * size), with mean = sigmoid(x . w + b) and size = softplus(x . v + c) + least.

    Attributes
    ----------
    weights : ndarray of shape (2, inputs), float64
        w and v.
    offsets : ndarray of shape (2,), float64
        b and c.
    least_size : float
        The smallest possible size.
    """

    weights: NDArray[np.float64]
    offsets: NDArray[np.float64]
    least_size: float

    def mean_and_size(self, inputs: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean and size, each of shape (rows,), for inputs of shape (rows, inputs)."""
        from scipy.special import expit

        log_odds, before = (_product(inputs, w) + b for w, b in zip(self.weights, self.offsets, strict=True))
        mean: NDArray[np.float64] = expit(log_odds)
        return mean, np.logaddexp(0, before) + self.least_size


def negative_log_likelihood(
    mean: NDArray[np.float64], size: NDArray[np.float64], k: NDArray[np.int64], n: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the negative Beta-Binomial log-likelihood of k of n in nats, of shape (rows,), without ln C(n, k)."""
    from scipy.special import betaln

    a, b = mean * size + _LEAST, (1 - mean) * size + _LEAST
    loss: NDArray[np.float64] = betaln(a, b) - betaln(k + a, n - k + b)
    return loss


def fit_beta_law(
    inputs: NDArray[np.float64],
    k: NDArray[np.int64],
    n: NDArray[np.int64],
    start: BetaLaw,
    decay: float,
    lam: float,
    near: BetaLaw | None = None,
) -> BetaLaw:
    r"""Minimise the mean negative log-likelihood of k of n, with two penalties.

    The first penalty is `decay` times the squared weights of all inputs but the first, which is the logit. The second
    is the one of BetaPRM: `lam` times the mean of \|mean - k/n\| size, in which the mean counts as a constant. So the
    residuals are held, the loss is minimised by L-BFGS, and both are repeated until the residuals settle.

    Parameters
    ----------
    inputs : ndarray of shape (rows, inputs), float64
    k, n : ndarray of shape (rows,), int64
    start : BetaLaw
        Where the search begins. Offsets and the weights of the logit are pulled towards it by 1e-6 of the squared
        distance, which decides where the likelihood has no maximum.
    decay, lam : float
        From 0.
    near : BetaLaw, optional
        Where the search begins instead: the solution of a similar problem.
    """
    from scipy.optimize import minimize

    width = inputs.shape[1]
    law = near or start
    residuals = np.zeros(len(inputs))
    pulled = _flat(start)
    strength = np.full((2, width + 1), decay)
    strength[:, [0, -1]] = _PULL
    for _ in range(_MOST_ROUNDS if lam else 1):
        if lam:
            residuals = np.abs(law.mean_and_size(inputs)[0] - k / n)
        found = minimize(
            _loss,
            _flat(law),
            (inputs, k, n, lam * residuals, pulled, strength.ravel(), start.least_size),
            method="L-BFGS-B",
            jac=True,
            options={"maxiter": 300},
        )
        change = np.abs(found.x - _flat(law)).max()
        law = _law(found.x, width, start.least_size)
        if change < _SETTLED:
            break
    return law


def beta_quantiles(
    mean: NDArray[np.float64], size: NDArray[np.float64], levels: Sequence[float]
) -> NDArray[np.float64]:
    """Return the quantiles of Beta distributions at ascending levels, in [0, 1], of shape (rows, levels)."""
    from scipy.special import betaincinv

    a, b = mean * size + _LEAST, (1 - mean) * size + _LEAST
    found = np.stack([betaincinv(a, b, level) for level in levels], axis=1)
    # Where nearly all of the mass is at 0 and 1, the inverse can fail. The law is then that of one coin.
    coin = (np.asarray(levels)[None, :] > 1 - mean[:, None]).astype(np.float64)
    found = np.clip(np.where(np.isfinite(found), found, coin), 0.0, 1.0)
    # Quantiles of about 1e-308 can be computed as 0 at the next level.
    return np.asarray(np.maximum.accumulate(found, axis=1), dtype=np.float64)


def _product(inputs: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """A product of matrix and vector that is the same for any number of threads and of rows."""
    result: NDArray[np.float64] = np.einsum("ri,i->r", inputs, weights)
    return result


def _flat(law: BetaLaw) -> NDArray[np.float64]:
    both: NDArray[np.float64] = np.concatenate([law.weights, law.offsets[:, None]], axis=1)
    return both.ravel()


def _law(flat: NDArray[np.float64], width: int, least_size: float) -> BetaLaw:
    both = flat.reshape(2, width + 1)
    return BetaLaw(both[:, :-1].copy(), both[:, -1].copy(), least_size)


def _loss(
    flat: NDArray[np.float64],
    inputs: NDArray[np.float64],
    k: NDArray[np.int64],
    n: NDArray[np.int64],
    cost_of_size: NDArray[np.float64],
    pulled: NDArray[np.float64],
    strength: NDArray[np.float64],
    least_size: float,
) -> tuple[float, NDArray[np.float64]]:
    """The loss with its penalties, and its gradient by the flat weights."""
    from scipy.special import digamma, expit

    law = _law(flat, inputs.shape[1], least_size)
    mean, size = law.mean_and_size(inputs)
    a, b = mean * size + _LEAST, (1 - mean) * size + _LEAST
    rows = len(inputs)
    loss = float(np.sum(negative_log_likelihood(mean, size, k, n) + cost_of_size * size)) / rows
    both = digamma(n + a + b) - digamma(a + b)
    by_a, by_b = both - digamma(k + a) + digamma(a), both - digamma(n - k + b) + digamma(b)
    by_log_odds = size * (by_a - by_b) * mean * (1 - mean)
    before = _product(inputs, law.weights[1]) + law.offsets[1]
    by_before = (mean * by_a + (1 - mean) * by_b + cost_of_size) * expit(before)
    gradient = [
        np.append(np.einsum("r,ri->i", each, inputs), each.sum()) / rows for each in (by_log_odds, by_before)
    ]
    # Weights of the states are pulled towards 0, where they start.
    distance = flat - pulled
    return loss + float(np.sum(strength * distance**2)), np.concatenate(gradient) + 2 * strength * distance
