"""What is known of the success probability of a question before its first trajectory is drawn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaln

__all__ = ["GRID", "SuccessPrior", "beta_of"]

_CELLS = 24
_EDGES: NDArray[np.float64] = np.sin(np.linspace(0, np.pi / 2, _CELLS + 1)) ** 2
GRID: NDArray[np.float64] = np.sin((np.arange(_CELLS) + 0.5) * np.pi / (2 * _CELLS)) ** 2
"""Success probabilities, each for a cell of [0, 1]. Cells are smaller near 0 and 1."""

_SHARES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
_CONCENTRATIONS = np.geomspace(0.5, 200, 24)
_SIZES = np.geomspace(0.05, 100, 40)
_SMALLEST = 1e-3


@dataclass(frozen=True, eq=False)
class SuccessPrior:
    """The law of the success probability of a question, given the calibrated rewards of the bare question.

    It is a mixture of two laws. The first follows the rewards: a law with their quantiles, which has the same density
    everywhere between two neighbouring levels; if there is one level only, a Beta law around it. The second is the
    Beta law of all calibration questions, which protects from rewards that are wrong.

    Attributes
    ----------
    overall : ndarray of shape (cells,), float64
        The probabilities of the cells for a question of which nothing is known.
    share : float
        The weight of `overall` in the mixture, in (0, 1].
    concentration : float
        For one level: the Beta law around the reward r has the parameters concentration x r and
        concentration x (1 - r).
    """

    overall: NDArray[np.float64]
    share: float
    concentration: float

    @classmethod
    def fit(
        cls, rewards: NDArray[np.float64], levels: tuple[float, ...], correct: NDArray[np.bool_]
    ) -> SuccessPrior:
        """Choose the share, and for one level the concentration, that make the number of right trajectories likeliest.

        The shares are .02, .05, .1, .2, .4, .7 and 1. The calibrator was fitted to the same questions, so the rewards
        look better than they are, and the share is at least .02.

        Parameters
        ----------
        rewards : ndarray of shape (questions, levels)
        levels : tuple of float
        correct : ndarray of shape (questions, M), bool
        """
        right, size = correct.sum(axis=1), correct.shape[1]
        likelihood = GRID ** right[:, None] * (1 - GRID) ** (size - right)[:, None]
        overall = _beta_cells(*(np.array([each]) for each in beta_of(correct)))[0]
        read = np.isfinite(rewards).all(axis=1)
        best, found = -np.inf, cls(overall, 1.0, 1.0)
        for concentration in _CONCENTRATIONS if len(levels) == 1 else (1.0,):
            law = _law(rewards[read], levels, concentration)
            own = np.einsum("qc,qc->q", likelihood[read], law)
            other = np.einsum("qc,c->q", likelihood[read], overall)
            for share in _SHARES:
                value = float(np.log((1 - share) * own + share * other).sum())
                if value > best:
                    best, found = value, cls(overall, share, float(concentration))
        return found

    def cells(self, rewards: NDArray[np.float64], levels: tuple[float, ...]) -> NDArray[np.float64]:
        """Return the probabilities of the cells for one question.

        Parameters
        ----------
        rewards : ndarray of shape (levels,)
            The rewards of the bare question. With a NaN (too long for the PRM), nothing is known of the question.
        levels : tuple of float

        Returns
        -------
        ndarray of shape (cells,), float64
            With the sum 1.
        """
        if not np.isfinite(rewards).all():
            return self.overall
        law = _law(rewards[None], levels, self.concentration)[0]
        mixed: NDArray[np.float64] = (1 - self.share) * law + self.share * self.overall
        return mixed


def beta_of(correct: NDArray[np.bool_]) -> tuple[float, float]:
    """Return the Beta law of the success probability that makes the numbers of right trajectories likeliest.

    Its mean is the share of right trajectories. Its size a + b is one of 40 values from .05 to 100.

    Parameters
    ----------
    correct : ndarray of shape (questions, M), bool

    Returns
    -------
    a, b : float
        The parameters of the law, above 0.
    """
    right, size = correct.sum(axis=1), correct.shape[1]
    base = (right.sum() + 1) / (correct.size + 2)
    a, b = base * _SIZES[:, None], (1 - base) * _SIZES[:, None]
    likelihood = (betaln(a + right, b + size - right) - betaln(a, b)).sum(axis=1)
    best = float(_SIZES[np.argmax(likelihood)])
    return float(base) * best, float(1 - base) * best


def _law(
    rewards: NDArray[np.float64], levels: tuple[float, ...], concentration: float
) -> NDArray[np.float64]:
    """The probabilities of the cells that follow from rewards of shape (questions, levels)."""
    if len(levels) == 1:
        middle = np.clip(rewards[:, 0], _SMALLEST, 1 - _SMALLEST)
        return _beta_cells(concentration * middle, concentration * (1 - middle))
    shares = np.array([0.0, *levels, 1.0])
    # Equal quantiles are a step of the distribution function.
    apart = 1e-9 * np.arange(len(shares))
    below = [
        np.interp(_EDGES, np.maximum.accumulate(np.array([0.0, *row, 1.0])) + apart, shares)
        for row in rewards
    ]
    cumulative = np.array(below).reshape(-1, _CELLS + 1)
    cumulative[:, 0], cumulative[:, -1] = 0.0, 1.0
    return np.diff(cumulative, axis=1)


def _beta_cells(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """The probabilities of the cells under Beta laws, of shape (laws, cells)."""
    return np.diff(np.asarray(betainc(a[:, None], b[:, None], _EDGES), dtype=np.float64), axis=1)
