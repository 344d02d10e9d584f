"""Choosing one of a few options, such as a view of a page or a metric."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from prmcal.dashboard.controls.address import PAGE, bound
from prmcal.db.metrics import Metric, Metrics

__all__ = ["SELECT_WIDTH", "choose_metric", "choose_option", "choose_view"]

SELECT_WIDTH = 260
"""The width of a select box that does not need the width of the page, in pixels."""


def choose_view(options: Sequence[str], parameter: str = "view", *, resets: Sequence[str] = (PAGE,)) -> str:
    """Let the reader choose one of the views of a page. The first is the default.

    Another view drops the parameters in `resets`, which name what only this view has.
    """
    return choose_option("View", options, parameter, labelled=False, resets=resets)


def choose_option(
    label: str,
    options: Sequence[str],
    parameter: str,
    *,
    labelled: bool = True,
    resets: Sequence[str] = (PAGE,),
) -> str:
    """Show options side by side and let the reader choose one. The first is the default.

    Without `labelled`, the label is only read by screen readers. Another choice drops the parameters in `resets`.
    """
    chosen: str = st.segmented_control(
        label,
        options,
        required=True,
        label_visibility="visible" if labelled else "collapsed",
        **bound(parameter, options, resets=resets),
    )
    return chosen


def choose_metric(label: str, names: Sequence[str], parameter: str, described: Metrics) -> Metric:
    """Let the reader choose one of these metrics of the run by its title."""
    name = st.selectbox(
        label, names, format_func=described.title, width=SELECT_WIDTH, **bound(parameter, names, resets=())
    )
    return described[name]
