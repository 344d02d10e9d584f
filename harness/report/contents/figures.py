"""The figures of calibration errors, one function each.

LLMs are rows of panels; PRMs and data sets are columns. All panels of a figure have the same axes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from prmcal.db.metrics import RANKING_METRIC
from prmcal.db.statistics.paired import SIGNIFICANCE
from prmcal.db.text.formats import number
from prmcal.db.text.presentation import LEADERBOARDS
from prmcal.harness.report.evidence.read import Evidence
from prmcal.harness.report.evidence.values import Group, RewardErrors, Value
from prmcal.harness.report.exhibits.multiples import crowded, listed, small_multiples
from prmcal.harness.report.exhibits.style import GUIDE, INK, MEAN, RAW, SMALL, colours, markers
from prmcal.harness.report.exhibits.types import Chart, numbered

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["figure_2", "figure_3", "figure_3_main_metric", "why_no_errors"]

_MINUS = "\N{MINUS SIGN}"
_DASHED, _DOTTED = (0, (4, 3)), (0, (1, 2))


def figure_2(evidence: Evidence) -> Chart:
    """Make Figure 2 of the paper: histograms of the errors of uncalibrated rewards."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    errors = evidence.errors
    reasons = {group: why_no_errors(evidence, group) for group in evidence.groups if group not in errors}
    notes = numbered(reasons.values())
    highest = max((max(each.counts) / each.prefixes for each in errors.values()), default=1.0)

    def draw(axes: Axes, group: Group) -> None:
        axes.axvline(0, color=INK, linewidth=0.8, linestyle=_DASHED)
        axes.set(xlim=(-1.05, 1.05), ylim=(0, 100 * highest * 1.05), xticks=(-1, 0, 1))
        if group in errors:
            _draw_errors(axes, errors[group])
        else:
            axes.text(
                0.5,
                0.5,
                f"no rewards ({notes[reasons[group]]})",
                ha="center",
                transform=axes.transAxes,
                color=GUIDE,
            )

    handles = [
        Patch(color=RAW, alpha=0.75, label="prefixes with uncalibrated rewards"),
        Line2D([], [], color=MEAN, linewidth=1.2, label="mean error"),
        Line2D([], [], color=INK, linewidth=0.8, linestyle=_DASHED, label="no error"),
    ]
    pictures = small_multiples(evidence, draw, row_height=1.15, handles=handles)
    in_table = "Table 5 has these numbers too (signed error). " if evidence.uncalibrated else ""
    for picture in pictures:
        picture.supxlabel(f"reward {_MINUS} success rate (above 0: overestimated)")
        picture.supylabel("prefixes (%)")
    return Chart(
        "figure-2",
        "Figure 2: errors of uncalibrated rewards",
        "Uncalibrated reward of each prefix minus the success rate of its follow-ups. To the right of the dashed line, "
        "the PRM overestimates. The solid line is the mean, which is given above each panel with its 95% interval over "
        f"questions; n is the number of prefixes / questions. {in_table}All panels have the same axes.",
        f"Histograms of reward minus success rate for {listed(evidence)}.",
        pictures,
        notes,
    )


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


