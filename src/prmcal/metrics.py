"""Metrics of scores against success counts, each with its 95% interval over questions.

>>> from prmcal.metrics import brier, signed_error
>>> scores, right, questions = [0.9, 0.8, 0.7, 0.9, 0.6, 0.8], [1, 0, 0, 1, 0, 1], [1, 1, 2, 2, 3, 3]
>>> brier(scores, right, groups=questions)
0.258 [0.013, 0.488] (3 questions)
>>> signed_error(scores, right, groups=questions).low < 0
True

In all functions, `scores` of shape (rows,) are predicted probabilities of success in [0, 1]. `k` of shape (rows,) are
the successes of `n` tries of each row; labels of 0 and 1 are successes of one try, which is the default. `groups` of
shape (rows,) has the question of each row: rows of one question are not independent, so all intervals and tests are
over questions. By default, each row is a question of its own. All raise a ValueError if shapes differ, a value is out
of range, or the metric is not defined for the rows.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from prmcal.db.statistics.bootstrap import Bootstrap, Resampled, estimate
from prmcal.db.statistics.intervals import Estimate
from prmcal.db.statistics.paired import Replicated, replicated_difference
from prmcal.harness.metrics.measured import reliability_bins, statistic_of
from prmcal.registry.contracts.metric import Metric, PrefixRows
from prmcal.registry.metrics import bins as binned
from prmcal.registry.metrics import coverage as covered
from prmcal.registry.metrics import scores as scored

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Value(Estimate):
    """A number with its 95% interval over questions, whose ends are NaN for a single question."""

    n: int
    """Number of questions."""

    def __repr__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}] ({self.n} question{'s' if self.n != 1 else ''})"


@dataclass(frozen=True, repr=False)
class Difference(Value):
    """The difference of two metrics on the same questions, first minus second."""

    p_value: float
    """Two-sided p value of the paired test, at least 2^(1 - n)."""

    def __repr__(self) -> str:
        return f"{super().__repr__()}, p = {self.p_value:.2g}"


def brier(scores: "ArrayLike", k: "ArrayLike", n: "ArrayLike" = 1, groups: "ArrayLike | None" = None) -> Value:
    """Return the mean of (r - k/n)^2 (Brier, 1950). With one try a row, it is scikit-learn's ``brier_score_loss``."""
    return _value(scored.Brier(), _rows(scores, k, n, groups))


def brier_corrected(scores: "ArrayLike", k: "ArrayLike", n: "ArrayLike", groups: "ArrayLike | None" = None) -> Value:
    """Return the Brier score without the noise of n > 1 tries: the mean of (r - y)^2 - y(1 - y)/(n - 1), y = k/n."""
    return _value(scored.CorrectedBrier(), _rows(scores, k, n, groups))


def signed_error(scores: "ArrayLike", k: "ArrayLike", n: "ArrayLike" = 1, groups: "ArrayLike | None" = None) -> Value:
    """Return the mean of r - k/n, in [-1, 1]. Above 0, the scores are too high."""
    return _value(scored.SignedError(), _rows(scores, k, n, groups))


def log_loss(scores: "ArrayLike", k: "ArrayLike", n: "ArrayLike" = 1, groups: "ArrayLike | None" = None) -> Value:
    """Return the mean cross-entropy of k/n and r in nats, with r kept 1e-6 off 0 and 1."""
    return _value(scored.LogLoss(), _rows(scores, k, n, groups))


def ece(
    scores: "ArrayLike", k: "ArrayLike", n: "ArrayLike" = 1, groups: "ArrayLike | None" = None, bins: int = 10
) -> Value:
    """Return the expected calibration error over bins of equal width (Naeini et al., 2015). Noise raises it."""
    return _value(binned.ECE(bins), _rows(scores, k, n, groups))


def adaptive_ce(
    scores: "ArrayLike", k: "ArrayLike", n: "ArrayLike" = 1, groups: "ArrayLike | None" = None, bins: int = 10
) -> Value:
    """Return the calibration error over bins of equal mass. Noise raises it."""
    return _value(binned.AdaptiveCE(bins), _rows(scores, k, n, groups))


def auroc_within(scores: "ArrayLike", k: "ArrayLike", n: "ArrayLike" = 1, *, groups: "ArrayLike") -> Value:
    """Return the area under the ROC curve within a question, averaged over the questions with both outcomes."""
    return _value(scored.AUROCWithin(), _rows(scores, k, n, groups))


def coverage(bounds: "ArrayLike", k: "ArrayLike", n: "ArrayLike" = 1, groups: "ArrayLike | None" = None) -> Value:
    """Return the share of rows whose success probability p is at least its bound. p is estimated from k of n."""
    return _value(covered.Coverage(), _rows(bounds, k, n, groups))


def compare(
    first: "ArrayLike",
    second: "ArrayLike",
    k: "ArrayLike",
    n: "ArrayLike" = 1,
    groups: "ArrayLike | None" = None,
    metric: Metric | None = None,
) -> Difference:
    """Return the metric of the first scores minus that of the second, with a paired test over questions.

    The metric is by default the Brier score, so that below 0 the first scores are better. Others are instances of the
    classes in :mod:`prmcal.registry.metrics`, or of your own :class:`prmcal.Metric`. Of one whose best value is 0, the
    absolute values are compared.
    """
    kind = metric or scored.Brier()
    estimates = [_estimate(kind, _rows(scores, k, n, groups)) for scores in (first, second)]
    paired = replicated_difference(
        *(
            Replicated(measured.value, measured.replicates, measured.questions).comparable(kind.better)
            for measured in estimates
        )
    )
    return Difference(paired.difference, paired.low, paired.high, estimates[0].questions, paired.p_value)


def reliability(
    scores: "ArrayLike", k: "ArrayLike", n: "ArrayLike" = 1, groups: "ArrayLike | None" = None, bins: int = 10
) -> "pd.DataFrame":
    """Return the reliability diagram as a table with one row for each of `bins` bins of equal width.

    The columns are bin, lower, upper, count, mean_reward, mean_success, and low and high, the 95% interval of
    mean_success over the questions in the bin.
    """
    return reliability_bins(_rows(scores, k, n, groups), bins)


def _rows(scores: "ArrayLike", k: "ArrayLike", n: "ArrayLike", groups: "ArrayLike | None") -> PrefixRows:
    rewards, successes = np.asarray(scores, dtype=np.float64), np.asarray(k)
    counts = successes.astype(np.int64)
    if np.any(counts != successes):
        raise ValueError("k must be whole numbers: the successes of n tries. Multiply success rates by n.")
    questions: NDArray[Any] = np.arange(len(rewards)) if groups is None else np.asarray(groups)
    return PrefixRows(rewards, counts, np.broadcast_to(np.asarray(n, dtype=np.int64), counts.shape), questions)


def _estimate(metric: Metric, rows: PrefixRows) -> Resampled:
    statistic = statistic_of(metric, rows, Bootstrap())
    if statistic is None:
        raise ValueError(f"{type(metric).__name__} is not defined for these rows: see its documentation.")
    return estimate(statistic, Bootstrap())


def _value(metric: Metric, rows: PrefixRows) -> Value:
    measured = _estimate(metric, rows)
    return Value(measured.value, measured.low, measured.high, measured.questions)
