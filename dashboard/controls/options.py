"""Choosing one of a few options, such as a view of a page or a metric."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from prmcal.dashboard.controls.address import bound
from prmcal.db.metrics import METRICS, Metric
from prmcal.db.text.presentation import metric_title

__all__ = ["SELECT_WIDTH", "choose_metric", "choose_option", "choose_view"]

SELECT_WIDTH = 260
"""The width of a select box that does not need the width of the page, in pixels."""


def choose_view(options: Sequence[str], parameter: str = "view") -> str:
    """Let the reader choose one of the views of a page. The first is the default."""
    return choose_option("View", options, parameter, labelled=False)


def choose_option(label: str, options: Sequence[str], parameter: str, *, labelled: bool = True) -> str:
    """Show options side by side and let the reader choose one. The first is the default.

    Without `labelled`, the label is only read by screen readers.
    """
    chosen: str = st.segmented_control(
        label,
        options,
        default=options[0],
        required=True,
        label_visibility="visible" if labelled else "collapsed",
        **bound(parameter),
    )
    return chosen


def choose_metric(label: str, names: Sequence[str], parameter: str) -> Metric:
    """Let the reader choose one of these metrics by its title."""
    name = st.selectbox(label, names, format_func=metric_title, width=SELECT_WIDTH, **bound(parameter))
    return METRICS[name]
