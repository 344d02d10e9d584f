"""The charts, read from their Vega-Lite specifications."""

from __future__ import annotations

import itertools

import altair as alt
import pandas as pd
import pytest

from prmcal.dashboard.charts.intervals import interval_chart
from prmcal.dashboard.charts.scaling import frontier_chart
from prmcal.dashboard.charts.style import colour_scale, shape_scale

CALIBRATORS = ("uncalibrated", "isotonic")


def rows(groups: list[str], *ends: tuple[float, float, float]) -> pd.DataFrame:
    values = pd.DataFrame(ends, columns=["value", "low", "high"])
    cells = pd.Series(["isotonic", "uncalibrated"] * len(values)).head(len(values))
    return values.assign(group=groups, llm="weak", cell=cells, series=cells, n=100)


def drawn(table: pd.DataFrame, *, zero: bool = False) -> dict[str, dict[str, object]]:
    """Return the scales of both axes."""
    scales = (colour_scale(CALIBRATORS, CALIBRATORS), shape_scale(["weak"], ["weak"]))
    chart = interval_chart(table, "Brier", *scales, zero=zero).to_dict()
    encoding = chart["layer"][-1]["encoding"]
    return {axis: encoding[axis]["scale"] for axis in ("x", "y")}


def test_every_cell_has_a_line_below_the_name_of_its_group() -> None:
    lines = drawn(rows(["a", "a", "b"], *[(0.5, 0.4, 0.6)] * 3))["y"]["domain"]
    assert lines == ["0000a", "0001isotonic", "0002uncalibrated", "0003b", "0004isotonic"]
    assert drawn(rows([""], (0.5, 0.4, 0.6)))["y"]["domain"] == ["0000isotonic"]


@pytest.mark.parametrize(
    ("ends", "zero", "low", "high"),
    [
        ((0.01, 0.0, 0.02), False, 0.0, 0.025),
        ((0.99, 0.9, 1.0), False, 0.895, 1.0),
        ((0.3, 0.2, 0.4), True, 0.0, 0.412),
        ((-0.3, -0.4, -0.2), True, -0.412, 0.012),
        ((2.0, 2.0, 2.0), False, 1.995, 2.005),
    ],
)
def test_an_axis_spans_the_intervals_and_no_impossible_values(
    ends: tuple[float, float, float], zero: bool, low: float, high: float
) -> None:
    assert drawn(rows(["a"], ends), zero=zero)["x"]["domain"] == pytest.approx([low, high])


@pytest.mark.parametrize("best", [0.4, 0.9])
def test_labels_do_not_overlap_each_other_or_the_curves(best: float) -> None:
    names = ["pass@1", "oracle IAS", "best-of-n", "majority vote", ""]
    points = pd.DataFrame(
        {
            "series": "fixed n",
            "name": "x",
            "label": names,
            "cost": [1.0, 24.0, 64.0, 64.0, 8.0],
            "accuracy": [best / 2, best, best, best, best],
            "accuracy_low": best / 2,
            "accuracy_high": best,
            "unbeaten": False,
        }
    )
    curve = pd.DataFrame(
        {"series": "fixed n", "cost": [1.0], "accuracy": best, "accuracy_low": best, "accuracy_high": best}
    ).assign(unbeaten=False)
    colours = alt.Scale(domain=["fixed n"], range=["#000000"])
    chart = frontier_chart(curve, points, "Mean samples", colours, "circle").to_dict()
    labelled = {
        row["label"]: row["label_at"]
        for data in chart["datasets"].values()
        for row in data
        if "label_at" in row
    }
    assert set(labelled) == set(names) - {""}
    heights = sorted(labelled.values())
    assert min(b - a for a, b in itertools.pairwise(heights)) > 0.05
    assert heights[-1] < 0.25 if best > 0.5 else heights[0] > 0.7
