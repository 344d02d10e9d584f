"""The sliders of page Scaling: target probability C and quantile level beta. Charts follow them in the browser."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import streamlit as st

from prmcal.dashboard.charts.curves import LEVEL, TARGET, TARGETS
from prmcal.dashboard.controls.address import bound

# The reader uses the sliders of the page, and not those that Vega shows.
_HIDDEN = "<style>.vega-embed .vega-bindings { display: none !important }</style>"

__all__ = ["DEFAULT_TARGET", "choose_level", "choose_target", "connect_sliders"]

DEFAULT_TARGET = 0.99
"""The target probability C that a page shows first."""


def choose_target() -> float:
    """Let the reader choose C, one of :data:`prmcal.dashboard.charts.curves.TARGETS`."""
    with st.container(key=f"slider-{TARGET}"):
        target = st.select_slider(
            "Target probability C",
            TARGETS,
            **bound(TARGET, TARGETS, DEFAULT_TARGET, text="{:g}".format),
            help="IAS draws so many samples that at least one of them is correct with probability C",
        )
    return float(target)


def choose_level(levels: Sequence[float]) -> float:
    """Let the reader choose beta if there are several levels. The first is the default."""
    if len(levels) < 2:
        return levels[0]
    with st.container(key=f"slider-{LEVEL}"):
        level = st.select_slider(
            "Quantile level β",
            levels,
            **bound(LEVEL, levels, text="{:g}".format),
            help="IAS uses this quantile of the success probability. Calibrators without it use their point estimate",
        )
    return float(level)


def connect_sliders() -> None:
    """Let the charts of the page follow its sliders (:mod:`prmcal.dashboard.charts.scaling`)."""
    st.html(_HIDDEN)
    _follower()(data=[TARGET, LEVEL], key="follower")


@functools.cache
def _follower() -> Any:
    script = Path(__file__).with_name("follow.js").read_text(encoding="utf-8")
    return st.components.v2.component("prmcal_follower", js=script, isolate_styles=False)
