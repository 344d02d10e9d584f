"""Cells of a leaderboard: those of a group, those that are alike, and their labels in charts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from prmcal.db.metrics import Metric
from prmcal.db.statistics.paired import merit

MEDIAN = 0.5
"""The level beta of the median, which is the point estimate."""

_GROUP = ("dataset", "llm", "prm")


def rows_of_group(table: pd.DataFrame, group: Mapping[str, str]) -> pd.DataFrame:
    """Return the rows of one group: one data set, LLM and PRM."""
    for kind in _GROUP:
        table = table[table[kind] == group[kind]]
    return table


def settings_of(target: float | None, level: float | None) -> list[str]:
    """Return the settings of a strategy, such as ``["C=0.99", "β=0.1"]``, without those that are missing."""
    return [f"{name}={value:g}" for name, value in (("C", target), ("β", level)) if not pd.isna(value)]


def interval_rows(cells: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return the cells of a leaderboard with a value of a metric as the rows of an interval chart.

    The columns are dataset, label (LLM, PRM, strategy and calibrator, with settings where cells would otherwise have
    the same label), series (the calibrator, otherwise the strategy), value, low, high and n (questions).
    """
    measured = cells.dropna(subset=[metric])
    return pd.DataFrame(
        {
            "dataset": measured["dataset"],
            "label": _labels(measured),
            "series": measured["calibrator"].fillna(measured["strategy"]),
            "value": measured[metric],
            "low": measured[f"{metric}_low"],
            "high": measured[f"{metric}_high"],
            "n": measured["questions"].astype(int),
        }
    )


def _labels(cells: pd.DataFrame) -> pd.Series:
    names = zip(*(cells[kind] for kind in ("llm", "prm", "strategy", "calibrator")), strict=True)
    short = pd.Series(
        [" · ".join(each for each in row if isinstance(each, str)) for row in names], cells.index
    )
    settings = [
        " ".join(["", *settings_of(target, level)])
        for target, level in zip(cells["target"], cells["level"], strict=True)
    ]
    ambiguous = short.groupby([cells["dataset"], short]).transform("size") > 1
    return short.where(~ambiguous, short + pd.Series(settings, cells.index))


def likest(cells: pd.DataFrame, wanted: Mapping[str, Any], metric: Metric | None = None) -> pd.DataFrame:
    """Return cells in an order: those that share most of the `wanted` coordinates first, and then the best by a metric.

    Missing coordinates are equal.
    """
    shared = pd.Series(0, cells.index)
    for kind, name in wanted.items():
        shared += cells[kind].isna() if pd.isna(name) else cells[kind] == name
    value = 0.0 if metric is None else merit(cells[metric.name], metric.better or "lower")
    order = pd.DataFrame({"shared": shared, "value": value}, cells.index)
    return cells.loc[order.sort_values(["shared", "value"], ascending=False, kind="stable").index]
