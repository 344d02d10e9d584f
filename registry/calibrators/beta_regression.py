"""Beta distributions of the success probability. Mean and size are functions of linear combinations of some inputs."""

from collections.abc import Sequence

import numpy as np
import scipy  # its parts are imported when they are used

from prmcal.arrays import Floats, Ints

_PULL = 1e-6
_MOST_ROUNDS = 5
_SETTLED = 1e-3
_FIRST_SIZE = 4.0


def initial_weights(inputs: int) -> Floats:
    """Return weights of shape (2, inputs + 1). With them, the mean is the sigmoid of the first input, the logit."""
    weights = np.zeros((2, inputs + 1))
    weights[0, 0], weights[1, -1] = 1.0, np.log(np.expm1(_FIRST_SIZE))
    return weights


def mean_and_size(weights: Floats, least_size: float, inputs: Floats) -> tuple[Floats, Floats]:
    """Return mean and size of Beta distributions, each of shape (rows,), for inputs of shape (rows, inputs).

    `weights`, of shape (2, inputs + 1), has w and b of the mean sigmoid(x . w + b), and v and c of the size
    softplus(x . v + c) + `least_size`. Then p ~ Beta(mean * size, (1 - mean) * size).
    """
    # A product of matrix and vector that is the same for any number of threads and of rows.
    log_odds, size_inputs = (np.einsum("ri,i->r", inputs, row[:-1]) + row[-1] for row in weights)
    return scipy.special.expit(log_odds), np.logaddexp(0, size_inputs) + least_size


def beta_parameters(mean: Floats, size: Floats | float) -> tuple[Floats, Floats]:
    """Return both parameters of Beta distributions, with 1e-6 added as in the code of BetaPRM."""
    return mean * size + 1e-6, (1 - mean) * size + 1e-6


def negative_log_likelihood(mean: Floats, size: Floats, k: Ints, n: Ints) -> Floats:
    """Return the negative Beta-Binomial log-likelihood of k of n in nats, of shape (rows,), without ln C(n, k)."""
    a, b = beta_parameters(mean, size)
    return np.asarray(scipy.special.betaln(a, b) - scipy.special.betaln(k + a, n - k + b), dtype=np.float64)


def fit_beta_weights(
    inputs: Floats, k: Ints, n: Ints, centre: Floats, least_size: float, decay: float, lam: float, start: Floats
) -> Floats:
    r"""Minimise the mean negative log-likelihood of k of n, with two penalties, and return the weights.

    The first penalty is `decay` times the squared weights of all inputs but the first, which is the logit. The second
    is BetaPRM's: `lam` times the mean of \|mean - k/n\| size, in which the mean counts as a constant. So the residuals
    are held, the loss is minimised by L-BFGS, and both are repeated until the residuals settle.

    Inputs have the shape (rows, inputs), k and n (rows,), and weights (2, inputs + 1). Offsets and the weights of the
    logit are pulled towards `centre` by 1e-6 of the squared distance, which decides if the likelihood has no maximum.
    The search begins at `start`, such as the solution of a similar problem. The three numbers are at least 0.
    """
    weights, residuals = start, np.zeros(len(inputs))
    strength = np.full(centre.shape, decay)
    strength[:, [0, -1]] = _PULL
    for _ in range(_MOST_ROUNDS if lam else 1):
        if lam:
            residuals = np.abs(mean_and_size(weights, least_size, inputs)[0] - k / n)
        solution = scipy.optimize.minimize(
            _loss,
            weights.ravel(),
            (inputs, k, n, lam * residuals, centre.ravel(), strength.ravel(), least_size),
            method="L-BFGS-B",
            jac=True,
            options={"maxiter": 300},
        )
        change = np.abs(solution.x - weights.ravel()).max()
        weights = solution.x.reshape(centre.shape)
        if change < _SETTLED:
            break
    return weights


def beta_quantiles(mean: Floats, size: Floats, levels: Sequence[float]) -> Floats:
    """Return the quantiles of Beta distributions at ascending levels, in [0, 1], of shape (rows, levels)."""
    a, b = beta_parameters(mean, size)
    quantiles = np.stack([scipy.special.betaincinv(a, b, level) for level in levels], axis=1)
    # Where nearly all of the mass is at 0 and 1, the inverse can fail. The distribution is then that of one coin.
    coin = (np.asarray(levels)[None, :] > 1 - mean[:, None]).astype(np.float64)
    quantiles = np.clip(np.where(np.isfinite(quantiles), quantiles, coin), 0.0, 1.0)
    # Quantiles of about 1e-308 can be computed as 0 at the next level.
    return np.asarray(np.maximum.accumulate(quantiles, axis=1), dtype=np.float64)


def _loss(
    flat: Floats, inputs: Floats, k: Ints, n: Ints, size_cost: Floats, target: Floats, strength: Floats, least: float
) -> tuple[float, Floats]:
    """The loss with its penalties, and its gradient by the flat weights. `least` is the least size."""
    weights = flat.reshape(2, -1)
    mean, size = mean_and_size(weights, least, inputs)
    a, b = beta_parameters(mean, size)
    rows = len(inputs)
    loss = float(np.sum(negative_log_likelihood(mean, size, k, n) + size_cost * size)) / rows
    shared = scipy.special.digamma(n + a + b) - scipy.special.digamma(a + b)
    by_a, by_b = (
        shared - scipy.special.digamma(k + a) + scipy.special.digamma(a),
        shared - scipy.special.digamma(n - k + b) + scipy.special.digamma(b),
    )
    by_log_odds = size * (by_a - by_b) * mean * (1 - mean)
    size_inputs = np.einsum("ri,i->r", inputs, weights[1, :-1]) + weights[1, -1]
    by_size_inputs = (mean * by_a + (1 - mean) * by_b + size_cost) * scipy.special.expit(size_inputs)
    slopes = by_log_odds, by_size_inputs
    gradient = [np.append(np.einsum("r,ri->i", slope, inputs), slope.sum()) / rows for slope in slopes]
    # Weights of the states are pulled towards 0, where they start.
    distance = flat - target
    return loss + float(np.sum(strength * distance**2)), np.concatenate(gradient) + 2 * strength * distance
