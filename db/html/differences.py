"""The differences between two runs as data for the browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prmcal.db.html.table import MetricColumn, TableData, name_columns, places, texts
from prmcal.db.metrics import Leaderboard
from prmcal.db.queries.two_runs import RunComparison
from prmcal.db.statistics.paired import SIGNIFICANCE
from prmcal.db.text.presentation import LEADERBOARDS

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["differences_table"]

_MARK = "*"


def differences_table(found: RunComparison, leaderboard: Leaderboard, first: str, other: str) -> TableData:
    """Prepare the cells that two runs have in common for the browser.

    Parameters
    ----------
    found : RunComparison
    leaderboard : {"calibration", "scaling"}
    first, other : str
        The names of the two runs.
    """
    both = found.both
    metric = found.described
    real = both["p"] < SIGNIFICANCE
    difference = f"{first} minus {other}"
    if metric.better == "near zero":
        difference += ", of the absolute values"
    return {
        "title": f"{LEADERBOARDS[leaderboard].title}: {metric.title}, {first} and {other}",
        "legend": (
            f"{metric.title}: {found.direction}. Values with 95% intervals over questions. {_MARK}: the "
            f"difference is significant (paired bootstrap, p < {SIGNIFICANCE} after Holm's correction). A difference "
            "without an interval could not be paired, because the runs have other questions or no artifacts."
        ),
        "cells": both["cell_id"].tolist(),
        "numbers": [""] * len(both),
        "reasons": {},
        "names": name_columns(both, leaderboard),
        "metrics": [
            _column("a", first, both["value_a"], both["low_a"], both["high_a"]),
            _column("b", other, both["value_b"], both["low_b"], both["high_b"]),
            _column("difference", difference, both["difference"], both["low"], both["high"], real),
        ],
        "counts": [],
        "provenance": None,
    }


def _column(
    name: str, title: str, value: pd.Series, low: pd.Series, high: pd.Series, real: pd.Series | None = None
) -> MetricColumn:
    return {
        "name": name,
        "title": title,
        "better": "",
        "description": "",
        "main": True,
        "first": "ascending",
        "value": texts(value),
        "low": texts(low),
        "high": texts(high),
        "marks": [""] * len(value) if real is None else [_MARK if each else "" for each in real],
        "best": [],
        "place": places(value),
    }
