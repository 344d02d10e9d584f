"""The contract of a calibration metric: it measures how far calibrated rewards are from success rates."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.measured import AbsoluteSum, Known, QuestionRatio, UnderWeights
from prmcal.registry.contracts.plugin import Plugin
from prmcal.registry.contracts.rows import PrefixRows

__all__ = ["Better", "Measured", "Metric"]

Better = Literal["lower", "higher", "near zero"]
Measured = NDArray[np.float64] | QuestionRatio | AbsoluteSum | UnderWeights | Known
"""What :meth:`Metric.measure` returns."""

_POINT, _LEVELS = (0.5,), (0.1, 0.5, 0.9)


class Metric(Plugin, ABC):
    """A calibration metric: a number computed from prefixes with a predicted reward and measured successes.

    A metric says what is measured. prmcal computes the value, its 95% interval over questions and the paired tests
    between calibrators, and shows it on the leaderboard.

    Attributes
    ----------
    title : str
        What readers see, such as "Log loss". By default the registered name.
    better : {"lower", "higher", "near zero"} or None
        Which value wins. With None, values are not ranked.
    description : str
        What it measures, in one sentence that ends with a full stop. By default the first paragraph of the docstring.
    each_level : bool
        Whether it is measured for the rewards of each level beta, under names such as ``coverage_0.1``. `rows.reward`
        then is the reward of this level, and the median for calibrators that predict only that. Without it, the metric
        is measured once, for the median. `rows.quantiles` has the rewards of all levels in both cases.
    """

    title: ClassVar[str] = ""
    better: ClassVar[Better | None] = None
    description: ClassVar[str] = ""
    each_level: ClassVar[bool] = False

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
        UnderWeights
            Any function of the prefixes, under weights of the questions.
        Known
            A number without uncertainty.
        None
            If the metric is not defined for these rows. The cell then has no value of it.
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
        return {f"{name}_{level:g}": level for level in (_LEVELS if tuple(levels) == _POINT else levels)}

    def titled(self, name: str, level: float | None = None) -> str:
        """Return the title of a column.

        Parameters
        ----------
        name : str
            The name in the grid. If it is not the registered one, the title contains it, so that two entries of one
            metric can be told apart.
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
