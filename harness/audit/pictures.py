"""The diagrams of an audit, each as wide as a phone."""

from collections.abc import Mapping

import altair as alt
import numpy as np
import pandas as pd

from prmcal.db import charts, pictures
from prmcal.harness.audit.detection import WORDS

_WIDTH, _LEAST, _LINE = 335, 120, 24  # pixels: of a diagram, of its values at least, of a row
_LETTERS, _LETTER = 11, 6.2  # their size, and the mean width of one
_CURVE = 280, 280
_ALL = charts.series_of(["", "all"], ["all"])
_KINDS = ["fixed n", "rule that stops early"]


def diagrams(tables: Mapping[str, pd.DataFrame]) -> dict[str, charts.Figure]:
    """Return the diagrams of the tables of an audit that have rows, by the names of the tables."""
    figures = {}
    for name, words in WORDS["diagrams"].items():
        if len(table := tables[name]):
            figures[name] = charts.Figure(name, words["title"], words["caption"], _draw(name, table), table)
    return figures


def _draw(name: str, table: pd.DataFrame) -> charts.Layers:
    if name == "reliability":
        series = charts.with_shapes(charts.series_of(["as they are", "calibrated"], [*table["series"].unique()]))
        return _styled(pictures.reliability(table, series, _points(series)), *_CURVE)
    if name == "choices":
        kinds = np.where(table["choice"].str.startswith("learned"), _KINDS[1], _KINDS[0])
        names = [f"{row.choice} ({row.samples:.1f})" for row in table.itertuples()]
        series = charts.with_shapes(charts.series_of(_KINDS, list(kinds)))
        return _forest(table.assign(label=names, kind=kinds), "label", "accuracy", "accuracy", series)
    if name == "calibrators":
        return _forest(table.assign(kind="all"), "calibrator", "cut", "Brier reduction")
    if name == "readings":
        return _forest(table.assign(kind="all"), "reading", "cut", "Brier reduction")
    return _forest(table.assign(kind="all"), "part", "error", "score - label")


def _forest(
    table: pd.DataFrame, name: str, value: str, title: str, series: charts.Series | None = None
) -> charts.Layers:
    """Draw the values of rows with their intervals. Without kinds of rows there is a line at 0."""
    rows = table.rename(columns={f"{value}_low": "low", f"{value}_high": "high"})
    room = round(_LETTER * max(map(len, rows[name])))  # browsers have fonts of many widths
    axis = alt.Axis(labelLimit=0, minExtent=room)
    scale = alt.Scale(zero=series is None)
    width = max(_LEAST, _WIDTH - room)
    x = alt.X(f"{value}:Q", title=title, scale=scale, axis=alt.Axis(tickCount=width // 50, grid=True))
    shown_series, key = series or _ALL, None if series is None else _points(series)
    layers = pictures.forest(alt.Chart(rows), name, x, shown_series, key, by="kind", axis=axis)
    forest = alt.layer(*layers) if series else alt.layer(charts.zero_line(), *layers)
    return _styled(forest, width, _LINE * len(rows))


def _points(series: charts.Series) -> alt.Legend:
    return charts.legend(series.names, lines=False, width=_CURVE[0])


def _styled(picture: charts.Layers, width: int, height: int) -> charts.Layers:
    return charts.styled(picture.properties(width=width, height=height), _LETTERS)
