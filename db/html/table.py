"""A leaderboard as data for the browser: columns of text as a reader sees them, and the places for sorting.

The numbers become text here and not in the browser, so that all pages, files and commands round them alike.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypedDict

from prmcal.db.metrics import TIERS, Leaderboard, Metrics, cell_number
from prmcal.db.statistics.paired import last_places, merit
from prmcal.db.text.formats import number
from prmcal.db.text.presentation import (
    COORDINATE_TITLES,
    LEADERBOARDS,
    SYMBOLS,
    leaderboard_legend,
)
from prmcal.db.text.provenance import PROVENANCE_LEGEND, VERIFIED, renewal, tier_choice, verified_text
from prmcal.db.text.readable import missing

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "FILTERS",
    "TIER",
    "CountColumn",
    "MetricColumn",
    "NameColumn",
    "Provenance",
    "TableData",
    "leaderboard_table",
    "name_columns",
    "places",
    "table_json",
    "texts",
]

_MINUS = "\N{MINUS SIGN}"
_NAMES = {
    "calibration": ("calibrator", "dataset", "llm", "prm"),
    "scaling": ("strategy", "calibrator", "target", "level", "dataset", "llm", "prm"),
    "league": ("strategy", "calibrator", "level", "dataset", "llm", "prm"),
}
"""The coordinates of each leaderboard, in the order of columns. The first one names the row."""


FILTERS = {
    "dataset": "datasets",
    "llm": "llms",
    "prm": "prms",
    "calibrator": "calibrators",
    "strategy": "strategies",
}
"""The parameters of an address that filter rows, by the coordinate whose names they keep."""


TIER = "tier"
"""The parameter of an address that keeps the rows verified at a tier or at a higher one."""


class NameColumn(TypedDict):
    """A coordinate of the cells. Row i has the name ``values[codes[i]]``, or none if the code is -1.

    ``filter`` is the parameter of the address with the names that are shown. It is empty for a number.
    """

    name: str
    title: str
    filter: str
    values: list[str]
    codes: list[int]


class MetricColumn(TypedDict):
    """A metric of the cells, with a list entry per row. A missing value is None.

    ``value``, ``low`` and ``high`` are texts; ``marks`` are the standing and the tie letters; ``best`` lists the rows
    that are the best of their group. ``place`` is 0 for the best value, or for the lowest if no value is better.
    """

    name: str
    title: str
    better: str
    description: str
    main: bool
    first: str
    value: list[str | None]
    low: list[str | None]
    high: list[str | None]
    marks: list[str]
    best: list[int]
    place: list[int | None]


class CountColumn(TypedDict):
    """A number of questions, prefixes or trajectories behind the values of each row."""

    title: str
    values: list[str]


class Provenance(TypedDict):
    """Where the rows of a merged leaderboard come from.

    ``tiers`` are the names of the tiers, the lowest first, and ``choices`` the texts of the options that filter by
    them. Row i was verified at ``tiers[tier[i]]``, or not at all if this is -1, and ``verified[i]`` says by whom.
    ``outdated`` says what of a row is not current, and ``renewals`` has the command that measures it again.
    """

    title: str
    tiers: list[str]
    choices: list[str]
    tier: list[int]
    verified: list[str]
    outdated: dict[str, str]
    renewals: dict[str, str]


class TableData(TypedDict):
    """A leaderboard. ``numbers`` are the short numbers of the cells. ``reasons`` says why a row has no values.

    ``provenance`` is None unless the leaderboard is a merged one.
    """

    title: str
    legend: str
    cells: list[str]
    numbers: list[str]
    reasons: dict[str, str]
    names: list[NameColumn]
    metrics: list[MetricColumn]
    counts: list[CountColumn]
    provenance: Provenance | None


def leaderboard_table(frame: pd.DataFrame, leaderboard: Leaderboard, described: Metrics) -> TableData:
    """Prepare a leaderboard, as :func:`prmcal.db.queries.leaderboard.leaderboard` returns it, for the browser.

    `described` are the metrics of the run.
    """
    text = LEADERBOARDS[leaderboard]
    measured = [name for name in frame.columns if f"{name}_low" in frame and frame[name].notna().any()]
    waiting = frame[frame["status"] != "done"]
    provenance = _provenance(frame) if "tier" in frame else None
    legend = leaderboard_legend(SYMBOLS)
    return {
        "title": f"{text.title} leaderboard",
        "legend": f"{legend} {PROVENANCE_LEGEND}" if provenance else legend,
        "cells": frame["cell_id"].tolist(),
        "numbers": [cell_number(each) for each in frame["number"].tolist()],
        "reasons": {
            str(row): status if not isinstance(reason, str) else f"{status}: {reason}"
            for row, status, reason in zip(waiting.index, waiting["status"], waiting["reason"], strict=True)
        },
        "names": name_columns(frame, leaderboard),
        "metrics": [_metric_column(frame, name, described, name in text.main_metrics) for name in measured],
        "counts": [_count_column(frame, "questions", "Questions"), _count_column(frame, "rows", text.rows)],
        "provenance": provenance,
    }


def table_json(table: TableData) -> str:
    """Return a table as JSON that is also safe inside a ``<script>`` element."""
    return json.dumps(table, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def name_columns(frame: pd.DataFrame, leaderboard: Leaderboard) -> list[NameColumn]:
    """Return the coordinates of cells, which are columns of `frame`, in the order in which they are shown."""
    return [_name_column(frame[name], name) for name in _NAMES[leaderboard]]


def texts(values: Iterable[float]) -> list[str | None]:
    """Return numbers as readers see them, and None for NaN."""
    return [number(value).replace("-", _MINUS) if value == value else None for value in values]


def places(worth: pd.Series) -> list[int | None]:
    """Return the place of each value from 0, the lowest first. Equal values share a place; NaN has none."""
    return [int(place) - 1 if place == place else None for place in worth.rank(method="dense").tolist()]


def _provenance(frame: pd.DataFrame) -> Provenance:
    rows = frame.to_dict("records")
    outdated = {str(place): row for place, row in enumerate(rows) if not missing(row["outdated"])}
    return {
        "title": VERIFIED,
        "tiers": list(TIERS),
        "choices": [tier_choice(tier) for tier in (None, *TIERS)],
        "tier": [-1 if missing(row["tier"]) else TIERS.index(row["tier"]) for row in rows],
        "verified": [
            verified_text(row["tier"], row["verified_by"], row["verified_at"], row["failed_verifications"])
            for row in rows
        ],
        "outdated": {place: str(row["outdated"]) for place, row in outdated.items()},
        "renewals": {place: renewal(row) for place, row in outdated.items()},
    }


def _name_column(names: pd.Series, name: str) -> NameColumn:
    values: dict[Any, int] = {}
    known = names.notna()
    codes = [
        values.setdefault(value, len(values)) if there else -1
        for value, there in zip(names.tolist(), known.tolist(), strict=True)
    ]
    if name in ("target", "level"):  # numbers are sorted, names keep the order of the grid
        order = {value: place for place, value in enumerate(sorted(values))}
        codes = [-1 if code < 0 else order[value] for code, value in zip(codes, names.tolist(), strict=True)]
        values = order
    texts = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
    return {
        "name": name,
        "title": COORDINATE_TITLES[name],
        "filter": FILTERS.get(name, ""),
        "values": texts,
        "codes": codes,
    }


def _metric_column(frame: pd.DataFrame, name: str, described: Metrics, main: bool) -> MetricColumn:
    better = described.better(name)
    value = frame[name].astype(float).where(frame["status"] == "done")
    worth = -merit(value, better) if better else value
    last = last_places(frame, name, better)
    standings = [
        "last" if cell in last else standing
        for cell, standing in zip(frame["cell_id"].tolist(), frame[f"{name}_standing"].tolist(), strict=True)
    ]
    letters = [each if isinstance(each, str) else "" for each in frame[f"{name}_letters"].tolist()]
    marks = [SYMBOLS.get(standing, "") for standing in standings]
    return {
        "name": name,
        "title": described.title(name),
        "better": described.direction(name),
        "description": described.description(name),
        "main": main,
        "first": "descending" if better == "higher" else "ascending",
        "value": texts(value),
        "low": texts(frame[f"{name}_low"].astype(float)),
        "high": texts(frame[f"{name}_high"].astype(float)),
        "marks": [
            f"{mark} {each}" if mark and each else mark for mark, each in zip(marks, letters, strict=True)
        ],
        "best": [row for row, standing in enumerate(standings) if standing == "best"],
        "place": places(worth),
    }


def _count_column(frame: pd.DataFrame, name: str, title: str) -> CountColumn:
    counts = frame[name].tolist()
    return {"title": title, "values": ["" if missing(count) else f"{count:,.0f}" for count in counts]}
