"""Sums of absolute values of noisy terms, such as calibration errors: an estimate without the noise, and its interval.

With noise of standard deviation s, a term mu is measured as e = mu + noise. The expectation of |e| is above |mu|: by
.80 s if mu is 0, and by less the larger mu is. No function of e and s has exactly the expectation |mu|. Three estimates
of the term, for normal noise:

- |e| itself, with a bias of at most .80 s;
- |e| minus the increase that noise would add to e, 2 |e| - E|e + noise|, with a bias of at most .47 s, at mu = 0
  (Kumar, Liang and Ma, 2019, "Verified Uncertainty Calibration", section 5 and its code for the l1 error; it is also
  the bootstrap's correction of the bias);
- the size of the term from one half of the data and its sign from the other half, averaged over all halvings. It has
  no bias at mu = 0 and otherwise a bias of at most -.48 s.

:func:`without_noise` is the mean of the last two, |e| - 2 s phi(e / s), where phi is the normal density. Its bias is
.23 s at mu = 0, and at most .28 s in size. For squared errors an estimate without bias exists (Broecker, 2012; Ferro
and Fricker, 2012), but the published calibration errors are sums of absolute values.
``python -m benchmarks.analysis.calibration_errors`` measures the bias and how often the intervals contain the truth.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from prmcal.db.statistics.intervals import percentile_interval

__all__ = ["absolute_sum_interval", "without_noise"]

_TAIL = 0.025
_NORMAL_TAIL = 1.959964  # in standard deviations
_HALVINGS = 60


def without_noise(terms: NDArray[np.float64], noise: NDArray[np.float64]) -> NDArray[np.float64]:
    """Estimate sums of absolute values without the increase by noise.

    Parameters
    ----------
    terms : ndarray of shape (sums, terms)
        The measured terms e.
    noise : ndarray of shape (terms,)
        Their standard errors s. A term without noise is taken as it is.

    Returns
    -------
    ndarray of shape (sums,)
        The sums of |e| - 2 s phi(e / s). They can be below 0.
    """
    relative = terms / np.where(noise > 0, noise, 1.0)
    density = np.exp(-(relative**2) / 2) / np.sqrt(2 * np.pi)
    sums: NDArray[np.float64] = (np.abs(terms) - 2 * noise * density).sum(axis=1)
    return sums


def absolute_sum_interval(
    terms: NDArray[np.float64], drawn: NDArray[np.float64], questions: int
) -> tuple[float, float]:
    """Return the ends of the 95% interval of the sum of the absolute values of the terms without noise.

    The upper end is that of the percentiles of the resampled sums. Noise only increases the sums, so it is too large
    rather than too small. For the same reason, the lower end cannot be a percentile: it is found with a test. It is the
    smallest sum to which the noise adds enough to reach the measured sum in 2.5% of the resamples. The terms of smaller
    sums are the measured ones, moved towards 0 in proportion to their variances until they are 0 (the closest terms
    with this sum, by least squares).

    Parameters
    ----------
    terms : ndarray of shape (terms,)
        The measured terms.
    drawn : ndarray of shape (replicates, terms)
        The terms of the resamples.
    questions : int
        Number of resampled questions, at least 2.
    """
    size, high = np.abs(terms), percentile_interval(np.abs(drawn).sum(axis=1), questions)[1]
    # Few questions: the resamples vary too little, and their tails are normal instead of Student's.
    widening = np.sqrt(questions / (questions - 1))
    variance = (drawn.std(axis=0) * widening) ** 2
    widening *= -stdtrit(questions - 1, _TAIL) / _NORMAL_TAIL
    noise = (drawn.mean(axis=0) - drawn) * widening

    def moved(step: float) -> NDArray[np.float64]:
        return np.asarray(np.sign(terms) * np.maximum(size - step * variance, 0))

    needed = size.sum() * (1 - 1e-12)
    # Resamples are in the last axis, along which processors work fast.
    still_open, reaching = noise.T.copy(), 0

    def within(step: float, closer: float) -> bool:
        """Return whether enough resamples reach the measured sum, and settle those that do so at all closer steps."""
        nonlocal still_open, reaching
        beyond = np.abs(moved(step)[:, None] + still_open).sum(axis=0) - needed
        found = bool((reaching + np.count_nonzero(beyond >= 0)) / len(noise) >= _TAIL)
        # A sum changes by at most the sum of the changes of its terms.
        change = closer * variance.sum() * (1 + 1e-9) + 1e-9 * needed
        reaching += int(np.count_nonzero(beyond > change))
        still_open = still_open.compress(np.abs(beyond) <= change, axis=1)
        return found

    least, most = 0.0, float(np.max(size / np.where(variance > 0, variance, np.inf), initial=0.0))
    if within(most, most):
        return float(np.abs(moved(most)).sum()), high
    for _ in range(_HALVINGS):
        middle = (least + most) / 2
        least, most = (middle, most) if within(middle, (most - least) / 2) else (least, middle)
    return float(np.abs(moved(least)).sum()), high
