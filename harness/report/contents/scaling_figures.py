"""The ablations of best-of-n + IAS: accuracy against budget for every C and beta."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


_DASHED = (0, (4, 3))


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
        "Each line is a calibrator at its lowest level beta.",
        evidence.calibrators,
    )


def ablation_of_beta(evidence: Evidence) -> Chart | None:
    """Make the ablation of beta of the paper: accuracy against budget for every level of one calibrator."""
    method = calibrated(evidence)
    points = evidence.scaling.points
    levels = sorted(points[points["calibrator"] == method]["level"].dropna().unique())
    if method is None or len(levels) < 2:
        return None
    named = [f"beta = {level:g}" for level in levels]

    def draw(axes: Axes, group: Group) -> None:
        points = evidence.scaling.curves(group)
        _fixed_line(axes, points)
        own = points[points["question_level"].isna() & (points["calibrator"] == method)]
        for level, name in zip(levels, named, strict=True):
            _curve(axes, own[own["level"] == level], colours(named)[name], markers(named)[name])

    return _ablation(
        evidence,
        draw,
        "figure-ablation-beta",
        "Ablation: the quantile level beta",
        f"Each line is a level of '{method}'.",
        named,
    )


def _ablation(
    evidence: Evidence,
    draw: Callable[[Axes, Group], None],
    name: str,
    title: str,
    lines: str,
    names: Sequence[str],
) -> Chart | None:
    from matplotlib.lines import Line2D

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

    handles = [Line2D([], [], color=INK, linewidth=0.8, linestyle=_DASHED, label="fixed n")]
    handles += [
        Line2D([], [], color=colours(names)[each], marker=markers(names)[each], markersize=3, label=each)
        for each in names
    ]
    pictures = small_multiples(evidence, limited, row_height=1.15, handles=handles)
    for picture in pictures:
        picture.supxlabel("samples per question")
        picture.supylabel("accuracy")
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
    axes.plot(fixed["samples"], fixed["accuracy"], color=INK, linewidth=0.8, linestyle=_DASHED)


def _curve(axes: Axes, points: pd.DataFrame, colour: str, marker: Any) -> None:
    drawn = points.sort_values("point")
    axes.plot(
        drawn["samples"], drawn["accuracy"], marker, linestyle="-", color=colour, linewidth=1.1, markersize=3
    )
    ends = [drawn[name].astype(float) for name in ("samples", "accuracy_low", "accuracy_high")]
    axes.fill_between(*ends, color=colour, alpha=0.15, linewidth=0)
