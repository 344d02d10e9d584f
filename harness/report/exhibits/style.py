"""The style of figures: colours, markers, fonts, and settings that make files reproducible."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from prmcal.errors import PrmcalError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "DPI",
    "GUIDE",
    "INK",
    "MEAN",
    "ONE_COLUMN",
    "RAW",
    "SMALL",
    "TWO_COLUMNS",
    "colours",
    "legend",
    "line_colours",
    "markers",
    "new_figure",
    "styled",
]

# The colours of Okabe and Ito, which colour-blind readers can distinguish. The dashboard uses them in the same order.
_PALETTE = ("#5F6B7A", "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442")
_MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*")

RAW = _PALETTE[0]
"""Colour of uncalibrated rewards."""

INK, GUIDE, MEAN = "#31333F", "#9AA0AC", "#D55E00"
"""Colours of text, of guide lines and of means."""

ONE_COLUMN, TWO_COLUMNS = 3.25, 6.75
"""Widths of figures, in inches: of one column and of both columns of a page, as most conferences set them."""

SMALL = 7.0
"""The smallest size of letters, in points."""

DPI = 200
"""Dots per inch of PNG files. Print uses the PDF files."""

_LETTERS_PER_INCH, _LETTERS_OF_A_HANDLE = 17, 9

_SETTINGS: Any = {
    "axes.edgecolor": GUIDE,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.linewidth": 0.6,
    "axes.titlesize": SMALL,
    "axes.labelsize": 8,
    "axes.unicode_minus": True,
    "font.family": "DejaVu Sans",
    "font.size": SMALL,
    "figure.labelsize": 8,
    "legend.borderpad": 0,
    "legend.columnspacing": 1.2,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "legend.handlelength": 2.8,
    "legend.handletextpad": 0.5,
    "legend.labelcolor": INK,
    "pdf.fonttype": 42,
    "savefig.dpi": DPI,
    "savefig.facecolor": "white",
    "text.color": INK,
    "text.parse_math": False,  # names may contain dollar signs
    "xtick.color": INK,
    "xtick.labelsize": SMALL,
    "xtick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "ytick.color": INK,
    "ytick.labelsize": SMALL,
    "ytick.major.size": 2.5,
    "ytick.major.width": 0.6,
}


def colours(calibrators: Sequence[str]) -> dict[str, str]:
    """Return the colour of each calibrator, by its position."""
    return {name: _PALETTE[place % len(_PALETTE)] for place, name in enumerate(calibrators)}


def line_colours(names: Sequence[str]) -> dict[str, str]:
    """Return the colour of each name that is not a calibrator. The colour of uncalibrated rewards is not used."""
    palette = _PALETTE[1:]
    return {name: palette[place % len(palette)] for place, name in enumerate(names)}


def markers(calibrators: Sequence[str]) -> dict[str, str]:
    """Return the marker of each calibrator, by its position."""
    return {name: _MARKERS[place % len(_MARKERS)] for place, name in enumerate(calibrators)}


@contextmanager
def styled() -> Iterator[None]:
    """Draw and save figures in this style, independent of the settings of the user.

    Raises
    ------
    PrmcalError
        If matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise PrmcalError("Figures need matplotlib. Install it: pip install 'prmcal[report]'") from error
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        yield


def legend(figure: Figure, handles: Sequence[Any]) -> None:
    """Write a legend above the panels, in as few rows as its labels need."""
    widths = [len(str(handle.get_label())) + _LETTERS_OF_A_HANDLE for handle in handles]
    room = figure.get_figwidth() * _LETTERS_PER_INCH

    def needed(rows: int) -> int:  # Legends are filled column by column.
        return sum(max(widths[start : start + rows]) for start in range(0, len(widths), rows))

    rows = next((rows for rows in range(1, len(widths)) if needed(rows) <= room), len(widths))
    figure.legend(handles=handles, loc="outside upper center", ncols=-(-len(handles) // rows))


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure without a window. Width and height are in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure
