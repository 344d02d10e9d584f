"""Means over places with intervals over questions.

All places of a data set have the same questions, so they are not independent: the values of a question are averaged
over the places of its data set first, and questions are what the interval counts. Data sets are independent. Their
intervals are combined by the method of variance estimates recovery (Zou and Donner, 2008, "Construction of confidence
limits about effect measures", Statistics in Medicine 27, 1693-1702).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prmcal.db.overview.types import Quantity
from prmcal.db.statistics.intervals import IntervalRule, skewed_interval

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "PLACE",
    "mean_of_ends",
    "mean_over_places",
    "means_over_places",
    "question_means",
    "relative_cut",
]

PLACE = ["dataset", "llm", "prm"]
"""The columns that identify a place."""


def question_means(values: pd.DataFrame) -> dict[str, tuple[int, NDArray[np.float64]]]:
    """Average the values of every question over the places of its data set.

    Parameters
    ----------
    values : DataFrame
        Columns dataset, llm, prm, question_id and value. A place without some of the questions counts as much as the
        others.

    Returns
    -------
    dict
        For each data set the number of its places, and an array of shape (questions,) whose mean is the mean over the
        places of their means.
    """
    found = {}
    for dataset, here in values.groupby("dataset", sort=False):
        sizes = here.groupby(PLACE)["value"].transform("size")
        places = here[PLACE].drop_duplicates().shape[0]
        questions = here["question_id"].nunique()
        parts = here["value"] * (questions / places) / sizes
        means = parts.groupby(here["question_id"]).sum().to_numpy(np.float64)
        found[str(dataset)] = (places, means)
    return found


def mean_over_places(values: pd.DataFrame, rule: IntervalRule = skewed_interval) -> Quantity:
    """Return the mean over places of the mean over questions.

    Parameters
    ----------
    values : DataFrame
        As for :func:`question_means`, with at least one row.
    rule : callable
        The rule for the interval of a mean over the questions of one data set.
    """
    return _combined(question_means(values), rule)


def means_over_places(
    values: pd.DataFrame, key: str, rule: IntervalRule = skewed_interval
) -> dict[Any, Quantity]:
    """Return the mean over places for each value of a column, at once.

    Parameters
    ----------
    values : DataFrame
        As for :func:`question_means`, with the column `key`.
    key : str
        The column. Rows with an equal value belong to one mean.
    rule : callable
        As for :func:`mean_over_places`, also for several means at once.

    Returns
    -------
    dict
        What :func:`mean_over_places` returns for the rows of each value.
    """
    sizes = values.groupby([key, *PLACE], sort=False)["value"].transform("size")
    weighted = values.assign(value=values["value"] / sizes)
    sums = weighted.groupby(["dataset", key, "question_id"], sort=False)["value"].sum()
    places = values.drop_duplicates([key, *PLACE]).groupby([key, "dataset"], sort=False).size()
    found: dict[Any, list[tuple[int, float, float, float]]] = {}
    for dataset, here in sums.groupby(level="dataset", sort=False):
        table = here.droplevel("dataset").unstack(key)
        for columns in _alike(table):
            part = table[columns].dropna().to_numpy(np.float64)
            counts = np.array([places[name, dataset] for name in columns])
            means = part * (len(part) / counts)
            lows, highs = rule(means)
            for name, count, mean, low, high in zip(
                columns, counts, means.mean(axis=0), lows, highs, strict=True
            ):
                found.setdefault(name, []).append((int(count), float(mean), float(low), float(high)))
    return {name: _recovered(parts) for name, parts in found.items()}


def _alike(table: pd.DataFrame) -> list[list[Any]]:
    """Group the columns that have values for the same questions."""
    groups: dict[bytes, list[Any]] = {}
    for name in table.columns:
        groups.setdefault(table[name].notna().to_numpy().tobytes(), []).append(name)
    return list(groups.values())


def relative_cut(values: pd.DataFrame, baseline: pd.DataFrame) -> Quantity:
    """Return 1 - (mean of `values`) / (mean of `baseline`), where both have the same places and questions.

    The interval is that of the mean of the linearised ratio.

    Parameters
    ----------
    values, baseline : DataFrame
        As for :func:`question_means`.
    """
    keys = [*PLACE, "question_id"]
    both = values.merge(baseline, on=keys, suffixes=("", "_baseline"))
    means = {
        name: _combined(question_means(both[keys].assign(value=both[name])), skewed_interval).value
        for name in ("value", "value_baseline")
    }
    if not means["value_baseline"] > 0:
        return Quantity(float("nan"), float("nan"), float("nan"))
    ratio = means["value"] / means["value_baseline"]
    # To first order, the ratio of resampled questions is `ratio` plus the mean of these values, which is 0.
    apart = (both["value"] - ratio * both["value_baseline"]) / means["value_baseline"]
    spread = _combined(question_means(both[keys].assign(value=apart)), skewed_interval)
    return Quantity(1 - ratio, 1 - ratio - spread.high, 1 - ratio - spread.low)


def mean_of_ends(cells: pd.DataFrame) -> Quantity:
    """Return the mean over cells of a value and of both ends of its interval.

    The interval contains the mean of the true values in at least 95% of cases: the spread of a mean is at most the
    mean of the spreads, however the cells depend on each other.

    Parameters
    ----------
    cells : DataFrame
        Columns value, low and high, with at least one row.
    """
    return Quantity(*(float(cells[name].astype(float).mean()) for name in ("value", "low", "high")))


def _combined(parts: Mapping[str, tuple[int, NDArray[np.float64]]], rule: IntervalRule) -> Quantity:
    found = []
    for number, means in parts.values():
        low, high = (float(end) for end in rule(means))
        found.append((number, float(means.mean()), low, high))
    return _recovered(found)


def _recovered(parts: Sequence[tuple[int, float, float, float]]) -> Quantity:
    """Combine the means of data sets: for each its number of places, its mean and the ends of its interval."""
    places = sum(number for number, *_ in parts)
    value, below, above = 0.0, 0.0, 0.0
    for number, mean, low, high in parts:
        weight = number / places
        value += weight * mean
        below += (weight * (mean - low)) ** 2
        above += (weight * (high - mean)) ** 2
    return Quantity(value, value - below**0.5, value + above**0.5)
