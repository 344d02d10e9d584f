"""Cells of a leaderboard: those of a group, their labels in charts, and the two that a comparison shows first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    """Return the cells with a value of a metric as the rows of an interval chart.

    Parameters
    ----------
    cells : DataFrame
        A leaderboard, as :func:`prmcal.db.catalog.leaderboard` returns it.
    metric : str
        The name of the metric.

    Returns
    -------
    DataFrame
        Columns dataset, group (the LLM and the PRM), llm, cell (strategy and calibrator, with settings where cells of
        a group would otherwise have the same label), series (the calibrator, otherwise the strategy), value, low, high
        and n (questions).
    """
    measured = cells.dropna(subset=[metric])
    prm = measured["prm"].map(lambda name: f" · {name}" if isinstance(name, str) else "")
    return pd.DataFrame(
        {
            "dataset": measured["dataset"],
            "group": measured["llm"] + prm,
            "llm": measured["llm"],
            "cell": _labels(measured),
            "series": measured["calibrator"].fillna(measured["strategy"]),
            "value": measured[metric],
            "low": measured[f"{metric}_low"],
            "high": measured[f"{metric}_high"],
            "n": measured["questions"].astype(int),
        }
    )


def _labels(cells: pd.DataFrame) -> pd.Series:
    pairs = zip(cells["strategy"], cells["calibrator"], strict=True)
    short = pd.Series(
        [" · ".join(name for name in pair if isinstance(name, str)) for pair in pairs], cells.index
    )
    settings = [
        " ".join(["", *settings_of(target, level)])
        for target, level in zip(cells["target"], cells["level"], strict=True)
    ]
    group = [cells[kind].fillna("") for kind in _GROUP]
    ambiguous = short.groupby([*group, short]).transform("size") > 1
    return short.where(~ambiguous, short + pd.Series(settings, cells.index))


_PLACE = ("dataset", "llm", "prm")
_SETTING = ("strategy", "target", "level")


def first_with(
    cells: pd.DataFrame, kinds: Sequence[str], wanted: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Return the first cell that has one of the wanted names of each kind.

    Parameters
    ----------
    cells : DataFrame
        At least one cell.
    kinds : sequence of str
        The coordinates that count, the most important first. A name that no cell has beside the names of the kinds
        before it is ignored.
    wanted : mapping
        The wanted names by kind. Of a kind that is left out, all names are wanted.
    """
    for kind in kinds:
        kept = cells[cells[kind].isin(list(wanted.get(kind, ())))]
        cells = kept if len(kept) else cells
    return dict(cells.iloc[0])


def place_with(cells: pd.DataFrame, wanted: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """Return the cells of the first data set, LLM and PRM with wanted names."""
    named = cells.dropna(subset=list(_PLACE))
    return cells[_same(cells, first_with(named if len(named) else cells, _PLACE, wanted), _PLACE)]


def baseline_of(cells: pd.DataFrame, baselines: Sequence[str], metric: Metric) -> str:
    """Return the identifier of the best cell of a place whose calibrator leaves rewards unchanged.

    If the place has no such cell, return its first cell.
    """
    unchanged = cells[cells["calibrator"].isin(list(baselines))]
    return _best(unchanged, metric) if len(unchanged) else str(cells["cell_id"].iloc[0])


def comparable_with(cells: pd.DataFrame, cell: Mapping[str, Any]) -> pd.DataFrame:
    """Return the other cells of the same data set, those of the same place first."""
    others = cells[(cells["dataset"] == cell["dataset"]) & (cells["cell_id"] != cell["cell_id"])]
    same = _same(others, cell, _PLACE)
    return pd.concat([others[same], others[~same]])


def rival_of(others: pd.DataFrame, cell: Mapping[str, Any], metric: Metric) -> str:
    """Return the identifier of the best of the other cells: of the same place and setting, if there is one.

    Cells of the same place and setting differ in their calibrator only.
    """
    near = others[_same(others, cell, _PLACE)]
    nearest = near[_same(near, cell, _SETTING)]
    return _best(next((found for found in (nearest, near) if len(found)), others), metric)


def _best(cells: pd.DataFrame, metric: Metric) -> str:
    values = merit(cells[metric.name], metric.better or "lower").sort_values(ascending=False, kind="stable")
    return str(cells.loc[values.index[0], "cell_id"])


def _same(cells: pd.DataFrame, cell: Mapping[str, Any], kinds: Sequence[str]) -> pd.Series:
    """Return which cells have the same coordinates of these kinds. Missing coordinates are equal."""
    same = pd.Series(True, cells.index)
    for kind in kinds:
        same &= cells[kind].isna() if pd.isna(cell[kind]) else cells[kind] == cell[kind]
    return same
