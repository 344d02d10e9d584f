"""The contract of a calibration metric: the prefixes that it reads, and the forms of its result."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from prmcal.arrays import Bools, Floats
from prmcal.registry.contracts.plugin import Plugin

_MEDIAN = 0.5
_LEVELS = (0.1, _MEDIAN, 0.9)


@dataclass(frozen=True, eq=False)
class PrefixRows:
    """One row per prefix.

    Raises a ValueError if there are no rows, the shapes differ, or a value is out of range.
    """

    reward: Floats
    """Predicted probability of success r in [0, 1]: the median, or the reward of one level if `each_level` is set. The
    caller leaves out prefixes that are too long for the PRM (NaN). Of shape (rows,), float64."""
    successes: NDArray[np.integer[Any]]
    follow_ups: NDArray[np.integer[Any]]
    """k of n: 0 <= k <= n, n >= 1. Of shape (rows,), int."""
    question: NDArray[Any]
    """The question of each row, as a number or an identifier. Of shape (rows,)."""
    terminal: Bools = field(default_factory=lambda: np.zeros(0, dtype=bool))
    """True if the prefix contains its final answer, so that k is certainly 0 or n. By default none does. Of shape
    (rows,), bool."""
    levels: tuple[float, ...] = (_MEDIAN,)
    """The quantile levels beta that the calibrator predicts, ascending. ``(0.5,)`` is a point estimate."""
    level_rewards: Floats | None = None
    """The rewards of each level. By default, `reward` is the only level. Of shape (rows, levels), float64."""
    success_rate: Floats = field(init=False)
    """y = k / n. Of shape (rows,), float64."""
    question_ids: NDArray[Any] = field(init=False)
    """The questions, sorted. Of shape (questions,)."""
    question_index: NDArray[np.intp] = field(init=False)
    """The position of each row's question in `question_ids`. Of shape (rows,), int."""

    def __post_init__(self) -> None:
        rows = len(self.reward)
        if not len(self.terminal):
            object.__setattr__(self, "terminal", np.zeros(rows, dtype=bool))
        columns = ("reward", "successes", "follow_ups", "question", "terminal")
        shapes = {name: np.shape(getattr(self, name)) for name in columns}
        if any(shape != (rows,) for shape in shapes.values()):
            raise ValueError(f"All columns must have shape (rows,). Got {shapes}.")
        if not rows:
            raise ValueError("There are no rows to measure. Measure the success of at least one prefix.")
        if self.quantiles.shape != (rows, len(self.levels)):
            raise ValueError(
                f"'level_rewards' must have shape (rows, levels) = {(rows, len(self.levels))}. "
                f"Got {self.quantiles.shape}."
            )
        # This form also refuses NaN, for which all comparisons are false.
        if not all(np.all((rewards >= 0) & (rewards <= 1)) for rewards in (self.reward, self.quantiles)):
            raise ValueError(
                "Scores must be probabilities in [0, 1], without NaN. For log-odds, take scipy.special.expit(scores)."
            )
        if not np.all((self.follow_ups >= 1) & (self.successes >= 0) & (self.successes <= self.follow_ups)):
            raise ValueError("Each row needs k successes of n follow-ups with 0 <= k <= n and n >= 1.")
        question_ids, index = np.unique(self.question, return_inverse=True)
        object.__setattr__(self, "success_rate", self.successes / self.follow_ups)
        object.__setattr__(self, "question_ids", question_ids)
        object.__setattr__(self, "question_index", index)

    @property
    def quantiles(self) -> Floats:
        """The rewards of all ``levels``, of shape (rows, levels)."""
        return self.reward[:, None] if self.level_rewards is None else self.level_rewards

    def at(self, level: float) -> "PrefixRows":
        """Return the rows with the rewards of one level as `reward`. A point estimate is used for every level.

        Raises a ValueError if the calibrator does not predict this level.
        """
        if self.levels == (_MEDIAN,):
            return self
        if level not in self.levels:
            raise ValueError(
                f"The calibrator does not predict beta = {level:g}. It predicts: {', '.join(map(str, self.levels))}."
            )
        return replace(self, reward=self.quantiles[:, self.levels.index(level)])

    def totals(self, quantity: Floats) -> Floats:
        """Sum a quantity of shape (rows,) over the rows of each question: shape (questions,)."""
        totals = np.bincount(self.question_index, weights=quantity, minlength=len(self.question_ids))
        return totals.astype(np.float64)

    @property
    def counts(self) -> Floats:
        """The number of rows of each question, of shape (questions,)."""
        return self.totals(np.ones(len(self.reward)))


