"""Calibration metrics: the distance of predicted rewards r from measured success rates y = k/n.

Brier and PosBrier are means over all rows, with the interval of skewed values
(:mod:`prmcal.db.statistics.intervals`). Calibration errors over bins belong in
:mod:`prmcal.harness.metrics.bin_errors`. The metrics are those of "Know What You Don't Know" (Park et al., 2025),
section 5.
"""

from __future__ import annotations

import numpy as np

from prmcal.db.statistics.bootstrap import Bootstrap, RowMean, Statistic
from prmcal.harness.metrics.bin_errors import ECE, AdaptiveCE, AverageCE, CorrectedCE
from prmcal.harness.metrics.rows import PrefixRows

__all__ = ["brier", "brier_corrected", "calibration_metrics", "positive_brier", "signed_error"]


def brier(rows: PrefixRows) -> Statistic:
    """Return the Brier score, the mean of (r - y)^2, in [0, 1].

    With n follow-ups a perfect predictor has the mean of p(1 - p)/n: see :func:`brier_corrected`.
    """
    return RowMean((rows.reward - rows.success_rate) ** 2, rows.question)


def positive_brier(rows: PrefixRows) -> Statistic:
    """Return the mean of max(r - y, 0)^2 over all rows, in [0, 1]. It counts only overestimation."""
    return RowMean(np.maximum(rows.reward - rows.success_rate, 0) ** 2, rows.question)


def brier_corrected(rows: PrefixRows) -> Statistic:
    """Return the Brier score without the noise of the follow-ups: the mean of (r - y)^2 - y(1 - y)/(n - 1).

    Its expectation is the mean of (r - p)^2, so the value of a perfect predictor can be below 0. Where y is 0 or 1, as
    for every prefix that contains its final answer, nothing is subtracted.

    Raises
    ------
    ValueError
        If a row has only one follow-up, from which the noise cannot be estimated.
    """
    single = int(np.count_nonzero(rows.follow_ups < 2))
    if single:
        raise ValueError(
            f"The Brier score can only be corrected if every prefix has at least 2 follow-ups. "
            f"{single} of {len(rows.reward)} prefixes have 1. Measure with more follow-ups."
        )
    success_rate = rows.success_rate
    noise = success_rate * (1 - success_rate) / (rows.follow_ups - 1)
    return RowMean((rows.reward - success_rate) ** 2 - noise, rows.question)


def signed_error(rows: PrefixRows) -> Statistic:
    """Return the mean of r - y, in [-1, 1]. Above 0 the rewards are too high on average."""
    return RowMean(rows.reward - rows.success_rate, rows.question)


_BOOTSTRAP = Bootstrap()


def calibration_metrics(
    rows: PrefixRows, bins: int = 10, bootstrap: Bootstrap = _BOOTSTRAP
) -> dict[str, Statistic]:
    """Return every calibration metric of `rows` by name.

    ``brier_corrected`` is left out if a prefix has only one follow-up. The other corrected metrics measure the noise of
    their bins with `bootstrap`.
    """
    metrics: dict[str, Statistic] = {
        "brier": brier(rows),
        "positive_brier": positive_brier(rows),
        "signed_error": signed_error(rows),
    }
    if np.all(rows.follow_ups > 1):
        metrics["brier_corrected"] = brier_corrected(rows)
    for plain in (ECE(rows, bins), AdaptiveCE(rows, bins), AverageCE(rows, bins)):
        metrics |= {plain.name: plain, f"{plain.name}_corrected": CorrectedCE(plain, bootstrap)}
    return metrics
