"""A score of predicted quantiles of p, by the law of k that they imply."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.metric import Metric
from prmcal.registry.contracts.rows import PrefixRows
from prmcal.registry.metrics.binomial import every_outcome

__all__ = ["LawScore", "implied_law"]

_ELEMENTS = 100_000
"""Probabilities that are computed at once. They fit into a processor's cache."""


class LawScore(Metric):
    """The ranked probability score of the law of k that the predicted quantiles of p imply, in [0, 1].

    The quantile function of p is taken to be linear between (0, 0), the points (beta, r^(beta)) of all levels, and
    (1, 1). A point estimate is the law p = r. Of n follow-ups with such a p, k succeed with the probabilities of the
    binomial distribution, mixed over p. With the distribution function F of this law, the score of a prefix is

        (1/n) sum_{j < n} (F(j) - [k <= j])^2,

    which is proper: no other law of k has a lower score on average than the true one.

    The pinball loss of r^(beta) against k/n does not score quantiles of p. It is lowest at the quantiles of k/n, which
    lie farther apart because of the noise of the follow-ups, so a perfect prediction of p loses against them.

    Notes
    -----
    Sources: Epstein (1969), "A scoring system for probability forecasts of ranked categories", Journal of Applied
    Meteorology 8, for the score; Gneiting and Raftery (2007), "Strictly proper scoring rules, prediction, and
    estimation", section 4.2, for its properness.
    """

    citation = "Epstein (1969), Journal of Applied Meteorology 8"
    title, better = "Law score", "lower"
    description = (
        "Ranked probability score of the number of successes that the quantiles of all levels predict. It judges the "
        "whole predicted law of the success probability."
    )

    def measure(self, rows: PrefixRows) -> NDArray[np.float64]:
        """Return the score of each row."""
        scores = np.empty(len(rows.reward))
        for follow_ups in np.unique(rows.follow_ups):
            n = int(follow_ups)
            own = np.flatnonzero(rows.follow_ups == n)
            chunk = max(1, _ELEMENTS // ((len(rows.levels) + 1) * (n + 1) * _nodes(n)))
            for first in range(0, len(own), chunk):
                places = own[first : first + chunk]
                law = np.cumsum(implied_law(rows.quantiles[places], rows.levels, n), axis=1)[:, :n]
                seen = rows.successes[places][:, None] <= np.arange(n)
                scores[places] = ((law - seen) ** 2).mean(axis=1)
        return scores


def implied_law(
    quantiles: NDArray[np.float64], levels: tuple[float, ...], follow_ups: int
) -> NDArray[np.float64]:
    """Return the probabilities of k = 0, ..., n successes that quantiles of p imply.

    Parameters
    ----------
    quantiles : ndarray of shape (rows, levels), float64
        Not decreasing along the levels, in [0, 1].
    levels : tuple of float
        ``(0.5,)`` is a point estimate: p is the quantile with certainty.
    follow_ups : int
        n, at least 1.

    Returns
    -------
    ndarray of shape (rows, n + 1), float64
    """
    if levels == (0.5,):
        return every_outcome(follow_ups, quantiles[:, 0]).T
    rows = len(quantiles)
    ends = np.concatenate([np.zeros((rows, 1)), quantiles, np.ones((rows, 1))], axis=1)
    shares = np.diff(np.array([0.0, *levels, 1.0]))
    # Within a part, p is uniform. Probabilities are polynomials of degree n in p, for which these nodes are exact.
    nodes, weights = np.polynomial.legendre.leggauss(_nodes(follow_ups))
    p = ends[:, :-1, None] + np.diff(ends, axis=1)[:, :, None] * ((nodes + 1) / 2)
    law: NDArray[np.float64] = np.einsum(
        "krp,p->rk", every_outcome(follow_ups, p.reshape(rows, -1)), np.outer(shares, weights / 2).ravel()
    )
    return law


def _nodes(follow_ups: int) -> int:
    """Return how many nodes integrate a polynomial of degree n exactly."""
    return follow_ups // 2 + 1
