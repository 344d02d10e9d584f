"""Metrics of scores against success counts, each with its 95% interval over questions.

>>> from prmcal.metrics import brier, compare, signed_error
>>> scores, right, questions = [0.9, 0.8, 0.7, 0.9, 0.6, 0.8], [1, 0, 0, 1, 0, 1], [1, 1, 2, 2, 3, 3]
>>> brier(scores, right, groups=questions)
0.258 [0.013, 0.488] (3 questions)
>>> round(compare([0.7, 0.3, 0.5, 0.9, 0.2, 0.8], scores, right, groups=questions, metric=signed_error).value, 2)
-0.22

`scores` of shape (rows,) are predicted probabilities of success in [0, 1]. `k`, of shape (rows,), are the successes of
each row in `n` tries. By default `n` is 1, and `k` are labels of 0 and 1. `groups` of shape (rows,) has the question of
each row: rows of one question are not independent, so all intervals and tests are over questions. By default, each row
is a question of its own.

All metrics raise a ValueError for shapes that differ, values out of range, or rows without a defined value.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from prmcal.arrays import success_counts
from prmcal.db.statistics.bootstrap import Bootstrap, Resampled, estimate
from prmcal.db.statistics.intervals import Estimate
from prmcal.db.statistics.paired import Replicated, replicated_difference
from prmcal.errors import PrmcalError
from prmcal.harness.metrics.measured import reliability_bins, statistic_of
from prmcal.registry.contracts.metric import PrefixRows
from prmcal.registry.plugins import metrics

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

    from prmcal.db import charts


@dataclass(frozen=True)
class Value(Estimate):
    """A number with its 95% interval over questions, whose ends are NaN for a single question."""

    n: int
    """Number of questions."""

    def __repr__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}] ({self.n} question{'s' if self.n != 1 else ''})"


@dataclass(frozen=True, repr=False)
class Difference(Value):
    """The difference of two scores by a metric, first minus second."""

    p_value: float
    """Two-sided p value of the paired test, at least 2^(1 - n)."""

    def __repr__(self) -> str:
        return f"{super().__repr__()}, p = {self.p_value:.2g}"


class ScoreMetric:
    """A metric, by its registered name, as a function of scores. It is computed as on the leaderboard."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(
        self,
        scores: "ArrayLike",
        k: "ArrayLike",
        n: "ArrayLike" = 1,
        groups: "ArrayLike | None" = None,
        **arguments: Any,
    ) -> Value:
        """Return the value. The metric may have `arguments`, such as ``bins``: see ``prmcal list metric NAME``."""
        measured = self.resampled(_rows(scores, k, n, groups), **arguments)
        return Value(measured.value, measured.low, measured.high, measured.questions)

    def resampled(self, rows: PrefixRows, **arguments: Any) -> Resampled:
        """Return the value with its bootstrap replicates, for comparing two scores."""
        statistic = statistic_of(metrics.create(self.name, **arguments), rows, Bootstrap())
        if statistic is None:
            raise ValueError(f"The metric '{self.name}' is not defined for these rows: see `prmcal list metric`.")
        return estimate(statistic, Bootstrap())

    def __repr__(self) -> str:
        return f"ScoreMetric({self.name!r})"


brier = ScoreMetric("brier")
"""The mean of (r - k/n)^2. With one try a row, it is scikit-learn's ``brier_score_loss``."""
brier_corrected = ScoreMetric("brier_corrected")
"""The Brier score without the noise of n > 1 tries: the mean of (r - y)^2 - y(1 - y)/(n - 1), y = k/n."""
signed_error = ScoreMetric("signed_error")
"""The mean of r - k/n, in [-1, 1]. Above 0, the scores are too high."""
log_loss = ScoreMetric("log_loss")
"""The mean cross-entropy of k/n and r in nats, with r kept 1e-6 off 0 and 1."""
ece = ScoreMetric("ece")
"""The expected calibration error over ``bins`` bins of equal width (Naeini et al., 2015). Noise raises it."""
adaptive_ce = ScoreMetric("adaptive_ce")
"""The calibration error over ``bins`` bins of equal mass. Noise raises it."""
auroc_within = ScoreMetric("auroc_within")
"""The area under the ROC curve within a question, averaged over the questions with both outcomes. It needs groups."""
coverage = ScoreMetric("coverage")
"""The share of rows whose success probability p is at least the score, a lower bound. p is estimated from k of n."""


def compare(
    first: "ArrayLike",
    second: "ArrayLike",
    k: "ArrayLike",
    n: "ArrayLike" = 1,
    groups: "ArrayLike | None" = None,
    metric: ScoreMetric = brier,
) -> Difference:
    """Return the metric of the first scores minus the metric of the second, with a paired test over questions.

    Of a metric whose best value is 0, such as the signed error, the absolute values are compared.
    """
    if not isinstance(metric, ScoreMetric):
        raise ValueError(f"'metric' must be a function of prmcal.metrics, such as brier. Got {metric!r}.")
    better = metrics.get(metric.name).better
    sides = [metric.resampled(_rows(scores, k, n, groups)) for scores in (first, second)]
    values = [Replicated(side.value, side.replicates, side.questions).comparable(better) for side in sides]
    paired = replicated_difference(*values)
    return Difference(paired.difference, paired.low, paired.high, sides[0].questions, paired.p_value)


def reliability(
    scores: "ArrayLike", k: "ArrayLike", n: "ArrayLike" = 1, groups: "ArrayLike | None" = None, bins: int = 10
) -> "pd.DataFrame":
    """Return the reliability diagram as a table with one row for each of `bins` bins of equal width.

    The columns are bin, lower, upper, count, mean_reward, mean_success, and low and high, the 95% interval of
    mean_success over the questions in the bin.
    """
    if bins < 1:
        raise ValueError(f"'bins' must be at least 1. Got {bins}.")
    return reliability_bins(_rows(scores, k, n, groups), bins)


def reliability_chart(**tables: "pd.DataFrame") -> "charts.Layers":
    """Return a chart of tables of :func:`reliability`, by their names in the legend, such as ``before`` and ``after``.

    It is a chart of Altair, which a notebook shows and ``chart.save("reliability.html")`` writes. Raises a PrmcalError
    if Altair is missing.
    """
    import pandas as pd

    try:
        from prmcal.db import charts, pictures
    except ModuleNotFoundError as error:
        raise PrmcalError("Charts need Altair. Install it: pip install altair") from error
    names = list(tables)
    bins = [table.assign(calibrator=name) for name, table in tables.items()]
    style, shown_legend = charts.series_of(names, names), charts.legend(names, lines=False, width=300)
    picture = pictures.reliability(pictures.points_of(pd.concat(bins)), style, shown_legend)
    return picture.properties(width=300, height=300)


def _rows(scores: "ArrayLike", k: "ArrayLike", n: "ArrayLike", groups: "ArrayLike | None") -> PrefixRows:
    rewards, counts = np.asarray(scores, dtype=np.float64), success_counts(k)
    questions: NDArray[Any] = np.arange(len(rewards)) if groups is None else np.asarray(groups)
    return PrefixRows(rewards, counts, np.broadcast_to(np.asarray(n, dtype=np.int64), counts.shape), questions)
