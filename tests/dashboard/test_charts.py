"""The charts, read from their Vega-Lite specifications."""

from __future__ import annotations

import itertools
import re

import altair as alt
import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from prmcal.dashboard.charts.curves import FIXED
from prmcal.dashboard.charts.drawn import frontier_chart, reliability_chart
from prmcal.db.charts import DARK, GREY, INK, on_dark, series_of

CALIBRATORS = ("uncalibrated", "isotonic")


@pytest.mark.parametrize("best", [0.4, 0.9])
def test_labels_do_not_overlap_and_the_axis_is_that_of_the_data(best: float) -> None:
    names = ["pass@1", "oracle IAS", "best-of-n", "majority vote"]
    measured = pd.DataFrame(
        {
            "series": FIXED,
            "name": "x",
            "label": names,
            "cost": [1.0, 24.0, 64.0, 64.0],
            "accuracy": [best / 2, best, best, best],
            "accuracy_low": best / 2,
            "accuracy_high": best,
        }
    )
    point = {"series": FIXED, "cost": [1.0], "accuracy": best, "accuracy_low": best, "accuracy_high": best}
    table = pd.DataFrame(point).assign(C=0.99, beta=0.5)
    style = series_of(CALIBRATORS, [FIXED])
    chart = frontier_chart(table, table, measured, table, style, 0.99).to_dict()
    labelled = {row["label"]: row for data in chart["datasets"].values() for row in data if "label_at" in row}
    assert set(labelled) == set(names)
    for left in (True, False):
        heights = sorted(row["label_at"] for row in labelled.values() if row["left"] == left)
        assert all(b - a > 0.05 * best / 2 for a, b in itertools.pairwise(heights))
        assert best / 2 <= heights[0] and heights[-1] < 0.7 * best
    scales = re.findall(r"'domain': \[([\d.]+), ([\d.]+)\], 'nice': True", str(chart))
    assert set(scales) == {(str(best / 2), str(best))}


@pytest.mark.parametrize("dark", [False, True])
def test_fourteen_calibrators_are_distinguishable(dark: bool) -> None:
    page = (23, 22, 19) if dark else (255, 255, 255)
    names = [f"calibrator-{place}" for place in range(14)]
    style = series_of(names, names)
    for marks in (
        zip(style.colours, map(tuple, style.dashes), strict=True),
        zip(style.colours, style.shapes, strict=True),
    ):
        assert len(set(marks)) == 14
    ink, grey, *first = [DARK.get(each, each) if dark else each for each in dict.fromkeys([INK, GREY, *style.colours])]
    assert all(contrast(rgb(each), page) >= 3 for each in (grey, *first))
    assert contrast(rgb(ink), page) >= 4.5
    assert len(first) == 8
    # The chart has one legend for colours and dashes, and shapes of its points only if they differ.
    chart = alt.Chart().mark_point().encode(shape=style.shape("series", None))
    assert chart.to_dict()["encoding"]["shape"]["scale"]["range"] == style.shapes
    chart = alt.Chart().mark_point().encode(shape=series_of(names, names[:3]).shape("series", None))
    assert chart.to_dict()["encoding"]["shape"] == {"value": "circle"}


def test_a_chart_on_a_dark_page_has_other_colours_and_the_same_data() -> None:
    names = ["uncalibrated", "isotonic"]
    table = pd.DataFrame({"calibrator": names, "count": 9, "mean_reward": 0.9, "mean_success": [0.5, 0.6]})
    light = reliability_chart(table.assign(low=0.4, high=0.7), series_of(names, names))
    before = light.to_json()
    dark = on_dark(light).to_dict()
    assert light.to_json() == before
    assert dark["datasets"] == light.to_dict()["datasets"]
    assert not set(re.findall(r"#\w{6}", str({**dark, "datasets": {}}))) & set(DARK)
    assert re.findall(r"#\w{6}", str({**dark, "datasets": {}}))


def rgb(colour: str) -> tuple[int, int, int]:
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return red, green, blue


def linear(colour: tuple[int, int, int]) -> NDArray[np.float64]:
    part = np.array(colour) / 255
    light: NDArray[np.float64] = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    return light


def contrast(one: tuple[int, int, int], other: tuple[int, int, int]) -> float:
    """The contrast ratio of WCAG."""
    low, high = sorted(float(linear(each) @ [0.2126, 0.7152, 0.0722]) for each in (one, other))
    return (high + 0.05) / (low + 0.05)