def _compared(evidence: Evidence, name: str, title: str, metric: str) -> Chart:
    from matplotlib.lines import Line2D

    shown = evidence.described.title(metric)
    values = {
        (group, calibrator): evidence.value(group, calibrator, metric)
        for group in evidence.groups
        for calibrator in evidence.calibrators
    }
    notes = numbered(value.reason for value in values.values())
    ends = [end for each in values.values() for end in (each.value, each.low, each.high) if end is not None]
    lowest, highest = min([0.0, *ends]), max(ends, default=1.0)
    room = 0.06 * (highest - lowest)

    def draw(axes: Axes, group: Group) -> None:
        axes.set(xlim=(lowest - room, highest + room), ylim=(len(evidence.calibrators) - 0.4, -0.6))
        axes.set_yticks(range(len(evidence.calibrators)), evidence.calibrators)
        axes.tick_params(axis="y", length=0)
        axes.locator_params(axis="x", nbins=3 if crowded(axes) else 6)
        axes.grid(axis="x", color=GUIDE, alpha=0.3, linewidth=0.8)
        axes.set_axisbelow(True)
        if evidence.uncalibrated is not None:
            raw = values[group, evidence.uncalibrated].value
            if raw is not None:
                axes.axvline(raw, color=RAW, linewidth=1, linestyle=_DOTTED)
        _draw_values(axes, {each: values[group, each] for each in evidence.calibrators}, notes)

    handles = [
        Line2D([], [], color=INK, linewidth=1.4, marker="o", label="best, or not worse, with its interval"),
        Line2D([], [], color=INK, linewidth=1.4, marker="o", mfc="white", label="significantly worse"),
    ]
    if evidence.uncalibrated is not None:
        handles.append(Line2D([], [], color=RAW, linewidth=1, linestyle=_DOTTED, label=evidence.uncalibrated))
    row_height = 0.35 + 0.155 * len(evidence.calibrators)
    pictures = small_multiples(evidence, draw, row_height=row_height, handles=handles)
    for picture in pictures:
        picture.supxlabel(f"{shown} ({evidence.described.direction(metric)})")
    return Chart(
        name,
        title,
        f"{shown} of each calibrator on the test questions, with its 95% interval over "
        "questions. Filled: best of its panel, or not significantly different from the best (paired bootstrap, "
        f"p >= {SIGNIFICANCE} after Holm's correction). Hollow: significantly worse than the best. Dotted line: "
        f"uncalibrated rewards. {_counts(values.values())} All panels have the same axes.",
        f"{shown} of {', '.join(evidence.calibrators)} with 95% intervals for {listed(evidence)}.",
        pictures,
        notes,
    )


def _draw_errors(axes: Axes, errors: RewardErrors) -> None:
    width = 2 / len(errors.counts)
    edges = [-1 + width * bar for bar in range(len(errors.counts))]
    shares = [100 * count / errors.prefixes for count in errors.counts]
    axes.bar(
        edges, shares, width=width, align="edge", color=RAW, alpha=0.75, edgecolor="white", linewidth=0.6
    )
    axes.axvline(errors.mean, color=MEAN, linewidth=1.2)
    lines = [f"mean {_signed(errors.mean)}", f"n = {errors.prefixes:,} / {errors.questions:,}"]
    if errors.low is not None and errors.high is not None:
        between = "\n" if crowded(axes) else " "
        lines[0] += f"{between}[{_signed(errors.low)}, {_signed(errors.high)}]"
    axes.set_title("\n".join(lines), fontsize=SMALL)


def _draw_values(axes: Axes, values: Mapping[str, Value], notes: Mapping[str, int]) -> None:
    colour, marker = colours(tuple(values)), markers(tuple(values))
    for height, (calibrator, value) in enumerate(values.items()):
        own = colour[calibrator]
        if value.value is None:
            note = f"{value.status if value.status != 'done' else 'none'} ({notes[value.reason or '']})"
            start = axes.get_xlim()[0]
            axes.text(start, height, f" {note}", va="center", fontsize=SMALL, color=INK, style="italic")
            continue
        if value.low is not None and value.high is not None:
            axes.plot(
                (value.low, value.high), (height, height), color=own, linewidth=1.4, solid_capstyle="butt"
            )
        axes.plot(
            value.value,
            height,
            marker[calibrator],
            color=own,
            markerfacecolor="white" if value.standing == "worse" else own,
            markersize=4,
            markeredgewidth=1.1,
        )


def why_no_errors(evidence: Evidence, group: Group) -> str:
    """Return the reason why a group has no rewards, from its cells."""
    for calibrator in evidence.calibrators:
        reason = evidence.value(group, calibrator, "signed_error").reason
        if reason is not None:
            return reason
    return "The PRM has no reward for a prefix with follow-ups."


def _signed(value: float) -> str:
    return number(value, signed=True).replace("-", _MINUS)


def _counts(values: Any) -> str:
    questions = sorted({each.questions for each in values if each.questions is not None})
    if not questions:
        return ""
    span = f"{questions[0]:,}" if len(questions) == 1 else f"{questions[0]:,} to {questions[-1]:,}"
    return f"Each value is measured on {span} questions; Table 5 has the numbers."
