"""The figures of a report, one function each. Their pictures are small multiples with the same axes in all panels."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import altair as alt
import numpy as np
import pandas as pd

from prmcal.db import charts
from prmcal.db.metrics import RANKING_METRIC
from prmcal.db.statistics.paired import SIGNIFICANCE
from prmcal.db.text.formats import LEADERBOARDS, number
from prmcal.harness.report.evidence import PLACE, Evidence, values, wanted
from prmcal.harness.report.exhibits import CAPTIONS, Chart, numbered, span_text
from prmcal.harness.report.tables import by_difficulty

_MINUS = "\N{MINUS SIGN}"
_BLUE = "#0985D1"
_ROUND, _SQUARE = "circle", "square"

_ONE_COLUMN, _TWO_COLUMNS = 234, 486  # widths of a column and of both columns of a page, in points
_PANEL_HEIGHT, _SPACE = 80, 12  # of panels, and between them
_LINE_HEIGHT, _SIDES = 11, 62  # of a line of a panel, and the room left and right of the panels
_LEAST_COLUMN = 81  # points of a column of panels
_ROOMY = 3  # largest number of columns that leaves room for long lines
_LONGEST_LINE = 14  # of a head, in characters
_LETTERS = 1.6  # letters of a legend in the width of one letter of the dashboard


def figure_2(evidence: Evidence) -> Chart | None:
    """Make Figure 2 of the paper: histograms of the errors of uncalibrated rewards; None without such rewards."""
    if evidence.uncalibrated is None:
        return None
    return _histograms(
        evidence,
        [evidence.uncalibrated],
        "figure-2",
        "Figure 2: errors of uncalibrated rewards",
        CAPTIONS["figure 2"],
    )


def figures_7_and_8(evidence: Evidence) -> Chart | None:
    """Make Figures 7 and 8 of the paper: histograms of errors before and after calibration.

    None if the grid has no calibrator that changes rewards, or no values of it.
    """
    method = evidence.method
    if method is None or not (evidence.histograms["calibrator"] == method).any():
        return None
    return _histograms(
        evidence,
        evidence.before_and_after,
        "figures-7-and-8",
        "Figures 7 and 8: errors before and after calibration",
        "Reward of each prefix minus the success rate of its follow-ups: uncalibrated, and the point estimate of "
        f"'{method}'. To the right of the dashed line, the reward is too high. A calibrated PRM has a narrow peak "
        "around 0. Solid lines are the means. All panels have the same axes.",
    )


def _histograms(evidence: Evidence, calibrators: Sequence[str], name: str, title: str, caption: str) -> Chart:
    means = _calibration(evidence, calibrators, "signed_error")
    notes, alone, crowded = numbered(means["reason"]), len(calibrators) == 1, _is_crowded(evidence)
    means["text"] = [
        _mean_text(row, notes, crowded) if alone or row["reason"] else "" for row in means.to_dict("records")
    ]
    bars = evidence.histograms[evidence.histograms["calibrator"].isin(calibrators)]
    totals = bars.groupby([*PLACE, "calibrator"])["count"].transform("sum")
    bars = bars.assign(share=100 * bars["count"] / totals, kind="bar")
    rows = pd.concat([bars, means[[*PLACE, "calibrator", "value", "text"]].assign(kind="mean")])
    series = charts.series_of(evidence.calibrators, calibrators)
    highest = float(bars["share"].max()) if len(bars) else 100.0
    top = -3 - 8.5 * max(text.count("\n") for text in means["text"])  # the place of the first line

    def draw(width: float, shown: alt.Legend) -> list[alt.Chart]:
        y = alt.Y(
            "share:Q",
            title="prefixes (%)",
            stack=None,
            scale=alt.Scale(domain=[0, 1.05 * highest], nice=False),
            axis=alt.Axis(tickCount=3),
        )
        histograms = charts.error_histograms(_of_kind("bar"), y, series, shown)
        histograms.encoding.x["title"] = None
        histograms.encoding.x["axis"] = alt.Axis(values=[-1, 0, 1], format="d")
        rules = _of_kind("mean").mark_rule(strokeWidth=1.5)
        texts = _of_kind("mean").transform_filter("datum.text != ''")
        texts = texts.mark_text(
            fontSize=charts.SMALL, baseline="bottom", lineBreak="\n", lineHeight=8.5, color=charts.INK
        )
        return [
            histograms,
            charts.zero_line(),
            rules.encode(x="value:Q", color=series.colour("calibrator", shown)),
            texts.encode(x=alt.value(width / 2), y=alt.value(top), text="text:N"),
        ]

    below = f"reward {_MINUS} success rate (above 0: overestimated)"
    picture = _small_multiples(evidence, rows, draw, series.names, below, lines=False)
    shown = f"{' and '.join(calibrators)} for {_listed(evidence)}"
    alternative = f"Histograms of reward minus success rate with {shown}."
    return Chart(name, title, caption, alternative, picture, notes)


def _mean_text(row: Mapping[Any, Any], notes: Mapping[str, int], crowded: bool) -> str:
    if row["value"] is None:
        return f"no rewards ({notes[row['reason']]})"
    mean, low, high = (
        "" if each is None else number(each, signed=True).replace("-", _MINUS)
        for each in (row["value"], row["low"], row["high"])
    )
    between = f"{chr(10) if crowded else ' '}[{low}, {high}]" if low else ""
    return f"mean {mean}{between}\nn = {row['prefixes']:,.0f} / {row['questions']:,.0f}"


def figure_3(evidence: Evidence) -> Chart:
    """Make Figure 3 of the paper: the Brier score of every calibrator with its interval."""
    return _compared(evidence, "figure-3", "Figure 3: calibrators compared by Brier score", "brier")


def figure_3_main_metric(evidence: Evidence) -> Chart | None:
    """Make Figure 3 with the calibration error that the leaderboard shows; None if it was not measured."""
    shown = LEADERBOARDS["calibration"].main_metrics
    metric = next(
        (name for name in shown if evidence.described[name].better == "lower" and name != RANKING_METRIC),
        None,
    )
    if metric is None or metric not in evidence.metrics:
        return None
    title = f"Figure 3, with another metric: {evidence.described.title(metric)}"
    return _compared(evidence, f"figure-3-{metric.replace('_', '-')}", title, metric)


_TIED, _WORSE, _OPEN = "best, or not significantly different", "significantly worse", "not compared"
_STANDINGS = {"best": _TIED, "tied": _TIED, "worse": _WORSE}
_LOOKS = {_TIED: (_BLUE, _ROUND), _WORSE: (charts.GREY, _SQUARE), _OPEN: (charts.INK, "diamond")}


def _compared(evidence: Evidence, name: str, title: str, metric: str) -> Chart:
    described, names = evidence.described[metric], evidence.calibrators
    rows = _calibration(evidence, names, metric)
    notes = numbered(rows["reason"])
    rows["text"] = [
        f"{status if status != 'done' else 'none'} ({notes[reason]})" if reason else ""
        for status, reason in zip(rows["status"], rows["reason"], strict=True)
    ]
    rows = rows.assign(
        raw=rows["calibrator"] == evidence.uncalibrated,
        standing=rows["standing"].map(_STANDINGS).fillna(_OPEN),
        kind=np.where(rows["value"].notna(), "value", "missing"),
    )
    measured = rows[rows["kind"] == "value"]
    standings = [each for each in _LOOKS if each in set(measured["standing"])] or list(_LOOKS)
    colours, shapes = zip(*(_LOOKS[each] for each in standings), strict=True)
    series = charts.Series(standings, list(colours), [[1, 0]] * len(standings), list(shapes))
    ends = measured[["value", "low", "high"]].astype(float)
    lowest = min(0.0, float(ends.min().min())) if len(ends) else 0.0
    highest = float(ends.max().max()) if len(ends) else 1.0
    scale = alt.Scale(domain=[lowest, highest + 0.06 * (highest - lowest)], nice=False)
    ticks = 3 if _is_crowded(evidence) else 6
    questions = span_text(rows["questions"].dropna(), " to ", "no")

    def draw(width: float, shown: alt.Legend) -> list[alt.Chart]:
        axis = alt.Axis(ticks=False, domain=False, labelLimit=120)
        y = alt.Y("calibrator:N", sort=list(names), title=None, axis=axis)
        x = alt.X("value:Q", scale=scale, title=None, axis=alt.Axis(tickCount=ticks, grid=True))
        base = _of_kind("value").encode(y=y, color=series.colour("standing", shown))
        text = _of_kind("missing").mark_text(align="left", fontSize=charts.SMALL, color=charts.INK)
        return [
            _of_kind("value")
            .transform_filter("datum.raw")
            .mark_rule(color=charts.INK, strokeDash=[1, 2])
            .encode(x=x),
            *charts.intervals(base, x, size=25, shape=series.shape("standing", shown)),
            text.encode(x=alt.value(3), y=y, text="text:N"),
        ]

    return Chart(
        name,
        title,
        f"{described.title} of each calibrator on the test questions, with its 95% interval over "
        "questions. Circles: best of its panel, or not significantly different from the best (paired bootstrap, "
        f"p >= {SIGNIFICANCE} after Holm's correction). Squares: significantly worse than the best. Dotted line: "
        f"uncalibrated rewards. Each value is measured on {questions} questions. All panels have the same axes.",
        f"{described.title} of {', '.join(names)} with 95% intervals for {_listed(evidence)}.",
        _small_multiples(
            evidence,
            rows,
            draw,
            standings,
            f"{described.title} ({described.direction})",
            lines=False,
            height=_LINE_HEIGHT * len(names) + 6,
            sides=_SIDES + 4 * min(30, max(map(len, names))),
        ),
        notes,
    )


def figure_4(evidence: Evidence) -> Chart | None:
    """Make Figure 4 of the paper for every place: accuracy by difficulty, with fixed n and with IAS."""
    shown = by_difficulty(evidence)
    if shown is None:
        return None
    named = f"{shown.strategy}, {shown.calibrator}"
    found = shown.values.rename(columns={"low": "accuracy_low", "high": "accuracy_high", "value": "accuracy"})
    samples = found[found["metric"] == "samples"].set_index([*PLACE, "question_level"])["accuracy"]
    rows = found[found["metric"] == "accuracy"].merge(
        samples.rename("samples"), left_on=[*PLACE, "question_level"], right_index=True
    )
    own = rows["strategy"] == shown.strategy
    rows = rows.assign(
        kind=np.where(own, "ias", "fixed"),
        series=np.where(own, named, rows["strategy"]),
        text=["" if n is None else f"{n:.1f}" if n < 10 else f"{n:.0f}" for n in rows["samples"]],
        bottom=-0.12,
    )
    count = len(shown.fixed)
    dashes = ([1, 2], [3, 2], [8, 2], [1, 0])[-count:]
    (colour,) = charts.series_of(evidence.calibrators, [shown.calibrator]).colours
    series = charts.Series(
        [*shown.fixed, named],
        [*[charts.GREY] * count, colour],
        [*dashes, [1, 0]],
        [*[_ROUND] * count, _SQUARE],
    )

    def draw(width: float, legend_shown: alt.Legend) -> list[alt.Chart]:
        x = alt.X("question_level:O", title=None, axis=alt.Axis(labelAngle=0))
        axis = alt.Axis(values=[0, 0.5, 1], tickCount=5)
        scale = alt.Scale(domain=[-0.22, 1.05], nice=False)
        y = alt.Y("accuracy:Q", scale=scale, title="accuracy", axis=axis)
        low = alt.Y("accuracy_low:Q", title="accuracy")
        ias = _of_kind("ias").encode(x=x, color=series.colour("series", legend_shown))
        return [
            *charts.curves(_of_kind("fixed").encode(x=x), y, series, legend_shown),
            ias.mark_rule(strokeWidth=1.5).encode(y=low, y2="accuracy_high:Q"),
            ias.mark_point(filled=True, shape=_SQUARE, size=25, opacity=1).encode(y=y),
            ias.mark_text(fontSize=charts.SMALL).encode(y="bottom:Q", text="text:N"),
        ]

    return Chart(
        "figure-4",
        "Figure 4: accuracy by difficulty",
        "Accuracy by difficulty of the questions, from 1 (easy) to 5. Lines: best-of-n with the same n for every "
        f"question; longer dashes mean larger n, and the line of the largest is solid. Squares: {shown.setting}, with "
        "95% intervals over questions. At the bottom is its mean number of samples. Data sets without several "
        "difficulties are left out.",
        f"Accuracy by difficulty for {_listed(shown.evidence)}.",
        _small_multiples(shown.evidence, rows, draw, series.names, "difficulty"),
    )


def _calibration(evidence: Evidence, calibrators: Sequence[str], metric: str) -> pd.DataFrame:
    asked = wanted({**evidence.places, "calibrator": calibrators, "metric": [metric]})
    return values(evidence.calibration, asked)


def _of_kind(kind: str) -> alt.Chart:
    """Return a chart of the rows of one kind."""
    chart: alt.Chart = alt.Chart().transform_filter(f"datum.kind == '{kind}'")
    return chart


def _is_crowded(evidence: Evidence) -> bool:
    """Return whether a picture has so many columns of panels that there is no room for long lines."""
    return len(evidence.prms) * len(evidence.datasets) > _ROOMY


def _listed(evidence: Evidence) -> str:
    """Return the panels of :func:`_small_multiples`, for readers who cannot see them."""
    return (
        f"{', '.join(evidence.llms)} (rows) with {', '.join(evidence.prms)} on {', '.join(evidence.datasets)}"
    )


def _small_multiples(
    evidence: Evidence,
    rows: pd.DataFrame,
    draw: Callable[[float, alt.Legend], list[alt.Chart]],
    names: Sequence[str],
    title: str,
    *,
    lines: bool = True,
    height: float = _PANEL_HEIGHT,
    sides: float = _SIDES,
) -> alt.FacetChart:
    """Draw one panel for each group, in a picture as wide as one column of a page, or as two for several columns.

    With more than six columns of panels, it is wider. `rows` are the data of all panels: dataset, prm, llm, kind, and
    the columns of the layers. `draw` returns the layers of a panel for its width and the legend; they have no data of
    their own. The legend has the names of series, with their lines or points. The title is that of the horizontal
    axes. `height` is that of a panel, and `sides` is the room for labels left and right of the panels.
    """
    heads = [
        f"{_wrapped(prm)}\n{_wrapped(dataset)}" for prm in evidence.prms for dataset in evidence.datasets
    ]
    rows = rows.assign(
        head=rows["prm"].map(_wrapped) + "\n" + rows["dataset"].map(_wrapped), side=rows["llm"].map(_wrapped)
    ).drop(columns=["prm", "dataset", "llm"])
    whole = _ONE_COLUMN if len(heads) == 1 else max(_TWO_COLUMNS, _LEAST_COLUMN * len(heads))
    width = (whole - sides - _SPACE * (len(heads) - 1)) / len(heads)
    shown = charts.legend(names, lines=lines, width=_LETTERS * (whole - sides))
    shown["symbolSize"], shown["symbolStrokeWidth"] = (120, 3) if lines else (30, 0)
    picture = alt.layer(*draw(width, shown), data=rows).properties(width=width, height=height)
    return charts.styled(
        picture.facet(
            row=alt.Row(
                "side:N", sort=list(map(_wrapped, evidence.llms)), title=None, header=_header("left")
            ),
            column=alt.Column("head:N", sort=heads, title=None, header=_header("top")),
            spacing=_SPACE,
            title=alt.TitleParams(title, orient="bottom", anchor="middle", offset=6),
        )
    )


def _header(orient: Literal["left", "top"]) -> alt.Header:
    return alt.Header(
        labelExpr="split(datum.label, '\\n')",
        labelOrient=orient,
        labelFontSize=charts.SMALL,
        labelColor=charts.INK,
        labelPadding=4,
        labelAngle=-90 if orient == "left" else 0,
    )


def _wrapped(name: str) -> str:
    """Break a long name into several lines."""
    return "\n".join(textwrap.wrap(name, _LONGEST_LINE)) or name
