"""Ranks over places, of calibrators or of strategies, with intervals from the bootstrap over questions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prmcal.db.overview.averages import PLACE
from prmcal.db.overview.types import Quantity
from prmcal.db.statistics.bootstrap import Bootstrap
from prmcal.db.statistics.intervals import percentile_interval
from prmcal.resamples import weighted_totals

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Rank", "rank_by_means"]

_BOOTSTRAP = Bootstrap(replicates=1000, seed=0)
_TAIL = 0.025


@dataclass(frozen=True)
class Rank:
    """The rank of what competes; see :class:`prmcal.db.overview.types.Standing` for its fields."""

    places: int
    lowest: int
    mean_rank: Quantity
    rank: int
    rank_low: int
    rank_high: int


def rank_by_means(values: pd.DataFrame, competitor: str) -> dict[Any, Rank]:
    """Rank competitors by the mean of their ranks at single places.

    All places of a data set are resampled with the same questions. At a place, the competitor with the lowest mean has
    rank 1, and equal ones share the mean of their ranks.

    Parameters
    ----------
    values : DataFrame
        Columns dataset, llm, prm, question_id, value (lower is better), and one with the competitor. Places with a
        single competitor are left out.
    competitor : str
        The name of this column, such as "calibrator". Its values can be sorted.

    Returns
    -------
    dict
        The ranks by competitor, the lowest mean rank first. Equal mean ranks are ordered by the mean value, and
        then by name.
    """
    ranks: dict[Any, list[NDArray[np.float64]]] = {}
    smallest = values.groupby("dataset")["question_id"].nunique().min() if len(values) else 0
    for _, here in values.groupby("dataset", sort=False):
        for names, place in _ranks_of_places(here, competitor):
            for name, column in zip(names, place.T, strict=True):
                ranks.setdefault(name, []).append(column)
    if not ranks:
        return {}
    # The first row has the ranks of the questions as they are, and the others those of the resamples.
    means = {name: np.mean(columns, axis=0) for name, columns in ranks.items()}
    overall = values.groupby(competitor)["value"].mean()
    order = sorted(means, key=lambda name: (means[name][0], overall[name], name))
    positions = _ranks(np.stack([means[name] for name in order], axis=1), "min")
    found = {}
    for index, name in enumerate(order):
        position, drawn = index + 1, positions[1:, index]
        ends = (
            np.quantile(drawn, (_TAIL, 1 - _TAIL), method="inverted_cdf") if len(drawn) else (1, len(order))
        )
        found[name] = Rank(
            places=len(ranks[name]),
            lowest=sum(int(column[0] < 2) for column in ranks[name]),
            mean_rank=_with_interval(means[name], int(smallest)),
            rank=position,
            rank_low=min(int(ends[0]), position),
            rank_high=max(int(ends[1]), position),
        )
    return found


def _ranks_of_places(here: pd.DataFrame, competitor: str) -> list[tuple[list[Any], NDArray[np.float64]]]:
    """Return for each place of a data set its competitors, and their ranks: (1 + replicates, competitors)."""
    totals = here.pivot_table(
        index="question_id", columns=[*PLACE, competitor], values="value", sort=False, observed=True
    )
    counted = totals.notna().to_numpy(np.float64)
    sums = np.nan_to_num(totals.to_numpy(np.float64))
    questions = len(sums)
    drawn = _BOOTSTRAP.weights(questions) if questions > 1 else np.empty((0, questions))
    weights = np.concatenate([np.ones((1, questions)), drawn])
    # A resample without any question of a place has no mean there. It is given the mean of all its questions.
    sizes = weighted_totals(weights, counted)
    means = np.where(sizes > 0, weighted_totals(weights, sums) / np.maximum(sizes, 1), np.nan)
    means = np.where(np.isnan(means), means[:1], means)
    found = []
    columns = totals.columns.to_frame(index=False)
    for _, place in columns.groupby(PLACE, sort=False):
        if len(place) > 1:
            found.append((list(place[competitor]), _ranks(means[:, place.index], "average")))
    return found


def _ranks(values: NDArray[np.float64], method: str) -> NDArray[np.float64]:
    from scipy.stats import rankdata

    ranked: NDArray[np.float64] = rankdata(values, method=method, axis=1).astype(np.float64)
    return ranked


def _with_interval(ranks: NDArray[np.float64], questions: int) -> Quantity:
    value = float(ranks[0])
    if len(ranks) == 1:
        return Quantity(value, float("nan"), float("nan"))
    low, high = percentile_interval(ranks[1:], questions)
    return Quantity(value, min(low, value), max(high, value))
