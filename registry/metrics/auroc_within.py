"""How well rewards rank the prefixes of a question."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.measured import QuestionRatio
from prmcal.registry.contracts.metric import Metric
from prmcal.registry.contracts.rows import PrefixRows

__all__ = ["AUROCWithin"]


class AUROCWithin(Metric):
    """The area under the ROC curve within a question, averaged over questions, in [0, 1].

    Of all pairs of different prefixes i and j of a question, weighted by y_i (1 - y_j), it is the share in which the
    reward of i is larger; equal rewards count as 1/2. This is the probability that a follow-up of i that succeeds has a
    larger reward than a follow-up of j that fails. Questions in which all follow-ups have the same outcome are left
    out. Rewards that are the same for all prefixes of a question have 1/2.

    Numerator and denominator have the expectations that they would have with p in place of y. A perfect predictor does
    not reach 1 unless p is 0 or 1 everywhere, so compare calibrators with each other. A calibrator that maps the reward
    by an increasing function changes nothing.

    Notes
    -----
    The area with soft labels is that of Hanley and McNeil (1982), Radiology 143, over pairs of follow-ups of different
    prefixes.
    """

    citation = "Hanley and McNeil (1982), Radiology 143"
    title, better = "AUROC within questions", "higher"
    description = (
        "How often the more successful prefix of a question has the larger reward: 0.5 is chance, and even a perfect "
        "predictor is below 1."
    )

    def measure(self, rows: PrefixRows) -> QuestionRatio | None:
        """Return the area of each question, or None if no question has two prefixes and both outcomes."""
        ranked, pairs = _pairs(rows)
        mixed = pairs > 0
        if not mixed.any():
            return None
        areas = np.divide(ranked, pairs, out=np.zeros(len(pairs)), where=mixed)
        return QuestionRatio(areas, mixed.astype(np.float64), bounds=(0.0, 1.0))


def _pairs(rows: PrefixRows) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sums of y_i (1 - y_j) [r_i > r_j, or 1/2 if equal] and of y_i (1 - y_j) over pairs i != j.

    Both have shape (questions,). A sum of pairs that is a rounding error is 0.
    """
    y, question = rows.success_rate, rows.question_index
    order = np.lexsort((rows.reward, question))
    # Rows of one question with equal rewards are a group.
    new = (np.diff(question[order], prepend=-1) > 0) | (np.diff(rows.reward[order], prepend=-1.0) != 0)
    group = np.empty(len(order), np.intp)
    group[order] = np.cumsum(new) - 1
    # The weight of the rows of the question below each row, and half of that of the rows with the same reward.
    failures = np.bincount(group, weights=1 - y)
    all_failures = rows.totals(1 - y)
    before = np.cumsum(all_failures) - all_failures
    below = (np.cumsum(failures) - failures / 2)[group] - before[question]
    within = rows.totals(y * (1 - y))  # Pairs of a row with itself, which count as equal.
    pairs = rows.totals(y) * all_failures - within
    return rows.totals(y * below) - within / 2, np.where(pairs > 1e-12, pairs, 0.0)
