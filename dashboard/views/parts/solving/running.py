"""A question on page "Try it" while it is solved."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import streamlit as st

from prmcal.dashboard.charts.trajectory import Solving
from prmcal.dashboard.live import LiveError, solving
from prmcal.dashboard.views.parts.solving.solution import counted, show_solution
from prmcal.dashboard.views.parts.solving.steps import Style, show_steps, style_of

__all__ = ["show_solving"]

_SOLVED = "prmcal solved"
_SECONDS_BETWEEN_PICTURES = 0.2


def show_solving(
    path: Path, address: str, serves: Mapping[str, Any], request: Mapping[str, Any], asked: bool
) -> None:
    """Solve a question if the reader has asked for it, and show the steps as they come. Then show what came of it.

    Parameters
    ----------
    path : Path
        The published database of the run that is served.
    address : str
        The address of the server.
    serves : mapping
        What it serves (:func:`prmcal.dashboard.live.served`).
    request : mapping
        The question and the options.
    asked : bool
        Whether to solve it now. Otherwise the solution is shown if the same request was solved before.
    """
    style = style_of(path, serves)
    if asked:
        st.session_state.pop(_SOLVED, None)
        found = _solve(address, request, style)
        st.session_state[_SOLVED] = (dict(request), found)
    solved, found = st.session_state.get(_SOLVED, (None, None))
    if solved == dict(request) and found is not None:
        show_solution(found, style)


def _solve(address: str, request: Mapping[str, Any], style: Style) -> Solving:
    """Draw each trajectory as its steps come. A reader who changes the page in the meantime ends the work."""
    found, begin, drawn = Solving(), time.monotonic(), 0.0
    picture = st.empty()
    with picture.container():
        st.info("The question is sent to the models.")
    try:
        with closing(solving(address, request)) as events:
            for event in events:
                found.add(event)
                now = time.monotonic()
                if event["event"] == "step" and now - drawn > _SECONDS_BETWEEN_PICTURES:
                    drawn = now
                    with picture.container():
                        _progress(found, now - begin, style)
    except LiveError as error:
        found.error = str(error)
    picture.empty()
    return found


def _progress(found: Solving, seconds: float, style: Style) -> None:
    st.header(f"Sample {found.current + 1}")
    st.caption(f"{counted(len(found.steps))} so far · {seconds:.1f} s")
    show_steps(found.along(found.current), style)
