"""Which two cells a comparison shows by default: a baseline, and the best other cell of the same place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from prmcal.db.metrics import Metric
from prmcal.db.statistics.standings import merit

__all__ = ["baseline_of", "comparable_with", "first_with", "place_with", "rival_of"]

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
