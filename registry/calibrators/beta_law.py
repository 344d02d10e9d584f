"""Beta distributions of the success probability whose mean and size are linear in some inputs, before their links."""

from collections.abc import Sequence

import numpy as np
import scipy  # its parts are imported when they are used

from prmcal.arrays import Floats, Ints

_PULL = 1e-6
_MOST_ROUNDS = 5
_SETTLED = 1e-3
_FIRST_SIZE = 4.0


def first_law(inputs: int) -> Floats:
    """Return a law of shape (2, inputs + 1) whose mean is the sigmoid of the first input, the logit. Its size is 4."""
    start = np.zeros((2, inputs + 1))
    start[0, 0], start[1, -1] = 1.0, np.log(np.expm1(_FIRST_SIZE))
    return start


def mean_and_size(law: Floats, least_size: float, inputs: Floats) -> tuple[Floats, Floats]:
    """Return mean and size of Beta distributions, each of shape (rows,), for inputs of shape (rows, inputs).

    `law`, of shape (2, inputs + 1), has w and b of the mean sigmoid(x . w + b), and v and c of the size
    softplus(x . v + c) + `least_size`. Then p ~ Beta(mean * size, (1 - mean) * size).
    """
    # A product of matrix and vector that is the same for any number of threads and of rows.
    log_odds, before = (np.einsum("ri,i->r", inputs, row[:-1]) + row[-1] for row in law)
    return scipy.special.expit(log_odds), np.logaddexp(0, before) + least_size


def beta_parameters(mean: Floats, size: Floats | float) -> tuple[Floats, Floats]:
    """Return both parameters of Beta distributions, with 1e-6 added as in the code of BetaPRM."""
    return mean * size + 1e-6, (1 - mean) * size + 1e-6


def negative_log_likelihood(mean: Floats, size: Floats, k: Ints, n: Ints) -> Floats:
    """Return the negative Beta-Binomial log-likelihood of k of n in nats, of shape (rows,), without ln C(n, k)."""
    a, b = beta_parameters(mean, size)
    return np.asarray(scipy.special.betaln(a, b) - scipy.special.betaln(k + a, n - k + b), dtype=np.float64)


def fit_beta_law(
    inputs: Floats, k: Ints, n: Ints, start: Floats, least_size: float, decay: float, lam: float, near: Floats
) -> Floats:
    r"""Minimise the mean negative log-likelihood of k of n, with two penalties, and return the law.

    The first penalty is `decay` times the squared weights of all inputs but the first, which is the logit. The second
    is the one of BetaPRM: `lam` times the mean of \|mean - k/n\| size, in which the mean counts as a constant. So the
    residuals are held, the loss is minimised by L-BFGS, and both are repeated until the residuals settle.

    Inputs have the shape (rows, inputs), and k and n (rows,). Laws have the shape (2, inputs + 1). Offsets and the
    weights of the logit are pulled towards `start` by 1e-6 of the squared distance, which decides where the likelihood
    has no maximum. The search begins at `near`, such as the solution of a similar problem. The three numbers are at
    least 0.
    """
    law, residuals = near, np.zeros(len(inputs))
    strength = np.full(start.shape, decay)
    strength[:, [0, -1]] = _PULL
    for _ in range(_MOST_ROUNDS if lam else 1):
        if lam:
            residuals = np.abs(mean_and_size(law, least_size, inputs)[0] - k / n)
        found = scipy.optimize.minimize(
            _loss,
            law.ravel(),
            (inputs, k, n, lam * residuals, start.ravel(), strength.ravel(), least_size),
            method="L-BFGS-B",
            jac=True,
            options={"maxiter": 300},
        )
        change = np.abs(found.x - law.ravel()).max()
        law = found.x.reshape(start.shape)
        if change < _SETTLED:
            break
    return law


def beta_quantiles(mean: Floats, size: Floats, levels: Sequence[float]) -> Floats:
    """Return the quantiles of Beta distributions at ascending levels, in [0, 1], of shape (rows, levels)."""
    a, b = beta_parameters(mean, size)
    found = np.stack([scipy.special.betaincinv(a, b, level) for level in levels], axis=1)
    # Where nearly all of the mass is at 0 and 1, the inverse can fail. The law is then that of one coin.
    coin = (np.asarray(levels)[None, :] > 1 - mean[:, None]).astype(np.float64)
    found = np.clip(np.where(np.isfinite(found), found, coin), 0.0, 1.0)
    # Quantiles of about 1e-308 can be computed as 0 at the next level.
    return np.asarray(np.maximum.accumulate(found, axis=1), dtype=np.float64)


def _loss(
    flat: Floats,
    inputs: Floats,
    k: Ints,
    n: Ints,
    cost_of_size: Floats,
    pulled: Floats,
    strength: Floats,
    least_size: float,
) -> tuple[float, Floats]:
    """The loss with its penalties, and its gradient by the flat weights."""
    law = flat.reshape(2, -1)
    mean, size = mean_and_size(law, least_size, inputs)
    a, b = beta_parameters(mean, size)
    rows = len(inputs)
    loss = float(np.sum(negative_log_likelihood(mean, size, k, n) + cost_of_size * size)) / rows
    both = scipy.special.digamma(n + a + b) - scipy.special.digamma(a + b)
    by_a, by_b = (
        both - scipy.special.digamma(k + a) + scipy.special.digamma(a),
        both - scipy.special.digamma(n - k + b) + scipy.special.digamma(b),
    )
    by_log_odds = size * (by_a - by_b) * mean * (1 - mean)
    before = np.einsum("ri,i->r", inputs, law[1, :-1]) + law[1, -1]
    by_before = (mean * by_a + (1 - mean) * by_b + cost_of_size) * scipy.special.expit(before)
    gradient = [np.append(np.einsum("r,ri->i", each, inputs), each.sum()) / rows for each in (by_log_odds, by_before)]
    # Weights of the states are pulled towards 0, where they start.
    distance = flat - pulled
    return loss + float(np.sum(strength * distance**2)), np.concatenate(gradient) + 2 * strength * distance
