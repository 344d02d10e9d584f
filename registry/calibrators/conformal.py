"""The calibrator `conformal`: conformal lower bounds (Algorithm 1 and Theorem 1 of the paper)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from prmcal.arrays import Floats, Ints
from prmcal.registry.calibrators.scores import ScoreCalibrator
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.plugin import Seed, Share

_WRAPPED = "wrapped"
# Rounding errors of sums of weights, which are whole numbers.
_TOLERANCE = 1e-9


@dataclass(eq=False)
class Conformal(ScoreCalibrator):
    """Turn the reward of another calibrator into a lower bound that holds for a share 1 - level of new questions.

    Some of the questions are held out, and the wrapped calibrator is fitted to the others. The score E of a held-out
    prefix is its reward minus its success rate. Each of the K held-out questions has weight 1, divided evenly among
    its prefixes. Q is the smallest score for which the prefixes with E <= Q have a total weight of at least
    (1 - level)(K + 1). The bound is the reward minus Q, clipped to [0, 1].

    If each question has one prefix, this is Algorithm 1 of "Know What You Don't Know" (Park et al., 2025, Appendix A):
    Q is the (1 - level)(1 + 1/K) empirical quantile of E.

    Attributes
    ----------
    reads : str
        What the wrapped calibrator reads.
    levels : tuple of float
        The levels of the wrapped calibrator, and `level`.
    any_level : bool
        Whether the wrapped calibrator predicts any level. Then this one does too.
    correction_ : float
        Q. It is 1, and the bound is 0, if too few questions are held out for the level: K < (1 - level) / level.
        ``fit`` reports this.
    held_out_ : int
        K, the number of held-out questions.

    Notes
    -----
    **Guarantee.** Draw a new question from the distribution of the calibration questions, one of its prefixes at
    random, and as many follow-ups as the calibration prefixes have. Then the success rate is at least the bound with
    probability at least 1 - level. This is an average over calibration sets, questions and prefixes. There is no
    guarantee for one particular step, such as the bare question, or for other data.

    **Proof.** The prefixes of one question resemble each other, so prefixes are not exchangeable. Questions, each with
    all its prefixes, are exchangeable. Let Q' be Q computed with the new question as one of K + 1. Q' does not depend
    on the order of the questions. So the probability that a random prefix has a score of at most Q' is the same for the
    new question as for every other. The mean of these probabilities is at least 1 - level by the choice of Q'. Q is at
    least Q', since Q counts the scores of the new question as infinite (Lee, Barber and Willett, 2023). Other
    calibrators learn from prefixes as if these were independent, and their quantiles have no such guarantee.

    **Success rate and success probability.** Labels are k of n, and the guarantee is about the rates k/n. Rates are
    noisier than the probability p, so a bound below most rates is usually below p even more often. This fails if p is
    near 1. For p = .99, all of 8 follow-ups are right with probability .92. A bound of 1 then holds for the rate and
    not for p.

    **Theorem 1** follows: best-of-N_IAS(bound, C) succeeds with probability at least C (1 - level), on average over all
    random draws, if p > 0. The theorem holds up to the noise of the success rates, as in the paper.

    **Other levels** have the rewards of the wrapped calibrator. The bound starts from the reward of the nearest level,
    which is `level` itself if the wrapped calibrator predicts any level. The bound is at most the reward of the next
    higher level in `levels`. Rewards of lower levels are lowered to the bound, and rewards of higher levels are raised
    to it.
    """

    plugin_name = "conformal"
    citation = "Romano et al. (2019), NeurIPS, arXiv:1905.03222"

    calibrator: str | dict[str, Any] = "isotonic"
    """The wrapped calibrator: a registered name, or ``{"plugin": name, "arguments": {...}}``. The wrapped calibrator
    must not be conformal itself."""
    level: Share = 0.1
    """The level beta of the bound, in (0, 1)."""
    share: Share = 0.5
    """The share of the questions that are held out, in (0, 1). At least one question is not held out."""
    seed: Seed = 0
    """The seed that decides which questions are held out."""

    @cached_property
    def wrapped(self) -> Calibrator:
        """The wrapped calibrator."""
        from prmcal.registry.plugins import calibrators, plugin_entry  # It imports all contracts.

        name, arguments = plugin_entry("calibrator", self.calibrator)
        return calibrators.create(name, **arguments)

    # These are those of the wrapped calibrator.
    reads: ClassVar[Any] = property(attrgetter("wrapped.reads"))  # type: ignore[misc]
    any_level: ClassVar[Any] = property(attrgetter("wrapped.any_level"))  # type: ignore[misc]
    training_passes: ClassVar[Any] = property(attrgetter("wrapped.training_passes"))  # type: ignore[misc]
    reading_passes: ClassVar[Any] = property(attrgetter("wrapped.reading_passes"))  # type: ignore[misc]
    trains_apart: ClassVar[Any] = property(attrgetter("wrapped.trains_apart"))  # type: ignore[misc]

    @property
    def levels(self) -> tuple[float, ...]:  # type: ignore[override]
        """The levels of the wrapped calibrator and of the bound, ascending."""
        return tuple(sorted({*self.wrapped.levels, self.level}))

    def check_arguments(self) -> None:
        """Raise ValueError or a PluginError if `calibrator` does not describe a calibrator that can be wrapped."""
        from prmcal.registry.plugins import calibrators, plugin_entry

        name, _ = plugin_entry("calibrator", self.calibrator)
        if issubclass(calibrators.get(name), Conformal):
            raise ValueError("A conformal calibrator cannot wrap another one. Wrap the inner calibrator directly.")
        vars(self).pop("wrapped", None)  # It may have been built before `calibrator` changed.
        _ = self.wrapped  # Building it checks its arguments.

    def identity(self) -> dict[str, Any]:
        """Return the identity, with the identity of the wrapped calibrator."""
        return {**super().identity(), "wrapped": self.wrapped.identity()}

    def fit_features(self, features: Any, k: Ints, n: Ints, questions: Ints | None = None) -> Self:
        """Fit the wrapped calibrator to some questions, and the correction to the held-out questions."""
        self.check_calibration_data(features, k, n)
        groups = self.question_numbers(features, questions)
        numbers = np.unique(groups)
        count = min(round(self.share * len(numbers)), len(numbers) - 1)
        held_out = np.isin(groups, np.random.default_rng(self.seed).permutation(numbers)[:count])
        fitted_rows, held_out_rows = np.flatnonzero(~held_out), np.flatnonzero(held_out)
        self.wrapped.support = self.support
        self.wrapped.fit_features(features[fitted_rows], k[fitted_rows], n[fitted_rows], groups[fitted_rows])
        self.held_out_ = len(np.unique(groups[held_out_rows]))
        self.correction_ = 1.0
        if len(held_out_rows):
            rewards = self.wrapped.predict_at(features[held_out_rows], [self._nearest])[:, 0]
            scores = rewards - k[held_out_rows] / n[held_out_rows]
            self.correction_ = _correction(scores, groups[held_out_rows], self.level)
        if not _are_enough(self.held_out_, self.level):
            self.support.report(
                f"{self.held_out_} held-out questions are too few for level {self.level:g}, so the bound is 0"
            )
        return self

    def predict_at(self, features: Any, levels: Sequence[float]) -> Floats:
        """Return the bound at `level`, and the rewards of the wrapped calibrator at other levels.

        See :meth:`prmcal.Calibrator.predict_at`.
        """
        self.check_fitted()
        self.check_levels(levels)
        wrapped_levels = self.wrapped.levels
        other_levels = [level for level in levels if level != self.level]
        all_levels = sorted({*other_levels, *wrapped_levels, *([self.level] if self.any_level else [])})
        rewards = self.wrapped.predict_at(features, all_levels)
        by_level = {level: rewards[:, place] for place, level in enumerate(all_levels)}
        bound = np.clip(by_level[self._nearest] - self.correction_, 0.0, 1.0)
        higher = [level for level in wrapped_levels if level > self.level]
        bound = np.minimum(bound, by_level[higher[0]]) if higher else bound
        columns = [
            bound if level == self.level else (np.minimum if level < self.level else np.maximum)(by_level[level], bound)
            for level in levels
        ]
        return np.stack(columns, axis=1)

    def save(self, folder: Path) -> None:
        """Write the correction to `folder`, and the wrapped calibrator to a subfolder."""
        super().save(folder)
        self.wrapped.save(folder / _WRAPPED)

    def load(self, folder: Path) -> Self:
        """Read the files that ``save`` wrote; see :meth:`prmcal.Calibrator.load`."""
        super().load(folder)
        self.wrapped.load(folder / _WRAPPED)
        return self

    @property
    def _nearest(self) -> float:
        """The level of the wrapped calibrator that is nearest to `level`: the bound starts from it."""
        if self.any_level:
            return self.level
        return min(self.wrapped.levels, key=lambda level: abs(level - self.level))


def _are_enough(questions: int, level: float) -> bool:
    """True if there are enough questions for a finite quantile."""
    return bool((1 - level) * (questions + 1) <= questions + _TOLERANCE)


def _correction(scores: Floats, groups: Ints, level: float) -> float:
    """Q of scores in [-1, 1]. The result is 1, the largest possible score, if the quantile is infinite."""
    _, index, counts = np.unique(groups, return_inverse=True, return_counts=True)
    if not _are_enough(len(counts), level):
        return 1.0
    order = np.argsort(scores, kind="stable")
    weights = np.cumsum(1 / counts[index[order]])
    place = int(np.searchsorted(weights, (1 - level) * (len(counts) + 1) - _TOLERANCE))
    return float(scores[order[min(place, len(order) - 1)]])
