"""Charts that follow the sliders for C and beta in the browser, without a new drawing by the server.

Such a chart contains the rows of all selections. Vega keeps those of the signals ``C`` and ``beta``, which are places
of values. :func:`prmcal.dashboard.controls.sliders.connect_sliders` sets the signals whenever a slider moves.
"""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt

from prmcal.dashboard.charts.style import Layers
from prmcal.dashboard.frames.scaling import LEVEL, TARGET

__all__ = ["AT_LEVEL", "AT_SELECTION", "following"]

AT_LEVEL = f"datum.level == {LEVEL}"
"""Keeps the rows of the selected beta, by their column `level`."""

AT_SELECTION = f"datum.target == {TARGET} && {AT_LEVEL}"
"""Keeps the rows of the selected C and beta, by their columns `target` and `level`."""


def following(chart: Layers, signals: Mapping[str, tuple[int, int]]) -> Layers:
    """Return a chart with signals: by name, the first value and the number of values."""
    bound = [
        alt.param(name=name, value=first, bind=alt.binding_range(min=0, max=max(count - 1, 1), step=1))
        for name, (first, count) in signals.items()
    ]
    followed: Layers = chart.add_params(*bound)
    return followed
