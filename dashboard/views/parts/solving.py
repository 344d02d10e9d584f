"""A question on page "Try it" while it is solved, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import streamlit as st

from prmcal.dashboard.charts.style import GREY, colour_scale, draw, ink, shape_scale
from prmcal.dashboard.charts.trajectory import rewards_chart
from prmcal.dashboard.controls.options import SELECT_WIDTH
from prmcal.dashboard.controls.selection import grid_names
from prmcal.dashboard.frames.solving import Solving, reward_table, sample_table
from prmcal.dashboard.live import LiveError, solving
from prmcal.dashboard.text.findings import stepwise
from prmcal.dashboard.text.formats import (
    MISSING,
    escaped,
    estimate,
    integer,
    integers,
    names,
    number,
    numbers,
)
from prmcal.dashboard.text.mathematics import with_formulas
from prmcal.dashboard.views.parts.tables import show_table

__all__ = ["show_solving"]

_HEIGHT = 300
_ANSWER = "*final answer*"
_SOLVED = "prmcal solved"
_SECONDS_BETWEEN_PICTURES = 0.2


class Style(NamedTuple):
    """How the rewards of this calibrator and this LLM are shown.

    Attributes
    ----------
    colours : sequence of 3 str
        As on every page.
    shape : str
    band : str
        A sentence that says what the band is; empty if there is none.
    """

    colours: Sequence[str]
    shape: str
    band: str


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
    style = _style(path, serves)
    if asked:
        st.session_state.pop(_SOLVED, None)
        found = _solve(address, request, style)
        st.session_state[_SOLVED] = (dict(request), found)
    solved, found = st.session_state.get(_SOLVED, (None, None))
    if solved == dict(request) and found is not None:
        _result(found, style)


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
    st.caption(f"{_count(len(found.steps))} so far · {seconds:.1f} s")
    _trajectory(found.along(found.current), style)


def _result(found: Solving, style: Style) -> None:
    solution = found.solution
    if found.error or solution is None or solution["error"]:
        st.error(escaped(found.error or (solution or {}).get("error") or "There is no solution."))
        return
    _answer(solution)
    familiarity = solution["familiarity"]
    if not familiarity["familiar"]:
        st.warning(f"{escaped(familiarity['message'])} So the probability may be wrong.")
    spent = solution["spent"]
    st.caption(
        f"{_count(spent['samples'])} · {integer(spent['generated_tokens'])} generated tokens · "
        f"{integer(spent['prm_tokens'])} tokens read by the PRM · {number(spent['seconds'], 1)} s"
    )
    _samples(found, solution, style)


def _answer(solution: Mapping[str, Any]) -> None:
    probability = solution["probability"]
    chance = (
        MISSING
        if probability is None
        else number(probability)
        if solution["low"] is None
        else escaped(estimate(probability, solution["low"], solution["high"]))
    )
    if solution["abstained"]:
        st.header("I don't know")
        chosen = solution["chosen"]
        answer = None if chosen is None else solution["trajectories"][chosen]["answer"]
        best = f"The best answer is {escaped(answer)}. " if answer else ""
        st.markdown(f"{best}The probability that it is right is **{chance}**. {escaped(solution['reason'])}")
    elif solution["answer"] is None:
        st.header("No answer")
        st.markdown(f"No sample has a final answer. {escaped(solution['reason'])}")
    else:
        st.header(f"Answer: {escaped(solution['answer'])}")
        st.markdown(f"The probability that it is right is **{chance}**. {escaped(solution['reason'])}")


def _samples(found: Solving, solution: Mapping[str, Any], style: Style) -> None:
    places, chosen = list(found.steps), solution["chosen"]
    if not places:
        return

    def named(place: int) -> str:
        return f"Sample {place + 1}{', with the answer' if place == chosen else ''}"

    first = places.index(chosen) if chosen in places else 0
    place = st.selectbox("Steps of", places, index=first, format_func=named, width=SELECT_WIDTH)
    _trajectory(found.along(place), style)
    table = sample_table(found)
    with st.expander(f"All: {_count(len(table))}"):
        show_table(
            {
                "Sample": [integer(each) for each in table["sample"]],
                "Answer": names(table["answer"]),
                "Steps": integers(table["steps"]),
                "Tokens": integers(table["tokens"]),
                "Calibrated reward": numbers(table["reward"]),
            }
        )


def _trajectory(steps: Sequence[Mapping[str, Any]], style: Style) -> None:
    table = reward_table(steps)
    draw(rewards_chart(table, style.colours, style.shape).properties(height=_HEIGHT), stepwise(table))
    if style.band:
        st.caption(style.band)
    rows = table.to_dict("records")
    show_table(
        {
            "Step": [integer(step["step"]) for step in steps],
            "Text": [with_formulas(step["text"]) if step["step"] else "*Question only*" for step in steps],
            "Calibrated reward": [
                _ANSWER if step["terminal"] else _calibrated(row)
                for step, row in zip(steps, rows, strict=True)
            ],
            "PRM reward": numbers(table["reward"]),
        }
    )


def _count(samples: int) -> str:
    return f"{integer(samples)} sample{'' if samples == 1 else 's'}"


def _calibrated(row: Mapping[str, Any]) -> str:
    if pd.isna(row["calibrated"]):
        return "too long for the PRM"
    if pd.isna(row["band_low"]):
        return number(row["calibrated"])
    return escaped(estimate(row["calibrated"], row["band_low"], row["band_high"]))


def _band(levels: Sequence[float]) -> str:
    if len(levels) < 2:
        return ""
    return f"Band and brackets: from the quantile of level {levels[0]:g} to that of level {levels[-1]:g}."


def _style(path: Path, serves: Mapping[str, Any]) -> Style:
    """Return the colours and the shape that the calibrator and the LLM have on every page."""
    grid = grid_names(path)
    colours = colour_scale(grid.calibrator, [serves["calibrator"]]).range
    shapes = shape_scale(grid.llm, [serves["llm"]]).range
    return Style((GREY, colours[0], ink()), next(iter(shapes), "circle"), _band(serves["levels"]))
