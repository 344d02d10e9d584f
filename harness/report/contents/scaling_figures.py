"""The ablations of best-of-n + IAS: accuracy against budget for every C and beta."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from prmcal.harness.report.contents.tables import calibrated
from prmcal.harness.report.evidence.read import Evidence
from prmcal.harness.report.evidence.values import Group
from prmcal.harness.report.exhibits.multiples import listed, small_multiples
from prmcal.harness.report.exhibits.style import INK, colours, markers
from prmcal.harness.report.exhibits.types import Chart

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["ablation_of_beta", "ablation_of_target"]


def ablation_of_target(evidence: Evidence) -> Chart | None:
    """Make the ablation of C of the paper: accuracy against budget for eight values of C and every calibrator."""

    def draw(axes: Axes, group: Group) -> None:
        points = evidence.scaling.curves(group)
        _fixed_line(axes, points)
        own = points[points["question_level"].isna() & points["calibrator"].notna()]
        for calibrator in evidence.calibrators:
            one = own[own["calibrator"] == calibrator]
            one = one[one["level"] == one["level"].min()]
            _curve(
                axes,
                one,
                colours(evidence.calibrators)[calibrator],
                markers(evidence.calibrators)[calibrator],
            )

    return _ablation(
        evidence,
        draw,
        "figure-ablation-c",
        "Ablation: the target probability C",
        f"Each line is a calibrator at its lowest level beta: {_key(evidence)}.",
    )


def ablation_of_beta(evidence: Evidence) -> Chart | None:
    """Make the ablation of beta of the paper: accuracy against budget for every level of one calibrator."""
    method = calibrated(evidence)
    points = evidence.scaling.points
    levels = sorted(points[points["calibrator"] == method]["level"].dropna().unique())
    if method is None or len(levels) < 2:
        return None
    named = [f"{level:g}" for level in levels]

    def draw(axes: Axes, group: Group) -> None:
        points = evidence.scaling.curves(group)
        _fixed_line(axes, points)
        own = points[points["question_level"].isna() & (points["calibrator"] == method)]
        for level, name in zip(levels, named, strict=True):
            _curve(axes, own[own["level"] == level], colours(named)[name], markers(named)[name])

    shapes = ", ".join(f"{name} ({_SHAPES[markers(named)[name]]})" for name in named)
    return _ablation(
        evidence,
        draw,
        "figure-ablation-beta",
        "Ablation: the quantile level beta",
        f"Each line is a level of '{method}': {shapes}.",
    )


_SHAPES = {
    "o": "circles",
    "s": "squares",
    "D": "diamonds",
    "^": "triangles up",
    "v": "triangles down",
    "P": "pluses",
    "X": "crosses",
    "*": "stars",
}


def _key(evidence: Evidence) -> str:
    return ", ".join(f"{name} ({_SHAPES[mark]})" for name, mark in markers(evidence.calibrators).items())


def _ablation(
    evidence: Evidence, draw: Callable[[Axes, Group], None], name: str, title: str, lines: str
) -> Chart | None:
    points = evidence.scaling.points
    if points["calibrator"].dropna().empty:
        return None
    most = points["samples"].max()
    ticks = [4**power for power in range(20) if 4**power <= most]

    def limited(axes: Axes, group: Group) -> None:
        axes.set_xscale("log", base=2)
        draw(axes, group)
        axes.set(xlim=(0.9, most * 1.1), ylim=(-0.03, 1.05))
        # Plain numbers: powers need formulas, which are switched off because names may contain dollar signs.
        axes.set_xticks(ticks, [str(tick) for tick in ticks])

    pictures = small_multiples(evidence, limited, row_height=1.8)
    for picture in pictures:
        picture.supxlabel("samples per question", fontsize=11)
        picture.supylabel("accuracy", fontsize=11)
    return Chart(
        name,
        title,
        "Accuracy of best-of-n + IAS against the mean samples per question, for log(1 - C) = -0.125, -0.25, -0.5, -1, "
        f"-2, -3, -4 and -5 from left to right. {lines} Dashed line: a fixed n of 1, 2, 4 and so on. All points are "
        "computed exactly from the pool. Shaded: 95% intervals of the accuracy over questions.",
        f"Accuracy against samples per question for {listed(evidence)}.",
        pictures,
    )


def _fixed_line(axes: Axes, points: pd.DataFrame) -> None:
    fixed = points[points["question_level"].isna() & points["calibrator"].isna()].sort_values("samples")
    axes.plot(fixed["samples"], fixed["accuracy"], color=INK, linewidth=1, linestyle=(0, (4, 3)))


def _curve(axes: Axes, points: pd.DataFrame, colour: str, marker: Any) -> None:
    drawn = points.sort_values("point")
    axes.plot(drawn["samples"], drawn["accuracy"], marker, linestyle="-", color=colour, markersize=4)
    ends = [drawn[name].astype(float) for name in ("samples", "accuracy_low", "accuracy_high")]
    axes.fill_between(*ends, color=colour, alpha=0.15, linewidth=0)
