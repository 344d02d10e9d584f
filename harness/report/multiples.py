"""Small multiples: LLMs in rows, PRMs and data sets in columns, the same axes everywhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from prmcal.harness.report.evidence import Evidence, Place
from prmcal.harness.report.style import WIDTH, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["crowded", "small_multiples"]

_COLUMNS_OF_A_PICTURE = 6
_ROOMY = 4  # columns beside which there is room for long lines
_LONGEST_LINE = 16  # of a heading, in characters


def small_multiples(
    evidence: Evidence, draw: Callable[[Axes, Place], None], row_height: float
) -> list[Figure]:
    """Draw one panel for each place, on as many pictures as the columns need.

    Parameters
    ----------
    evidence : Evidence
        Whose LLMs, PRMs and data sets.
    draw : callable
        Fills the axes of a place, and sets the same limits on all of them. (Axes that share their limits would
        say so by themselves, and be several times slower to draw.)
    row_height : float
        Of a row of panels, in inches.
    """
    columns = [(prm, dataset) for prm in evidence.prms for dataset in evidence.datasets]
    together = len(evidence.datasets)
    size = _COLUMNS_OF_A_PICTURE // together * together or _COLUMNS_OF_A_PICTURE
    pages = [columns[start : start + size] for start in range(0, len(columns), size)]
    return [_picture(page, evidence.llms, draw, row_height) for page in pages]


def crowded(axes: Axes) -> bool:
    """Whether panels are so narrow that lines must be short."""
    place = axes.get_subplotspec()
    return place is not None and place.get_gridspec().ncols > _ROOMY


def _picture(
    columns: Sequence[tuple[str, str]],
    llms: Sequence[str],
    draw: Callable[[Axes, Place], None],
    row_height: float,
) -> Figure:
    picture = new_figure(min(WIDTH, 2.4 + 3.8 * len(columns)), 1.1 + row_height * len(llms))
    grid: Any = picture.subplots(len(llms), len(columns), squeeze=False)
    for line, llm in zip(grid, llms, strict=True):
        for axes, (prm, dataset) in zip(line, columns, strict=True):
            draw(axes, Place(dataset, prm, llm))
            axes.label_outer()
        line[0].set_ylabel(_wrapped(llm), fontweight="bold", fontsize=10)
    titles = max(_lines(axes.get_title()) for axes in grid[0])
    for axes, (prm, dataset) in zip(grid[0], columns, strict=True):
        axes.annotate(
            f"{_wrapped(prm)}\n{_wrapped(dataset)}",
            (0.5, 1),
            xytext=(0, 8 + 13 * titles),  # points above the panel: clear of its title
            xycoords="axes fraction",
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontweight="bold",
        )
    return picture


def _lines(text: str) -> int:
    return text.count("\n") + 1 if text else 0


def _wrapped(name: str) -> str:
    """A name on several lines if it is long, broken after a hyphen or the like where there is one."""
    lines = [""]
    for part in re.findall(rf"[^-_+ ]{{1,{_LONGEST_LINE - 1}}}[-_+ ]?|[-_+ ]", name):
        if len(lines[-1]) + len(part) > _LONGEST_LINE:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)
