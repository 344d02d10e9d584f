"""Figures 7 and 8 of the paper: histograms of errors before and after calibration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prmcal.harness.report.contents.figures import why_no_errors
from prmcal.harness.report.contents.tables import calibrated
from prmcal.harness.report.evidence.read import Evidence
from prmcal.harness.report.evidence.values import Group
from prmcal.harness.report.exhibits.multiples import wrapped
from prmcal.harness.report.exhibits.style import INK, ONE_COLUMN, SMALL, legend, line_colours, new_figure
from prmcal.harness.report.exhibits.types import Chart, numbered

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["figures_7_and_8"]

_ROW_HEIGHT = 1.1
_TICKS = (-1, 0, 1)
_MINUS = "\N{MINUS SIGN}"

# The histogram of each group before and after calibration, or the reason why there is none.
_Histograms = dict[tuple[Group, bool], tuple[int, ...] | str]


def figures_7_and_8(evidence: Evidence) -> Chart | None:
    """Make Figures 7 and 8 of the paper: one picture for each data set, with a row for each PRM.

    The left panel of a row has the uncalibrated rewards and the right one those after calibration. All LLMs are in
    the same panel. None if the grid has no calibrator that changes rewards, or no values of it.
    """
    method = calibrated(evidence)
    if method is None or not any(calibrator == method for _, calibrator in evidence.histograms):
        return None
    histograms: _Histograms = {}
    for group in evidence.groups:
        raw = evidence.errors.get(group)
        histograms[group, False] = raw.counts if raw else why_no_errors(evidence, group)
        why_not = evidence.value(group, method, "signed_error").reason or ""
        histograms[group, True] = evidence.histograms.get((group, method), why_not)
    notes = numbered(each for each in histograms.values() if isinstance(each, str))
    highest = max(100 * max(each) / sum(each) for each in histograms.values() if not isinstance(each, str))

    def draw(axes: Axes, dataset: str, prm: str, after: bool) -> None:
        axes.axvline(0, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        missing = []
        for llm, colour in line_colours(evidence.llms).items():
            counts = histograms[Group(dataset, prm, llm), after]
            if isinstance(counts, str):
                axes.plot([], [], color=colour, linewidth=1.1, label=llm)  # keeps the LLM in the legend
                missing.append(f"{llm}: none ({notes[counts]})")
            else:
                _draw_histogram(axes, counts, colour, llm)
        axes.text(0.02, 0.97, "\n".join(missing), va="top", fontsize=SMALL, transform=axes.transAxes)
        axes.set(xlim=(-1.02, 1.02), ylim=(0, 1.08 * highest))
        axes.set_xticks(_TICKS, [f"{tick:g}".replace("-", _MINUS) for tick in _TICKS])
        axes.label_outer()

    def picture_of(dataset: str) -> Figure:
        picture = new_figure(ONE_COLUMN, 1.0 + _ROW_HEIGHT * len(evidence.prms))
        grid: Any = picture.subplots(len(evidence.prms), 2, squeeze=False)
        for line, prm in zip(grid, evidence.prms, strict=True):
            for axes, after in zip(line, (False, True), strict=True):
                draw(axes, dataset, prm, after)
            line[0].set_ylabel(wrapped(prm), fontweight="bold", fontsize=SMALL)
        for axes, title in zip(grid[0], (evidence.uncalibrated or "before calibration", method), strict=True):
            axes.set_title(f"{dataset}\n{title}", fontweight="bold", fontsize=SMALL)
        picture.supxlabel(f"reward {_MINUS} success rate (above 0: overestimated)")
        picture.supylabel("prefixes (%)")
        legend(picture, grid[0][0].get_legend_handles_labels()[0])
        return picture

    return Chart(
        "figures-7-and-8",
        "Figures 7 and 8: errors before and after calibration",
        f"Reward of each prefix minus the success rate of its follow-ups: uncalibrated (left) and the point estimate "
        f"of '{method}' (right), one picture for each data set. Each line is the histogram of an LLM. To the right of "
        "the dashed line, the reward is too high. A calibrated PRM has a narrow peak around 0. All panels have the "
        "same axes. The means of the errors, with their intervals and n, are in Table 5 (signed error).",
        f"Histograms of reward minus success rate of {', '.join(evidence.llms)} for {', '.join(evidence.prms)} (rows), "
        f"uncalibrated and with {method} (columns), on {', '.join(evidence.datasets)} (pictures).",
        [picture_of(dataset) for dataset in evidence.datasets],
        notes,
    )


def _draw_histogram(axes: Axes, counts: tuple[int, ...], colour: str, name: str) -> None:
    edges = np.linspace(-1, 1, len(counts) + 1)
    shares = 100 * np.array(counts) / sum(counts)
    axes.stairs(shares, edges, color=colour, fill=True, alpha=0.12)
    axes.stairs(shares, edges, color=colour, linewidth=1.1, label=name)
