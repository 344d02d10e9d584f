"""Figures of many panels with the same axes: LLMs in rows, PRMs and data sets in columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from prmcal.harness.report.evidence.read import Evidence
from prmcal.harness.report.evidence.values import Group
from prmcal.harness.report.exhibits.style import ONE_COLUMN, SMALL, TWO_COLUMNS, legend, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["crowded", "listed", "small_multiples", "wrapped"]

_COLUMNS_OF_A_PICTURE = 6
_ROOMY = 3  # largest number of columns that leaves room for long lines
_LONGEST_LINE = 14  # of a head, in characters


def small_multiples(
    evidence: Evidence, draw: Callable[[Axes, Group], None], row_height: float, handles: Sequence[Any]
) -> list[Figure]:
    """Draw one panel for each group, on as many pictures as the columns need, each with a legend.

    A picture with a single column of panels is as wide as one column of a page, others are as wide as two.

    Parameters
    ----------
    evidence : Evidence
        The results, with the LLMs, PRMs and data sets.
    draw : callable
        Draws a group on its axes and sets their limits, which must be the same for all groups. (Shared axes of
        matplotlib would do the same, but take several times longer to draw.)
    row_height : float
        Height of a row of panels, in inches.
    handles : sequence
        What the legend explains: lines or patches of matplotlib with their labels.
    """
    columns = [(prm, dataset) for prm in evidence.prms for dataset in evidence.datasets]
    together = len(evidence.datasets)
    size = _COLUMNS_OF_A_PICTURE // together * together or _COLUMNS_OF_A_PICTURE
    pages = [columns[start : start + size] for start in range(0, len(columns), size)]
    pictures = [_picture(page, evidence.llms, draw, row_height) for page in pages]
    for picture in pictures:
        legend(picture, handles)
    return pictures


def crowded(axes: Axes) -> bool:
    """Return whether panels are so narrow that lines must be short."""
    spec = axes.get_subplotspec()
    return spec is not None and spec.get_gridspec().ncols > _ROOMY


def listed(evidence: Evidence) -> str:
    """Return which panels :func:`small_multiples` draws, for readers who cannot see them."""
    return (
        f"{', '.join(evidence.llms)} (rows) with {', '.join(evidence.prms)} on {', '.join(evidence.datasets)}"
    )


def _picture(
    columns: Sequence[tuple[str, str]],
    llms: Sequence[str],
    draw: Callable[[Axes, Group], None],
    row_height: float,
) -> Figure:
    width = ONE_COLUMN if len(columns) == 1 else TWO_COLUMNS
    picture = new_figure(width, 1.1 + row_height * len(llms))
    grid: Any = picture.subplots(len(llms), len(columns), squeeze=False)
    for line, llm in zip(grid, llms, strict=True):
        for axes, (prm, dataset) in zip(line, columns, strict=True):
            draw(axes, Group(dataset, prm, llm))
            axes.label_outer()
        line[0].set_ylabel(wrapped(llm), fontweight="bold", fontsize=SMALL)
    titles = max(_lines(axes.get_title()) for axes in grid[0])
    for axes, (prm, dataset) in zip(grid[0], columns, strict=True):
        axes.annotate(
            f"{wrapped(prm)}\n{wrapped(dataset)}",
            (0.5, 1),
            xytext=(0, 6 + 9 * titles),  # points above the panel, so that it does not overlap the title
            xycoords="axes fraction",
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=SMALL,
            fontweight="bold",
        )
    return picture


def _lines(text: str) -> int:
    return text.count("\n") + 1 if text else 0


def wrapped(name: str) -> str:
    """Break a long name into several lines, if possible after a hyphen, underscore, plus sign or space."""
    lines = [""]
    for part in re.findall(rf"[^-_+ ]{{1,{_LONGEST_LINE - 1}}}[-_+ ]?|[-_+ ]", name):
        if len(lines[-1]) + len(part) > _LONGEST_LINE:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)
