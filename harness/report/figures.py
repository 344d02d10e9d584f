"""The figures of a report: small multiples with LLMs in rows, and PRMs and data sets in columns.

All panels of a figure have the same axes. One pixel of a picture is a point in print.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

import altair as alt
import numpy as np
import pandas as pd
import vl_convert

from prmcal.db.charts import (
    GREY,
    INK,
    PAPER,
    UNIT,
    Series,
    curves,
    error_histograms,
    legend,
    series_of,
    with_shapes,
    zero_line,
)
from prmcal.db.metrics import RANKING_METRIC
from prmcal.db.statistics.paired import SIGNIFICANCE
from prmcal.db.text.formats import number
from prmcal.db.text.presentation import LEADERBOARDS
from prmcal.harness.report.evidence import Evidence, Group, Value
from prmcal.harness.report.exhibits import Chart, numbered
from prmcal.harness.report.tables import by_difficulty

_MINUS = "\N{MINUS SIGN}"
_ONE_COLUMN, _TWO_COLUMNS = 234, 486  # widths of a column and of both columns of a page, in points
_PANEL_HEIGHT, _LINE_HEIGHT = 80, 11
_SIDES, _SPACE = 62, 12  # left and right of the panels of a picture, and between panels
_COLUMNS_OF_A_PICTURE = 6
_ROOMY = 3  # largest number of columns that leaves room for long lines
_LONGEST_LINE = 14  # of a head, in characters
_PPI = 200  # of PNG files. Print uses the PDF files.
_FONT = (
    "Liberation Sans"  # comes with vl-convert; a second font or weight would make the order of PDF files vary
)
_SMALL = 7
_LETTERS = 1.6  # letters of a legend in the width of one letter of the dashboard
_RESOURCES = re.compile(rb"(/(?:ExtGState|Font|Pattern|Shading|XObject) <<\n)((?: +/\S+ \d+ 0 R\n)+)")
_FIXED_N = "fixed n"
_BLUE = "#0985D1"


def svg_of(picture: alt.TopLevelMixin) -> str:
    """Return a picture as SVG. Equal pictures give equal texts."""
    with alt.data_transformers.enable("default", max_rows=None):
        return vl_convert.vegalite_to_svg(picture.to_dict())


def files_of(picture: alt.TopLevelMixin) -> dict[str, bytes]:
    """Return a picture as PNG, PDF and SVG, by the suffix of its file. Equal pictures give equal files."""
    svg = svg_of(picture)
    pdf = _RESOURCES.sub(_sorted_resources, vl_convert.svg_to_pdf(svg))
    return {"png": vl_convert.svg_to_png(svg, ppi=_PPI), "pdf": pdf, "svg": svg.encode()}


def _sorted_resources(found: re.Match[bytes]) -> bytes:
    """Sort the names of the resources of a page, whose order varies. The places of all objects stay the same."""
    return found[1] + b"".join(sorted(found[2].splitlines(keepends=True)))


def figure_2(evidence: Evidence) -> Chart | None:
    """Make Figure 2 of the paper: histograms of the errors of uncalibrated rewards; None without such rewards."""
    if evidence.uncalibrated is None:
        return None
    return _histograms(
        evidence,
        [evidence.uncalibrated],
        "figure-2",
        "Figure 2: errors of uncalibrated rewards",
        "Uncalibrated reward of each prefix minus the success rate of its follow-ups. To the right of the dashed line, "
        "the PRM overestimates. The solid line is the mean, which is given above each panel with its 95% interval over "
        "questions; n is the number of prefixes / questions. All panels have the same axes.",
        "Table 5 has these numbers too (signed error).",
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
        [name for name in (evidence.uncalibrated, method) if name is not None],
        "figures-7-and-8",
        "Figures 7 and 8: errors before and after calibration",
        "Reward of each prefix minus the success rate of its follow-ups: uncalibrated, and the point estimate of "
        f"'{method}'. To the right of the dashed line, the reward is too high. A calibrated PRM has a narrow peak "
        "around 0. Solid lines are the means. All panels have the same axes.",
        "The intervals of the means and n are in Table 5 (signed error).",
    )


def _histograms(
    evidence: Evidence, calibrators: Sequence[str], name: str, title: str, caption: str, reference: str
) -> Chart:
    means = _values(evidence, calibrators, "signed_error")
    bars = evidence.histograms[evidence.histograms["calibrator"].isin(calibrators)]
    totals = bars.groupby(["dataset", "prm", "llm", "calibrator"])["count"].transform("sum")
    bars = bars.assign(share=100 * bars["count"] / totals, kind="bar")
    notes = numbered(each.reason for each in means.values())
    alone = len(calibrators) == 1
    crowded = len(evidence.prms) * len(evidence.datasets) > _ROOMY
    lines = pd.DataFrame(
        [
            {
                **_place(group),
                "calibrator": calibrator,
                "kind": "mean",
                "value": value.value,
                "text": _mean_text(value, notes, crowded) if alone or value.reason else "",
            }
            for (group, calibrator), value in means.items()
        ]
    )
    series = series_of(evidence.calibrators, calibrators)
    highest = float(bars["share"].max()) if len(bars) else 100.0

    def draw(width: float, shown: alt.Legend) -> list[alt.Chart]:
        y = alt.Y(
            "share:Q",
            title="prefixes (%)",
            stack=None,
            scale=alt.Scale(domain=[0, 1.05 * highest], nice=False),
            axis=alt.Axis(tickCount=3),
        )
        histograms = error_histograms(_only("bar"), y, series, shown)
        histograms.encoding.x["title"] = None
        histograms.encoding.x["axis"] = alt.Axis(values=[-1, 0, 1], format="d")
        rules = _only("mean").mark_rule(strokeWidth=1.5)
        texts = _only("mean").transform_filter("datum.text != ''")
        texts = texts.mark_text(fontSize=_SMALL, baseline="bottom", lineBreak="\n", lineHeight=8.5, color=INK)
        top = -3 - 8.5 * max(text.count("\n") for text in lines["text"])  # the place of the first line
        return [
            histograms,
            zero_line(),
            rules.encode(x="value:Q", color=series.colour("calibrator", shown)),
            texts.encode(x=alt.value(width / 2), y=alt.value(top), text="text:N"),
        ]

    pictures = _small_multiples(
        evidence,
        pd.concat([bars, lines]),
        draw,
        series.names,
        f"reward {_MINUS} success rate (above 0: overestimated)",
        lines=False,
    )
    alternative = (
        f"Histograms of reward minus success rate with {' and '.join(calibrators)} for {_listed(evidence)}."
    )
    return Chart(name, title, caption, alternative, pictures, notes, reference)


def _mean_text(value: Value, notes: Mapping[str, int], crowded: bool) -> str:
    if value.value is None:
        return f"no rewards ({notes[value.reason or '']})"
    mean = f"mean {_signed(value.value)}"
    if value.low is not None and value.high is not None:
        mean += f"{chr(10) if crowded else ' '}[{_signed(value.low)}, {_signed(value.high)}]"
    return f"{mean}\nn = {value.prefixes:,} / {value.questions:,}"


def _signed(value: float) -> str:
    return number(value, signed=True).replace("-", _MINUS)


def figure_3(evidence: Evidence) -> Chart:
    """Make Figure 3 of the paper: the Brier score of every calibrator with its interval."""
    return _compared(evidence, "figure-3", "Figure 3: calibrators compared by Brier score", "brier")


def figure_3_main_metric(evidence: Evidence) -> Chart | None:
    """Make Figure 3 with the calibration error that the leaderboard shows; None if it was not measured."""
    shown = LEADERBOARDS["calibration"].main_metrics
    metric = next(
        (name for name in shown if evidence.described.better(name) == "lower" and name != RANKING_METRIC),
        None,
    )
    if metric is None or metric not in evidence.metrics:
        return None
    title = f"Figure 3, with another metric: {evidence.described.title(metric)}"
    return _compared(evidence, f"figure-3-{metric.replace('_', '-')}", title, metric)


_STANDINGS = {
    "best, or not significantly different": ("best", "tied"),
    "significantly worse": ("worse",),
    "not compared": (None,),
}


def _compared(evidence: Evidence, name: str, title: str, metric: str) -> Chart:
    shown_title = evidence.described.title(metric)
    values = _values(evidence, evidence.calibrators, metric)
    notes = numbered(each.reason for each in values.values())
    rows = pd.DataFrame(
        [
            {
                **_place(group),
                "calibrator": calibrator,
                "raw": calibrator == evidence.uncalibrated,
                "standing": next(key for key, known in _STANDINGS.items() if value.standing in known),
                "value": value.value,
                "low": value.low,
                "high": value.high,
                "text": ""
                if value.reason is None
                else f"{value.status if value.status != 'done' else 'none'} ({notes[value.reason]})",
            }
            for (group, calibrator), value in values.items()
        ]
    )
    rows["kind"] = np.where(rows["value"].notna(), "value", "missing")
    measured = rows[rows["kind"] == "value"]
    names = [each for each in _STANDINGS if each in set(measured["standing"])] or list(_STANDINGS)
    colours, shapes = dict(zip(_STANDINGS, (_BLUE, GREY, INK), strict=True)), ("circle", "square", "diamond")
    marks = dict(zip(_STANDINGS, shapes, strict=True))
    series = Series(
        names, [colours[each] for each in names], [[1, 0]] * len(names), [marks[each] for each in names]
    )
    ends = measured[["value", "low", "high"]]
    lowest = min(0.0, float(ends.min().min())) if len(ends) else 0.0
    highest = float(ends.max().max()) if len(ends) else 1.0
    scale = alt.Scale(domain=[lowest, highest + 0.06 * (highest - lowest)], nice=False)
    crowded = len(evidence.prms) * len(evidence.datasets) > _ROOMY

    def draw(width: float, shown: alt.Legend) -> list[alt.Chart]:
        axis = alt.Axis(ticks=False, domain=False, labelLimit=120)
        y = alt.Y("calibrator:N", sort=list(evidence.calibrators), title=None, axis=axis)
        x = alt.X("value:Q", scale=scale, title=None, axis=alt.Axis(tickCount=3 if crowded else 6, grid=True))
        low = alt.X("low:Q", scale=scale, title=None)
        base = _only("value").encode(y=y, color=series.colour("standing", shown))
        text = _only("missing").mark_text(align="left", fontSize=_SMALL, color=INK)
        return [
            _only("value").transform_filter("datum.raw").mark_rule(color=INK, strokeDash=[1, 2]).encode(x=x),
            base.mark_rule(strokeWidth=1.5).encode(x=low, x2="high:Q"),
            base.mark_point(filled=True, size=25, opacity=1).encode(
                x=x, shape=series.shape("standing", shown)
            ),
            text.encode(x=alt.value(3), y=y, text="text:N"),
        ]

    height = _LINE_HEIGHT * len(evidence.calibrators) + 6
    pictures = _small_multiples(
        evidence,
        rows,
        draw,
        names,
        f"{shown_title} ({evidence.described.direction(metric)})",
        lines=False,
        height=height,
        sides=_SIDES + 4 * min(30, max(map(len, evidence.calibrators))),
    )
    return Chart(
        name,
        title,
        f"{shown_title} of each calibrator on the test questions, with its 95% interval over "
        "questions. Circles: best of its panel, or not significantly different from the best (paired bootstrap, "
        f"p >= {SIGNIFICANCE} after Holm's correction). Squares: significantly worse than the best. Dotted line: "
        f"uncalibrated rewards. {_counts(values.values())} All panels have the same axes.",
        f"{shown_title} of {', '.join(evidence.calibrators)} with 95% intervals for {_listed(evidence)}.",
        pictures,
        notes,
        "Table 5 has the numbers.",
    )


def _counts(values: Iterable[Value]) -> str:
    questions = sorted({each.questions for each in values if each.questions is not None})
    if not questions:
        return ""
    span = f"{questions[0]:,}" if len(questions) == 1 else f"{questions[0]:,} to {questions[-1]:,}"
    return f"Each value is measured on {span} questions."


def figure_4(evidence: Evidence) -> Chart | None:
    """Make Figure 4 of the paper for every group: accuracy by difficulty, with fixed n and with IAS."""
    shown = by_difficulty(evidence)
    if shown is None:
        return None
    named = f"{shown.strategy}, {shown.calibrator}"
    rows = []
    for group, difficulty in shown.places:
        values = {f"n = {n}": shown.at_fixed(group, difficulty, n) for n in shown.fixed}
        values[named] = shown.adaptive(group, difficulty, "accuracy")
        samples = shown.adaptive(group, difficulty, "samples").value
        for name, value in values.items():
            row = {**_place(group), "series": name, "question_level": difficulty, "accuracy": value.value}
            ends = {"accuracy_low": value.low, "accuracy_high": value.high}
            text = "" if samples is None else f"{samples:.1f}" if samples < 10 else f"{samples:.0f}"
            rows.append(
                {**row, **ends, "kind": "ias" if name == named else "fixed", "text": text, "bottom": -0.12}
            )
    dashes = ([1, 2], [3, 2], [8, 2], [1, 0])[-len(shown.fixed) :]
    fixed = [f"n = {n}" for n in shown.fixed]
    (own,) = series_of(evidence.calibrators, [shown.calibrator]).colours
    series = Series(
        [*fixed, named], [*[GREY] * len(fixed), own], [*dashes, [1, 0]], [*["circle"] * len(fixed), "square"]
    )

    def draw(width: float, legend_shown: alt.Legend) -> list[alt.Chart]:
        x = alt.X("question_level:O", title=None, axis=alt.Axis(labelAngle=0))
        axis = alt.Axis(values=[0, 0.5, 1], tickCount=5)
        y = alt.Y(
            "accuracy:Q", scale=alt.Scale(domain=[-0.22, 1.05], nice=False), title="accuracy", axis=axis
        )
        low = alt.Y("accuracy_low:Q", title="accuracy")
        ias = _only("ias").encode(x=x, color=series.colour("series", legend_shown))
        text = ias.mark_text(fontSize=_SMALL).encode(y="bottom:Q", text="text:N")
        return [
            *curves(_only("fixed").encode(x=x), y, series, legend_shown),
            ias.mark_rule(strokeWidth=1.5).encode(y=low, y2="accuracy_high:Q"),
            ias.mark_point(filled=True, shape="square", size=25, opacity=1).encode(y=y),
            text,
        ]

    pictures = _small_multiples(shown.evidence, pd.DataFrame(rows), draw, series.names, "difficulty")
    return Chart(
        "figure-4",
        "Figure 4: accuracy by difficulty",
        "Accuracy by difficulty of the questions, from 1 (easy) to 5. Lines: best-of-n with the same n for every "
        f"question; longer dashes mean larger n, and the line of the largest is solid. Squares: {shown.setting}, with "
        "95% intervals over questions. At the bottom is its mean number of samples. Data sets without several "
        "difficulties are left out.",
        f"Accuracy by difficulty for {_listed(shown.evidence)}.",
        pictures,
        reference="The table below has the numbers.",
    )


def ablation_of_target(evidence: Evidence) -> Chart | None:
    """Make the ablation of C of the paper: accuracy against budget for eight values of C and every calibrator."""
    points = evidence.points
    lowest = points.groupby("calibrator")["level"].min()
    own = points[points["level"] == points["calibrator"].map(lowest)]
    style = series_of(evidence.calibrators, [*evidence.calibrators, _FIXED_N])
    return _ablation(
        evidence,
        own.assign(series=own["calibrator"]),
        style,
        "figure-ablation-c",
        "Ablation: the target probability C",
        "Each line is a calibrator at its lowest level beta.",
    )


def ablation_of_beta(evidence: Evidence) -> Chart | None:
    """Make the ablation of beta of the paper: accuracy against budget for every level of one calibrator."""
    own = evidence.points[evidence.points["calibrator"] == evidence.method]
    levels = sorted(own["level"].dropna().unique())
    if len(levels) < 2:
        return None
    named = [f"beta = {level:g}" for level in levels]
    return _ablation(
        evidence,
        own.assign(series=own["level"].map(dict(zip(levels, named, strict=True)))),
        series_of(named, [*named, _FIXED_N]),
        "figure-ablation-beta",
        "Ablation: the quantile level beta",
        f"Each line is a level of '{evidence.method}'.",
    )


def _ablation(
    evidence: Evidence, own: pd.DataFrame, style: Series, name: str, title: str, lines: str
) -> Chart | None:
    points = evidence.points
    if points["calibrator"].dropna().empty:
        return None
    fixed = points[points["calibrator"].isna()].assign(series=_FIXED_N)
    rows = pd.concat([fixed, own])
    rows = rows[rows["question_level"].isna()].assign(kind="point")
    most = float(points["samples"].max())
    series = with_shapes(style)

    def draw(width: float, shown: alt.Legend) -> list[alt.Chart]:
        ticks = [4**power for power in range(20) if 4**power <= most]
        scale = alt.Scale(type="log", base=2, domain=[0.9, most * 1.1], nice=False)
        x = alt.X("samples:Q", scale=scale, title=None, axis=alt.Axis(values=ticks, tickCount=20, format="d"))
        y = alt.Y("accuracy:Q", scale=UNIT, title="accuracy", axis=alt.Axis(values=[0, 0.5, 1], tickCount=5))
        return curves(_only("point").encode(x=x), y, series, shown, band=0.12, point=12, order="samples:Q")

    return Chart(
        name,
        title,
        "Accuracy of best-of-n + IAS against the mean samples per question, for log(1 - C) = -0.125, -0.25, -0.5, -1, "
        f"-2, -3, -4 and -5 from left to right. {lines} Dashed line: a fixed n of 1, 2, 4 and so on. All points are "
        "computed exactly from the pool. Shaded: 95% intervals of the accuracy over questions.",
        f"Accuracy against samples per question for {_listed(evidence)}.",
        _small_multiples(evidence, rows, draw, series.names, "samples per question", lines=False),
    )


def _values(evidence: Evidence, calibrators: Sequence[str], metric: str) -> dict[tuple[Group, str], Value]:
    places = [(group, calibrator) for group in evidence.groups for calibrator in calibrators]
    return {place: evidence.value(*place, metric) for place in places}


def _place(group: Group) -> dict[str, str]:
    return {"dataset": group.dataset, "prm": group.prm, "llm": group.llm}


def _only(kind: str) -> alt.Chart:
    """Return a chart of the rows of one kind."""
    chart: alt.Chart = alt.Chart().transform_filter(f"datum.kind == '{kind}'")
    return chart


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
) -> list[alt.FacetChart]:
    """Draw one panel for each group, on as many pictures as the columns need, each with a legend.

    A picture with a single column of panels is as wide as one column of a page, others are as wide as two.

    Parameters
    ----------
    evidence : Evidence
        The results, with the LLMs, PRMs and data sets.
    rows : DataFrame
        The data of all panels: columns dataset, prm, llm, kind, and those of the layers.
    draw : callable
        Returns the layers of a panel for its width and the legend. The layers have no data of their own.
    names : sequence of str
        The series that the legend lists.
    title : str
        The title of the horizontal axes.
    lines : bool
        Whether the legend shows lines.
    height : float
        Of a panel.
    sides : float
        Room for labels left and right of the panels.
    """
    columns = [(prm, dataset) for prm in evidence.prms for dataset in evidence.datasets]
    together = len(evidence.datasets)
    size = _COLUMNS_OF_A_PICTURE // together * together or _COLUMNS_OF_A_PICTURE
    heads = ["\n".join(map(_wrapped, column)) for column in columns]
    sides_of_rows = list(map(_wrapped, evidence.llms))
    rows = rows.assign(
        head=rows["prm"].map(_wrapped) + "\n" + rows["dataset"].map(_wrapped), side=rows["llm"].map(_wrapped)
    ).drop(columns=["prm", "dataset", "llm"])
    pictures = []
    for start in range(0, len(columns), size):
        here = heads[start : start + size]
        whole = _ONE_COLUMN if len(here) == 1 else _TWO_COLUMNS
        width = (whole - sides - _SPACE * (len(here) - 1)) / len(here)
        shown = legend(names, lines=lines, width=_LETTERS * (whole - sides))
        shown["symbolSize"], shown["symbolStrokeWidth"] = (120, 3) if lines else (30, 0)
        layered = alt.layer(*draw(width, shown), data=rows[rows["head"].isin(here)])
        picture = layered.properties(width=width, height=height).facet(
            row=alt.Row("side:N", sort=sides_of_rows, title=None, header=_header("left")),
            column=alt.Column("head:N", sort=here, title=None, header=_header("top")),
            spacing=_SPACE,
            title=alt.TitleParams(title, orient="bottom", anchor="middle", offset=6),
        )
        pictures.append(_styled(picture))
    return pictures


def _header(orient: Literal["left", "top"]) -> alt.Header:
    return alt.Header(
        labelExpr="split(datum.label, '\\n')",
        labelOrient=orient,
        labelFontSize=_SMALL,
        labelColor=INK,
        labelPadding=4,
        labelAngle=-90 if orient == "left" else 0,
    )


def _styled(picture: alt.FacetChart) -> alt.FacetChart:
    styled: alt.FacetChart = picture.configure(
        background=PAPER,
        font=_FONT,
        padding=4,
        axis=alt.AxisConfig(
            domainColor=GREY,
            grid=False,
            gridColor=GREY,
            gridOpacity=0.3,
            labelColor=INK,
            labelFontSize=_SMALL,
            tickColor=GREY,
            tickSize=2.5,
            titleColor=INK,
            titleFontSize=8,
            titleFontWeight="normal",
        ),
        legend=alt.LegendConfig(labelColor=INK, labelFontSize=_SMALL),
        title=alt.TitleConfig(color=INK, fontSize=8, fontWeight="normal"),
        view=alt.ViewConfig(stroke=None),
    )
    return styled


def _wrapped(name: str) -> str:
    """Break a long name into several lines, if possible after a hyphen, underscore, plus sign or space."""
    lines = [""]
    for part in re.findall(rf"[^-_+ ]{{1,{_LONGEST_LINE - 1}}}[-_+ ]?|[-_+ ]", name):
        if len(lines[-1]) + len(part) > _LONGEST_LINE:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)
