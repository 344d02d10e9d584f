"""The figures of a report, one function each. Their pictures are small multiples with the same axes in all panels."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from prmcal.db import charts, pictures
from prmcal.db.charts import Figure
from prmcal.db.reader import known_levels
from prmcal.harness.report.evidence import SETTING, Evidence, at_one_level

_PANELS = ["llm", "prm", "dataset"]  # in the order of panels
_COUNTS = (1, 4, 16, 64)
_WORSE, _BEST, _OPEN = "significantly worse", "best, or not significantly different", "not compared"


def figures(evidence: Evidence) -> list[Figure]:
    """Make all figures for which the grid has results, in their order. A new figure needs a line here."""
    two_calibrators = evidence.before + evidence.after
    drawings = [
        _histograms(evidence, "figure-2", "Errors of uncalibrated rewards", evidence.before),
        _comparison(evidence, "figure-3", "brier"),
        _comparison(evidence, "figure-3-adaptive-ce-corrected", "adaptive_ce_corrected"),
        _by_difficulty(evidence),
        _histograms(evidence, "figures-7-and-8", "Errors before and after calibration", two_calibrators),
        _ablation(evidence, "figure-15", "Target probability C", "calibrator", two_calibrators),
        _ablation(evidence, "figure-16", "Quantile level beta", "level", evidence.after),
    ]
    return [figure for figure in drawings if figure is not None]


def _histograms(evidence: Evidence, name: str, title: str, calibrators: Sequence[str]) -> Figure | None:
    """Draw Figures 2, 7 and 8 of the paper, histograms of the errors of rewards. Return None without such rewards."""
    bars = evidence.histograms[evidence.histograms["calibrator"].isin(calibrators)]
    if bars.empty:
        return None
    totals = bars.groupby([*SETTING, "calibrator"])["count"].transform("sum")
    means = evidence.errors(["signed_error"], calibrators)[[*SETTING, "calibrator", "value", "low", "high"]]
    rows = evidence.in_order(pd.concat([bars.assign(share=100 * bars["count"] / totals), means]), _PANELS)
    series = charts.series_of(evidence.names["calibrator"], calibrators)

    def draw(legend: alt.Legend) -> list[alt.Chart]:
        y = alt.Y("share:Q", title="prefixes (%)", stack=None, axis=alt.Axis(tickCount=3))
        histograms = charts.error_histograms(alt.Chart(), y, series, legend)
        histograms.encoding.x["title"], histograms.encoding.x["axis"] = None, alt.Axis(values=[-1, 0, 1])
        means = alt.Chart().mark_rule(strokeWidth=1.5)
        means = means.encode(x="value:Q", color=series.colour("calibrator", legend))
        return [histograms, charts.zero_line(), means]

    caption = (
        "Reward of each prefix minus the success rate of its follow-ups. To the right of the dashed line, the PRM "
        "overestimates. Solid lines are the means."
    )
    below = "reward \N{MINUS SIGN} success rate (above 0: overestimated)"
    picture = charts.small_multiples(rows, draw, series, below)
    return Figure(name, title, caption, picture, rows)


def _comparison(evidence: Evidence, name: str, metric: str) -> Figure | None:
    """Draw Figure 3 of the paper: every calibrator with its interval. None if the metric was not measured."""
    described, names = evidence.metrics[metric], evidence.names["calibrator"]
    rows = evidence.in_order(evidence.errors([metric], names), _PANELS)
    if rows["value"].isna().all():
        return None
    look = rows["standing"].map({"best": _BEST, "tied": _BEST, "worse": _WORSE}).fillna(_OPEN)
    rows = rows.assign(look=look, raw=rows["calibrator"].isin(evidence.before))
    series = charts.with_shapes(charts.series_of([_WORSE, _BEST], set(look)))

    def draw(legend: alt.Legend) -> list[alt.Chart]:
        x = alt.X("value:Q", title=None, axis=alt.Axis(tickCount=4, grid=True))
        dotted = alt.Chart().transform_filter("datum.raw").mark_rule(color=charts.INK, strokeDash=[1, 2])
        lines = pictures.forest(alt.Chart(), "calibrator", x, series, legend, by="look", order=names, size=25)
        return [dotted.encode(x=x), *lines]

    caption = (
        f"{described.title} of each calibrator on the test questions, with its 95% interval over questions; the best "
        "of a panel by a paired bootstrap with Holm's correction. Dotted line: uncalibrated rewards."
    )
    height, below = 11 * len(names) + 6, f"{described.title} ({described.direction})"
    picture = charts.small_multiples(rows, draw, series, below, height=height, longest=max(map(len, names)))
    return Figure(name, f"Calibrators compared by {described.title}", caption, picture, rows)


def _by_difficulty(evidence: Evidence) -> Figure | None:
    """Draw Figure 4 of the paper: accuracy by difficulty, with fixed n and with IAS. None without difficulties."""
    cells, levels = evidence.strategies_of("bon_qwen"), evidence.by_difficulty
    cells = cells[cells["calibrator"].isin(evidence.after)]
    cells = cells[cells["strategy"].isin(cells["strategy"].head(1))]
    by_level = levels[levels["cell_id"].isin(cells["cell_id"]) & levels["value"].notna()]
    by_level = by_level[by_level.groupby("dataset")["question_level"].transform("nunique") > 1]
    if by_level.empty:
        return None
    columns_of_setting = [*SETTING, "question_level"]
    samples = by_level[by_level["metric"] == "samples"].rename(columns={"value": "samples"})
    renamed = {"value": "accuracy", "low": "accuracy_low", "high": "accuracy_high"}
    ias = by_level[by_level["metric"] == "accuracy"].rename(columns=renamed)
    ias = ias.merge(samples[[*columns_of_setting, "samples"]], on=columns_of_setting).assign(series="IAS")
    fixed = evidence.points.merge(ias[columns_of_setting].drop_duplicates())
    fixed = fixed[fixed["calibrator"].isna() & fixed["samples"].isin(_COUNTS)]
    fixed = fixed.assign(series=fixed["samples"].map("n = {:g}".format))
    columns = [*columns_of_setting, "series", "samples", *renamed.values(), "questions"]
    rows = evidence.in_order(pd.concat([fixed, ias])[columns], _PANELS)
    names, difficulties = [*map("n = {}".format, _COUNTS), "IAS"], known_levels(rows["question_level"])
    series = charts.with_shapes(charts.series_of(names, set(rows["series"])))

    def draw(legend: alt.Legend) -> list[alt.Chart]:
        x = alt.X("question_level:O", title=None, sort=difficulties, axis=alt.Axis(labelAngle=0))
        scale = alt.Scale(domain=[-0.22, 1.05], nice=False)  # with room for the samples
        y = alt.Y("accuracy:Q", title="accuracy", scale=scale, axis=alt.Axis(values=[0, 0.5, 1]))
        base = alt.Chart().encode(x=x)
        ias = base.transform_filter("datum.series == 'IAS'").encode(color=series.colour("series", legend))
        text = ias.mark_text(fontSize=charts.SMALL).encode(text=alt.Text("samples:Q", format=".2~r"))
        lines = charts.curves(base, y, series, legend, point=20)
        ends = ias.mark_rule(strokeWidth=1.5).encode(y="accuracy_low:Q", y2="accuracy_high:Q")
        return [*lines, ends, text.encode(y=alt.datum(-0.12))]

    ias_cell = cells.iloc[0]
    caption = (
        f"Accuracy by difficulty: best-of-n with the same n for all questions, and '{ias_cell['strategy']}' with "
        f"'{ias_cell['calibrator']}', C = {ias_cell['target']:g} and beta = {ias_cell['level']:g}, with its 95% "
        "interval over questions and its mean samples. Data sets without several difficulties are left out."
    )
    picture = charts.small_multiples(rows, draw, series, "difficulty")
    return Figure("figure-4", "Accuracy by difficulty", caption, picture, rows)


def _ablation(evidence: Evidence, name: str, title: str, line: str, calibrators: list[str]) -> Figure | None:
    """Draw Figures 15 and 16 of the paper: accuracy against budget, a line for each calibrator or level beta."""
    points = evidence.points[evidence.points["question_level"].isna()]
    fixed, calibrated = points[points["calibrator"].isna()], points[points["calibrator"].isin(calibrators)]
    calibrated = calibrated if line == "level" else at_one_level(calibrated)
    if calibrated[line].nunique() < 2:
        return None
    calibrated = calibrated.assign(series=calibrated[line].map("beta = {:g}".format if line == "level" else str))
    rows = evidence.in_order(pd.concat([calibrated, fixed.assign(series="fixed n")]), _PANELS)
    names = evidence.names["calibrator"] if line == "calibrator" else sorted(calibrated["series"].unique())
    series = charts.with_shapes(charts.series_of(names, set(rows["series"])))

    def draw(legend: alt.Legend) -> list[alt.Chart]:
        scale = alt.Scale(type="log", base=2, domain=[0.9, 1.1 * float(rows["samples"].max())], nice=False)
        axis = alt.Axis(values=[4**power for power in range(12)], format="d")
        base = alt.Chart().encode(x=alt.X("samples:Q", scale=scale, title=None, axis=axis))
        y = alt.Y("accuracy:Q", title="accuracy", axis=alt.Axis(tickCount=3))
        return charts.curves(base, y, series, legend, band=0.12, point=12, order="samples:Q")

    caption = (
        f"Accuracy of best-of-n + IAS with {' and '.join(calibrators)} against the mean samples per question. From "
        "left to right, log(1 - C) is -0.125, -0.25, -0.5, -1, -2, -3, -4 and -5. Dashed: a fixed n of 1, 2, 4 and so "
        "on. Shaded: 95% intervals."
    )
    picture = charts.small_multiples(rows, draw, series, "mean samples per question")
    return Figure(name, title, caption, picture, rows)
