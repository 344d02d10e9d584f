"""The exact expected accuracy of best-of-n and pass@n, for a pool of M graded samples per question.

n samples are drawn from the pool without replacement, and the one with the best score is kept. It has rank j (0 is the
best of the pool) with probability C(M-1-j, n-1) / C(M, n), so no random numbers are needed. Samples with equal scores
are equally likely to be kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prmcal.remembered import remembered

__all__ = ["best_of_each", "best_of_n", "pass_at_1", "pass_at_each", "pass_at_n", "rank_chances", "ranked"]


def best_of_n(
    scores: NDArray[np.floating[Any]], correct: ArrayLike, counts: ArrayLike
) -> NDArray[np.float64]:
    """Compute the expected accuracy of the best-scored of n samples.

    Parameters
    ----------
    scores : ndarray of shape (questions, M)
        Rewards or logits. Only their order matters. NaN (too long for the PRM) ranks last.
    correct : array-like of shape (questions, M), bool
        Whether each sample's final answer is right.
    counts : array-like of int, shape (N,)
        The values of n, each in [1, M].

    Returns
    -------
    ndarray of shape (questions, N), float64
        In [0, 1].

    Raises
    ------
    ValueError
        If the shapes differ, a pool is empty or an n is outside [1, M].
    """
    graded = _graded_pool(correct)
    if scores.shape != graded.shape:
        raise ValueError(f"Scores {scores.shape} and correctness {graded.shape} must have the same shape.")
    chances = rank_chances(graded.shape[1], counts)
    return _expected(ranked(scores, graded)[1], chances)


def pass_at_n(correct: ArrayLike, counts: ArrayLike) -> NDArray[np.float64]:
    """Compute the probability that at least one of n samples is right, without bias.

    With c right samples in the pool, it is 1 - C(M - c, n) / C(M, n). This is best-of-n with a perfect PRM. Parameters,
    shapes and errors are those of :func:`best_of_n`.
    """
    graded = _graded_pool(correct)
    right_first = np.flip(np.sort(graded, axis=1), axis=1)
    return _expected(right_first, rank_chances(graded.shape[1], counts))


@remembered
def best_of_each(
    scores: NDArray[np.floating[Any]], correct: NDArray[np.bool_], most: int
) -> NDArray[np.float64]:
    """Return :func:`best_of_n` for every n from 1 to `most`, which all strategies of an LLM and a PRM share."""
    return best_of_n(scores, correct, np.arange(1, most + 1))


@remembered
def pass_at_each(correct: NDArray[np.bool_], most: int) -> NDArray[np.float64]:
    """Return :func:`pass_at_n` for every n from 1 to `most`, which all strategies of an LLM share."""
    return pass_at_n(correct, np.arange(1, most + 1))


def pass_at_1(correct: ArrayLike) -> NDArray[np.float64]:
    """Compute the share of right samples of each question, of shape (questions,)."""
    means: NDArray[np.float64] = _graded_pool(correct).mean(axis=1)
    return means


def _graded_pool(correct: ArrayLike) -> NDArray[np.float64]:
    graded = np.asarray(correct, dtype=np.float64)
    if graded.ndim != 2 or not graded.shape[1]:
        raise ValueError(f"A pool must have shape (questions, M) with M at least 1. Got {graded.shape}.")
    return graded


def rank_chances(size: int, counts: ArrayLike) -> NDArray[np.float64]:
    """Return the probability that each rank of the pool is the best of n samples.

    Parameters
    ----------
    size : int
        M.
    counts : array-like of int, shape (N,)
        The values of n, each in [1, M].

    Returns
    -------
    ndarray of shape (N, M), float64
        Rank 0 is the best of the pool.
    """
    n = np.asarray(counts)
    if n.ndim != 1 or n.dtype.kind not in "iu" or np.any((n < 1) | (n > size)):
        raise ValueError(f"Each n must be an int in [1, {size}], the size of the pool. Got {n.tolist()}.")
    # Each rank's probability is that of the rank above times a ratio. Binomials would overflow.
    above = np.arange(1, size)
    ratios = np.maximum(size - n[:, None] - above + 1, 0) / (size - above)
    return np.cumprod(np.concatenate([n[:, None] / size, ratios], axis=1), axis=1)


def ranked(
    scores: NDArray[np.floating[Any]], correct: ArrayLike
) -> tuple[NDArray[np.floating[Any]], NDArray[np.float64]]:
    """Return scores and correctness in descending order of the scores.

    Parameters
    ----------
    scores : ndarray of shape (questions, M)
        NaN (too long for the PRM) ranks last.
    correct : array-like of shape (questions, M), bool

    Returns
    -------
    scores : ndarray of shape (questions, M)
    correct : ndarray of shape (questions, M), float64
        Samples with equal scores have their mean correctness.
    """
    graded = np.asarray(correct, dtype=np.float64)
    # argsort puts NaN last, also for negated scores.
    order = np.argsort(-scores, axis=1)
    values = np.take_along_axis(scores, order, axis=1)
    unread = np.isnan(values)
    begins = np.ones(values.shape, dtype=np.bool_)
    begins[:, 1:] = (values[:, 1:] != values[:, :-1]) & ~(unread[:, 1:] & unread[:, :-1])
    group = np.cumsum(begins) - 1
    totals = np.bincount(group, weights=np.take_along_axis(graded, order, axis=1).ravel())
    shared: NDArray[np.float64] = (totals / np.bincount(group))[group].reshape(graded.shape)
    return values, shared


def _expected(ranked: NDArray[np.float64], chances: NDArray[np.float64]) -> NDArray[np.float64]:
    # Not `@`: the order of BLAS sums depends on the number of threads, and results must be equal to the bit.
    products: NDArray[np.float64] = np.einsum("qm,nm->qn", ranked, chances)
    return np.minimum(products, 1.0)
