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
    "RAW",
    "WIDTH",
    "colours",
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

WIDTH = 10.0
"""Largest width of a figure, in inches. Font sizes are chosen for 100 dots per inch, which gives 1000 pixels."""

DPI = 200
"""Dots per inch of PNG files: twice the resolution that fonts are sized for, for high-density screens."""

_SETTINGS: Any = {
    "axes.edgecolor": GUIDE,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 9.5,
    "axes.labelsize": 11,
    "axes.unicode_minus": True,
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "pdf.fonttype": 42,
    "savefig.dpi": DPI,
    "savefig.facecolor": "white",
    "text.color": INK,
    "text.parse_math": False,  # names may contain dollar signs
    "xtick.color": INK,
    "xtick.labelsize": 9.5,
    "ytick.color": INK,
    "ytick.labelsize": 9.5,
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


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure without a window. Width and height are in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure
