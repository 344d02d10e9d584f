"""How figures look: colours and markers of calibrators in one order, type, and what makes files repeatable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from prmcal.errors import PrmcalError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DPI", "GUIDE", "INK", "MEAN", "RAW", "WIDTH", "colours", "markers", "new_figure", "styled"]

# Okabe and Ito's colours, which colour-blind readers can tell apart, in the order of the grid's calibrators; the
# dashboard gives them in the same order.
_PALETTE = ("#5F6B7A", "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442")
_MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*")

RAW = _PALETTE[0]
"""Colour of a PRM's rewards as they are."""

INK, GUIDE, MEAN = "#31333F", "#9AA0AC", "#D55E00"
"""Colours of type, of lines that guide the eye, and of means."""

WIDTH = 10.0
"""The widest figure, in inches: 1000 pixels at 100 dots per inch, which type is sized for."""

DPI = 200
"""Dots per inch of PNG files: sharp also on screens with two pixels to a dot."""

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
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "xtick.color": INK,
    "xtick.labelsize": 9.5,
    "ytick.color": INK,
    "ytick.labelsize": 9.5,
}


def colours(calibrators: Sequence[str]) -> dict[str, str]:
    """The colour of each calibrator, by its place in the grid."""
    return {name: _PALETTE[place % len(_PALETTE)] for place, name in enumerate(calibrators)}


def markers(calibrators: Sequence[str]) -> dict[str, str]:
    """The marker of each calibrator, by its place in the grid."""
    return {name: _MARKERS[place % len(_MARKERS)] for place, name in enumerate(calibrators)}


@contextmanager
def styled() -> Iterator[None]:
    """Draw and save in our style, whatever the user's own settings are.

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
    """An empty figure, sizes in inches, that belongs to no window."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure
