"""Figures 7 and 8 of the paper: histograms of errors before and after calibration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from prmcal.harness.report.contents.tables import calibrated
from prmcal.harness.report.evidence.read import Evidence
from prmcal.harness.report.evidence.values import Group
from prmcal.harness.report.exhibits.multiples import wrapped
from prmcal.harness.report.exhibits.style import INK, line_colours, new_figure
from prmcal.harness.report.exhibits.types import Chart, numbered

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["figures_7_and_8"]

_WIDTH, _ROW_HEIGHT = 8.0, 2.0
_MINUS = "\N{MINUS SIGN}"

# The histogram of each LLM, before or after calibration; None if it was not measured.
_Histograms = dict[tuple[Group, bool], tuple[int, ...] | None]


def figures_7_and_8(evidence: Evidence) -> Chart | None:
    """Make Figures 7 and 8 of the paper: one picture for each data set, with a row for each PRM.

    The left panel of a row has the uncalibrated rewards and the right one those after calibration. All LLMs are in
    the same panel. None if the grid has no calibrator that changes rewards, or no values of it.
    """
    method = calibrated(evidence)
    if method is None:
        return None
    histograms: _Histograms = {}
    for group in evidence.groups:
        raw = evidence.errors.get(group)
        histograms[group, False] = None if raw is None else raw.counts
        histograms[group, True] = evidence.histograms.get((group, method))
    if not any(after and counts for (_, after), counts in histograms.items()):
        return None
    reasons = {
        group: evidence.value(group, method, "signed_error").reason
        for (group, after), counts in histograms.items()
        if after and counts is None
    }
    highest = max(100 * max(counts) / sum(counts) for counts in histograms.values() if counts)
    return Chart(
        "figures-7-and-8",
        "Figures 7 and 8: errors before and after calibration",
        f"Reward of each prefix minus the success rate of its follow-ups: uncalibrated (left) and the point estimate "
        f"of '{method}' (right), one picture for each data set. Each line is the histogram of an LLM. To the right of "
        "the dashed line, the reward is too high. A calibrated PRM has a narrow peak around 0. All panels have the "
        "same axes. The means of the errors, with their intervals and n, are in Table 5 (signed error).",
        f"Histograms of reward minus success rate of {', '.join(evidence.llms)} for {', '.join(evidence.prms)} (rows), "
        f"uncalibrated and with {method} (columns), on {', '.join(evidence.datasets)} (pictures).",
        [_picture(evidence, dataset, method, histograms, 1.08 * highest) for dataset in evidence.datasets],
        numbered(reasons.values()),
    )


def _picture(
    evidence: Evidence, dataset: str, method: str, histograms: _Histograms, highest: float
) -> Figure:
    picture = new_figure(_WIDTH, 1.5 + _ROW_HEIGHT * len(evidence.prms))
    grid: Any = picture.subplots(len(evidence.prms), 2, squeeze=False)
    for line, prm in zip(grid, evidence.prms, strict=True):
        for axes, after in zip(line, (False, True), strict=True):
            of_llms = [histograms[Group(dataset, prm, llm), after] for llm in evidence.llms]
            _draw(axes, evidence.llms, of_llms)
            axes.set(xlim=(-1.02, 1.02), ylim=(0, highest), xticks=(-1, -0.5, 0, 0.5, 1))
            axes.label_outer()
        line[0].set_ylabel(wrapped(prm), fontweight="bold", fontsize=10)
    for axes, title in zip(grid[0], (evidence.uncalibrated or "uncalibrated", method), strict=True):
        axes.set_title(f"{dataset}\n{title}", fontweight="bold", fontsize=10)
    picture.supxlabel(f"reward {_MINUS} success rate (above 0: overestimated)", fontsize=11)
    picture.supylabel("prefixes (%)", fontsize=11)
    handles, labels = grid[0][0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside upper center", ncols=min(3, len(labels)), frameon=False)
    return picture


def _draw(axes: Axes, llms: Sequence[str], histograms: Sequence[tuple[int, ...] | None]) -> None:
    axes.axvline(0, color=INK, linewidth=1, linestyle=(0, (4, 3)))
    for llm, counts in zip(llms, histograms, strict=True):
        own = line_colours(llms)[llm]
        if counts is None:  # an empty line keeps the LLM in the legend
            axes.plot([], [], color=own, linewidth=1.6, label=llm)
            continue
        edges = np.linspace(-1, 1, len(counts) + 1)
        shares = 100 * np.array(counts) / sum(counts)
        axes.stairs(shares, edges, color=own, fill=True, alpha=0.12)
        axes.stairs(shares, edges, color=own, linewidth=1.6, label=llm)
