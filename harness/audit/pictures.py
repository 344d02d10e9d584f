"""The diagrams of an audit, each as wide as a phone."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import numpy as np
import pandas as pd

from prmcal.db.charts import (
    INK,
    UNIT,
    Layers,
    Series,
    curves,
    diagonal,
    intervals,
    legend,
    series_of,
    with_shapes,
    zero_line,
)
from prmcal.harness.report.exhibits import Chart
from prmcal.harness.report.pictures import styled

_WIDTH, _LEAST, _LINE = 335, 120, 24  # pixels: of a diagram, of its values at least, of a row
_LETTERS, _LETTER = 11, 6.2  # their size, and the mean width of one
_CURVE = 280, 200
_AS_THEY_ARE, _CALIBRATED, _RULE = "as they are", "calibrated", "rule that stops early"
_FIXED = "fixed setting"


def charts(tables: Mapping[str, pd.DataFrame]) -> dict[str, Chart]:
    """Return the diagrams of the tables of an audit that have rows, by the names of the tables."""
    drawn = {
        "reliability": _reliability,
        "steps": _steps,
        "difficulty": _difficulty,
        "calibrators": _calibrators,
        "learning": _learning,
        "choices": _choices,
    }
    return {name: draw(tables[name]) for name, draw in drawn.items() if len(tables[name])}


def _reliability(table: pd.DataFrame) -> Chart:
    series = with_shapes(series_of([_AS_THEY_ARE, _CALIBRATED], list(dict.fromkeys(table["series"]))))
    rows = _with_ends(table, "right")
    shown = _points(series)
    x = alt.X("score:Q", scale=UNIT, title="mean score")
    y = alt.Y("right:Q", scale=UNIT, title="share that is right")
    layers = curves(alt.Chart(rows).encode(x=x), y, series, shown, rule=0.6, point=45)
    return Chart(
        "reliability",
        "Reliability",
        "Each point is a tenth of the prefixes: their mean score, and the share that is right with its 95% interval "
        "over questions. Scores that can be read as probabilities lie on the dashed line. Calibrated scores are those "
        "of questions that the fit has not seen.",
        "Reliability diagram: the share that is right against the mean score.",
        _styled(alt.layer(diagonal(), *layers), *_CURVE),
    )


def _steps(table: pd.DataFrame) -> Chart:
    return Chart(
        "steps",
        "By place in the solution",
        "Mean of score - label. To the right of the dashed line, the scores are too high.",
        "Mean of score - label by place in the solution, with 95% intervals.",
        _forest(table, "part", "score - label"),
    )


def _difficulty(table: pd.DataFrame) -> Chart:
    kind = str(table["kind"].iloc[0])
    return Chart(
        "difficulty",
        "By difficulty",
        f"Mean of score - label by {kind}. To the right of the dashed line, the scores are too high.",
        f"Mean of score - label by {kind}, with 95% intervals.",
        _forest(table, "part", "score - label"),
    )


def _calibrators(table: pd.DataFrame) -> Chart:
    return Chart(
        "calibrators",
        "Calibrators compared",
        "Cut of the Brier score on questions that the fit has not seen. Right of the dashed line, a calibrator helps. "
        "The last line is the one that is chosen within the folds, so that the choice does not flatter it.",
        "Cut of the Brier score by each calibrator, with 95% intervals.",
        _forest(table, "calibrator", "cut of the Brier score"),
    )


def _learning(table: pd.DataFrame) -> Chart:
    rows = _with_ends(table, "cut").assign(series="cut")
    counts = [int(each) for each in rows["labelled"]]
    scale = alt.Scale(type="log", base=2, domain=[counts[0] * 0.9, counts[-1] * 1.1], nice=False)
    axis = alt.Axis(values=counts, format=",d", labelOverlap=True)
    x = alt.X("labelled:Q", scale=scale, title="labelled questions", axis=axis)
    y = alt.Y("cut:Q", title="cut of the Brier score")
    layers = curves(alt.Chart(rows).encode(x=x), y, series_of(["", "cut"], ["cut"]), None, rule=0.6, point=45)
    return Chart(
        "learning",
        "How many labelled questions it takes",
        "Cut of the Brier score on the half of the questions that the fit has not seen, as a mean of five halves, with "
        "its 95% interval over questions.",
        "Cut of the Brier score against the number of labelled questions.",
        _styled(alt.layer(_level_line(), *layers), *_CURVE),
    )


def _choices(table: pd.DataFrame) -> Chart:
    rows = table.assign(kind=np.where(table["against"].notna(), _RULE, _FIXED))
    kinds = list(dict.fromkeys(rows["kind"]))
    return Chart(
        "choices",
        "Ways to choose an answer",
        "Share of the questions that are answered right, with its 95% interval. The number behind a name is the mean "
        "number of samples.",
        "Accuracy of each way to choose an answer, with 95% intervals.",
        _forest(
            rows.assign(label=[f"{row.choice} ({row.samples:.1f})" for row in rows.itertuples()]),
            "label",
            "accuracy",
            series=with_shapes(series_of([_FIXED, _RULE], kinds)),
        ),
    )


def _forest(table: pd.DataFrame, name: str, title: str, series: Series | None = None) -> Layers:
    """Draw the values of rows with their intervals, with a line at 0 unless the rows have kinds."""
    value = next(each for each in ("accuracy", "cut", "error") if each in table)
    rows = _with_ends(table, value).rename(columns={f"{value}_low": "low", f"{value}_high": "high"})
    room = round(_LETTER * max(map(len, rows[name])))  # browsers have fonts of many widths
    axis = alt.Axis(ticks=False, domain=False, labelLimit=0, minExtent=room)
    y = alt.Y(f"{name}:N", sort=list(rows[name]), title=None, axis=axis)
    x = alt.X(f"{value}:Q", title=title, axis=alt.Axis(tickCount=4, grid=True))
    if series is not None:
        x["scale"] = alt.Scale(zero=False)
    shown = series or series_of(["", "all"], ["all"])
    base = alt.Chart(rows if series else rows.assign(kind="all"))
    base = base.encode(y=y, color=shown.colour("kind", _points(shown) if series else None))
    layers = intervals(base, x, shape=shown.shape("kind", _points(shown) if series else None))
    drawn = alt.layer(*layers) if series else alt.layer(zero_line(), *layers)
    return _styled(drawn, max(_LEAST, _WIDTH - room), _LINE * len(rows))


def _with_ends(table: pd.DataFrame, value: str) -> pd.DataFrame:
    """Return a table in which a value without an interval has one of no length."""
    return table.assign(**{end: table[end].fillna(table[value]) for end in (f"{value}_low", f"{value}_high")})


def _points(series: Series) -> alt.Legend:
    return legend(series.names, lines=False, width=_CURVE[0])


def _level_line() -> alt.Chart:
    line = alt.Chart(pd.DataFrame({"y": [0.0]})).mark_rule(color=INK, strokeDash=[4, 4])
    drawn: alt.Chart = line.encode(y="y:Q")
    return drawn


def _styled(picture: Layers, width: int, height: int) -> Layers:
    return styled(picture.properties(width=width, height=height), _LETTERS)
