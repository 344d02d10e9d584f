"""Conformal lower bounds (Algorithm 1 and Theorem 1 of the paper), around any other calibrator."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.plugins import calibrators

__all__ = ["ConformalBound"]

_WRAPPED = "wrapped"
# Sums of weights are whole numbers but for rounding.
_TOLERANCE = 1e-9


class ConformalBound(Calibrator):
    """Turns another calibrator's reward into a lower bound that holds in a share 1 - level of new questions.

    Some of the questions are held out, and the other calibrator is fitted to the rest. The score E of a held-out
    prefix is its reward less its success rate. Q is the smallest score such that the prefixes of at most that score
    weigh (1 - level)(K + 1), where each of the K held-out questions weighs 1, shared evenly by its prefixes.
    The bound is the reward less Q, in [0, 1]. With one prefix a question this is Algorithm 1 of "Know What You
    Don't Know" (Park et al., 2025, Appendix A): Q is the (1 - level)(1 + 1/K)-th empirical quantile of E.

    Parameters
    ----------
    calibrator : str or dict
        What is wrapped: a registered name, or ``{"plugin": name, "arguments": {...}}``. Not a conformal one.
    level : float, default 0.1
        beta of the bound, in (0, 1).
    share : float, default 0.5
        Share of the questions that are held out, in (0, 1). At least one question is left to fit to.
    seed : int, default 0
        Decides which questions are held out.
    covers : {"success_rate", "success_probability"}, default "success_rate"
        What the bound is promised for; see the notes.

    Attributes
    ----------
    reads : str
        What the wrapped calibrator reads.
    levels : tuple of float
        The wrapped calibrator's, and `level`.
    correction_ : float
        Q. Where too few questions are held out for the level, K < (1 - level) / level, it is 1, and the bound 0:
        that always holds, and is reported while it is fitted.
    held_out_ : int
        K.

    Notes
    -----
    **What holds.** Draw a question as the calibration questions were drawn, one of its prefixes at random, and
    follow-ups of it, as many: with probability at least 1 - level their success rate is at least the bound.
    Prefixes of one question resemble each other, so they are not exchangeable with those of another; questions are,
    each with all its prefixes. Let Q' be Q as it would be with the new question as one of K + 1. It does not depend
    on the order of the questions, so a random prefix of the new one has a score of at most Q' with the same
    probability as one of any other; their mean is at least 1 - level, as Q' was chosen so; and Q, which counts the new
    question's scores as infinite, is at least Q' (Lee, Barber and Willett, 2023). This is an average over calibration
    sets, questions and prefixes. It promises nothing about one step, such as the bare question, nor about other data.

    **Success rate and success probability.** Labels are k of n, and what holds, holds for them. Noise spreads success
    rates, so a bound below most of them is usually below p more often still. Not where p is near 1: the 8
    follow-ups of p = .99 are all right 92 times in 100, and a bound of 1 is right about them and wrong about p. With
    ``covers="success_probability"`` each label is replaced by its lower confidence limit (Clopper and Pearson,
    1934) at level / 2, and Q is taken at level / 2: the bound exceeds the limit, or the limit exceeds p, with
    probability at most level in all, whatever p is. That is cautious where follow-ups are few: 8 right of 8 show p >=
    .69 at most.

    **Theorem 1** then follows: best-of-N_IAS(bound, C) succeeds with probability at least C (1 - level), on average
    over all that is drawn, as long as p > 0: nothing helps a prefix from which nothing right comes. With success
    rates it holds but for their noise, as in the paper.

    **Other levels** keep the wrapped calibrator's rewards. The bound starts from the nearest level's. It is lowered to
    the next higher level's where it exceeds that, and lower levels are lowered to it.
    """

    grouped = True

    def __init__(
        self,
        calibrator: str | dict[str, Any],
        level: float = 0.1,
        share: float = 0.5,
        seed: int = 0,
        covers: Literal["success_rate", "success_probability"] = "success_rate",
    ) -> None:
        self.calibrator = calibrator
        self.level = level
        self.share = share
        self.seed = seed
        self.covers = covers

    @cached_property
    def wrapped(self) -> Calibrator:
        """The other calibrator."""
        given = self._given
        return calibrators.create(given["plugin"], **given.get("arguments", {}))

    @property
    def reads(self) -> Literal["reward", "logit", "hidden", "prm"]:  # type: ignore[override]
        """What the wrapped calibrator reads."""
        return self.wrapped.reads

    @property
    def levels(self) -> tuple[float, ...]:  # type: ignore[override]
        """The wrapped calibrator's levels and the bound's."""
        return tuple(sorted({*self.wrapped.levels, self.level}))

    def check_arguments(self) -> None:
        """Raise ValueError if an argument is out of range, or a PluginError of the wrapped calibrator's."""
        given = self._given
        if not isinstance(given.get("plugin"), str) or given.keys() - {"plugin", "arguments"}:
            raise ValueError(
                "The 'calibrator' parameter must be a name, or a mapping with the keys 'plugin' and 'arguments'. "
                f"Got {self.calibrator!r} instead."
            )
        if issubclass(calibrators.get(given["plugin"]), ConformalBound):
            raise ValueError(
                "It cannot wrap itself. Wrap the calibrator inside, with the level that you want."
            )
        self.wrapped.check_arguments()  # Building it is what refuses arguments that it does not take.
        for name in ("level", "share"):
            value = getattr(self, name)
            if not 0 < value < 1:
                raise ValueError(f"The '{name}' parameter must be a float in (0, 1). Got {value!r} instead.")
        if self.seed < 0:
            raise ValueError(f"The 'seed' parameter must be an int in [0, inf). Got {self.seed!r} instead.")

    def identity(self) -> dict[str, Any]:
        """All that decides the output, the wrapped calibrator's identity included."""
        return {**super().identity(), "wrapped": self.wrapped.identity()}

    def fit(
        self,
        features: Any,
        k: NDArray[np.int64],
        n: NDArray[np.int64],
        questions: NDArray[np.int64] | None = None,
    ) -> Self:
        """Fit the wrapped calibrator to some questions, and correct it by the others.

        Parameters
        ----------
        features, k, n
            As for every calibrator.
        questions : ndarray of shape (rows,), int64, optional
            Equal numbers mark prefixes of one question. None: every prefix is one of another question.
        """
        self.check_calibration_data(features, k, n)
        groups = np.arange(len(features)) if questions is None else np.asarray(questions)
        if groups.shape != (len(features),):
            raise ValueError(
                f"'questions' must have one entry per prefix: {len(features)}. Got the shape {groups.shape}."
            )
        held_out = self._held_out(groups)
        fitted, held = np.flatnonzero(~held_out), np.flatnonzero(held_out)
        self.wrapped.support = self.support
        grouping: dict[str, Any] = {"questions": groups[fitted]} if self.wrapped.grouped else {}
        self.wrapped.fit(features[fitted], k[fitted], n[fitted], **grouping)
        self.held_out_ = len(np.unique(groups[held]))
        self.correction_ = 1.0
        if len(held):
            scores = self._nearest(self.wrapped.predict(features[held])) - self._labels(k[held], n[held])
            self.correction_ = _corrected(scores, groups[held], self._score_level)
        if not _enough(self.held_out_, self._score_level):
            self.support.report(
                f"{self.held_out_} held-out questions are too few for a bound at level {self.level:g}: it is 0"
            )
        return self

    def predict(self, features: Any) -> NDArray[np.float64]:
        """Return the bound among the wrapped calibrator's rewards, of shape (rows, levels)."""
        self.check_fitted()
        rewards = self.wrapped.predict(features)
        known = self.wrapped.levels
        bound = np.clip(self._nearest(rewards) - self.correction_, 0.0, 1.0)
        higher = [rewards[:, column] for column, level in enumerate(known) if level > self.level]
        lower = [rewards[:, column] for column, level in enumerate(known) if level < self.level]
        bound = np.minimum(bound, higher[0]) if higher else bound
        return np.stack([*(np.minimum(each, bound) for each in lower), bound, *higher], axis=1)

    def save(self, folder: Path) -> None:
        """Write the correction to `folder`, and the wrapped calibrator to a folder inside it."""
        super().save(folder)
        self.wrapped.save(folder / _WRAPPED)

    def load(self, folder: Path) -> Self:
        """Read back what ``save`` wrote; the predictions are equal to the bit."""
        super().load(folder)
        self.wrapped.load(folder / _WRAPPED)
        return self

    @property
    def _given(self) -> dict[str, Any]:
        return {"plugin": self.calibrator} if isinstance(self.calibrator, str) else self.calibrator

    @property
    def _score_level(self) -> float:
        """What is left of the level for the scores, the labels' share taken off."""
        return self.level if self.covers == "success_rate" else self.level / 2

    def _labels(self, k: NDArray[np.int64], n: NDArray[np.int64]) -> NDArray[np.float64]:
        if self.covers == "success_rate":
            return k / n
        from scipy.special import betaincinv

        limits = betaincinv(np.maximum(k, 1), n - k + 1, self.level / 2)
        return np.where(k > 0, limits, 0.0)

    def _held_out(self, groups: NDArray[np.int64]) -> NDArray[np.bool_]:
        numbers = np.unique(groups)
        count = min(round(self.share * len(numbers)), len(numbers) - 1)
        chosen = np.random.default_rng(self.seed).permutation(numbers)[:count]
        return np.isin(groups, chosen)

    def _nearest(self, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
        """The wrapped calibrator's rewards at the level nearest to the bound's."""
        distances = np.abs(np.asarray(self.wrapped.levels) - self.level)
        nearest: NDArray[np.float64] = rewards[:, int(np.argmin(distances))]
        return nearest


def _enough(questions: int, level: float) -> bool:
    """Whether the quantile of so many questions is finite."""
    return bool((1 - level) * (questions + 1) <= questions + _TOLERANCE)


def _corrected(scores: NDArray[np.float64], groups: NDArray[np.int64], level: float) -> float:
    """Q, of scores in [-1, 1]; 1, the largest that they can be, where the quantile is infinite."""
    _, index, counts = np.unique(groups, return_inverse=True, return_counts=True)
    if not _enough(len(counts), level):
        return 1.0
    order = np.argsort(scores, kind="stable")
    weights = np.cumsum(1 / counts[index[order]])
    place = int(np.searchsorted(weights, (1 - level) * (len(counts) + 1) - _TOLERANCE))
    return float(scores[order[min(place, len(order) - 1)]])