@dataclass(frozen=True, eq=False)
class QuestionRatio:
    """The sum of S_q over the questions q, divided by the sum of c_q.

    The mean over questions has the values as sums and ones as counts.
    """

    sums: Floats
    counts: Floats
    """S_q and c_q, in the order of `rows.question_ids`. No count is negative, and at least one is positive. Of shape
    (questions,), float64."""
    bounds: tuple[float, float] | None = None
    """The range of S_q / c_q if it is known, such as (0, 1). The interval then stays in this range."""
    widening: float = 1.0
    """The factor, at least 1, by which questions differ more than their values show, because the values are estimates.
    It is for the interval only."""


@dataclass(frozen=True, eq=False)
class AbsoluteSum:
    """The sum of the absolute values of some errors, such as the mean errors of bins.

    Noise increases the sum: it is above 0 even if all errors are 0 on average.
    """

    errors: Callable[[Floats], Floats]
    """From weights of shape (resamples, questions) to the signed errors, of shape (resamples, errors).

    A weight says how often a question counts, and is 0 for a question that was not drawn. There are usually 2,000
    resamples, so add up what you can over the rows of each question before: see `rows.totals` and
    :func:`prmcal.resamples.weighted_totals`.
    """
    corrected: bool = False
    """True if the noise of the errors is removed, which is measured by resampling the questions."""


Better = Literal["lower", "higher", "near zero"]
Measured = Floats | QuestionRatio | AbsoluteSum
"""The result of :meth:`Metric.measure`."""


class Metric(Plugin, ABC):
    """A calibration metric: a number computed from prefixes with a predicted reward and measured successes.

    A metric defines a quantity. prmcal computes the value, its 95% interval over questions and the paired tests between
    calibrators, and shows it on the leaderboard.
    """

    title: ClassVar[str] = ""
    """The title that readers see, such as "Log loss". By default the registered name."""
    better: ClassVar[Better | None] = None
    """The values that win. With None, values are not ranked."""
    description: ClassVar[str] = ""
    """The quantity, in one sentence that ends with a full stop. By default the first paragraph of the docstring."""
    usual: ClassVar[tuple[float, float] | None] = None
    """For a metric that is a mean of values: the range in which the mean of a question usually lies, such as (0, 0.5).
    Its interval then allows for questions anywhere in the range that were not drawn."""
    each_level: ClassVar[bool] = False
    """True if it is measured for the rewards of each level beta, under names such as ``coverage_0.1``. `rows.reward` is
    then the reward of this level, or the median if the calibrator predicts nothing else. Without it, the metric is
    measured once, for the median. `rows.quantiles` has the rewards of all levels in both cases."""

    @abstractmethod
    def measure(self, rows: PrefixRows) -> Measured | None:
        """Measure the metric on the prefixes of the test questions.

        It must not depend on the order of the rows or on random numbers without a fixed seed.

        Parameters
        ----------
        rows : PrefixRows
            Rewards, and k successes of n follow-ups.

        Returns
        -------
        ndarray of shape (rows,), float64
            One finite value per prefix. The metric is their mean. This is the simplest form.
        QuestionRatio
            A sum and a count per question. The metric is the ratio of their totals.
        AbsoluteSum
            A sum of absolute errors over bins, whose noise can be removed.
        None
            If the metric is not defined for these rows. The cell then has no value of this metric.
        """

    def columns(self, name: str, levels: Sequence[float]) -> dict[str, float | None]:
        """Return the names under which it is measured, with the level beta of each, or None if it has no level.

        Parameters
        ----------
        name : str
            The name in the grid.
        levels : sequence of float
            The levels that the calibrator predicts. A point estimate is measured for 0.1, 0.5 and 0.9.
        """
        if not self.each_level:
            return {name: None}
        return {f"{name}_{level:g}": level for level in (_LEVELS if tuple(levels) == (_MEDIAN,) else levels)}

    def titled(self, name: str, level: float | None = None) -> str:
        """Return the title of a column.

        Parameters
        ----------
        name : str
            The name in the grid. If the name is not the registered one, the title contains it, which distinguishes two
            entries of one metric.
        level : float, optional
            The level beta, if the metric is measured at each level.
        """
        words = self.title or (self.plugin_name or name).replace("_", " ").replace("-", " ").capitalize()
        if self.plugin_name and name != self.plugin_name:
            words = f"{words} ({name})"
        return words if level is None else f"{words}, beta {level:g}"

    def described(self, level: float | None = None) -> str:
        """Return the description of a column; `level` is as for :meth:`titled`."""
        text = self.description or inspect.cleandoc(type(self).__doc__ or "").partition("\n\n")[0]
        return " ".join(text.split())
