"""Page "Try it": a question, its steps as they come, and the answer or "I don't know"."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from prmcal.dashboard.controls.address import bound, bound_text, widget_key, write_address
from prmcal.dashboard.data import ask
from prmcal.dashboard.formats import escaped
from prmcal.dashboard.live import LiveError, served
from prmcal.dashboard.views.parts.solving.running import show_solving

__all__ = ["show"]

_TARGETS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999)
_BOUNDS = (0.0, 0.25, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
_SAMPLES = (1, 2, 4, 8, 16, 32, 64)
_TARGET, _BOUND, _MOST = 0.99, 0.5, 16
_LONGEST = 20_000
_EXAMPLES = 50
_KINDS = ("llm", "prm", "calibrator")


def show(path: Path, address: str) -> None:
    """Show the page.

    Parameters
    ----------
    path : Path
        The published database of the run that is served.
    address : str
        The address of the server, such as ``http://127.0.0.1:8000``.
    """
    st.title("Try it")
    try:
        serves = served(address)
    except LiveError as error:
        st.error(escaped(str(error)))
        return
    st.caption(
        f"LLM {escaped(serves['llm'] or 'none')}, PRM {escaped(serves['prm'])}, calibrator "
        f"{escaped(serves['calibrator'])}.",
        help=escaped(serves["chosen_by"]) or None,
    )
    if not serves["llm"]:
        st.info("The server has no LLM, so it scores solutions but cannot answer questions.")
        return
    question = _question(_examples(path, serves))
    request = {"question": question, **_options()}
    solve, another = st.columns([1, 1], width=420)
    asked = solve.button("Solve", type="primary", width="stretch", disabled=not question.strip())
    another.button(
        "Another question",
        width="stretch",
        on_click=_next_question,
        args=(_examples(path, serves), question),
    )
    show_solving(path, address, serves, request, asked)


def _question(examples: list[str]) -> str:
    text: str = st.text_area(
        "Question",
        height="content",
        max_chars=_LONGEST,
        **bound_text("ask", examples[0] if examples else ""),
    )
    return text


def _options() -> dict[str, Any]:
    with st.expander("Options"):
        target = st.select_slider(
            "Target probability C",
            _TARGETS,
            **bound("target", _TARGETS, _TARGET, text="{:g}".format),
            help="So many samples are drawn that at least one of them is right with probability C",
        )
        below = st.select_slider(
            "Say \N{LEFT DOUBLE QUOTATION MARK}I don't know\N{RIGHT DOUBLE QUOTATION MARK} below",
            _BOUNDS,
            format_func="{:g}".format,
            **bound("below", _BOUNDS, _BOUND, text="{:g}".format),
            help="The bound on the probability that the answer is right. With 0, there is always an answer",
        )
        most = st.select_slider(
            "Largest number of samples",
            _SAMPLES,
            **bound("most", _SAMPLES, _MOST),
        )
    return {"target": target, "abstain_below": below or None, "max_samples": most}


def _next_question(examples: list[str], question: str) -> None:
    place = examples.index(question) + 1 if question in examples else 0
    text = examples[place % len(examples)] if examples else question
    write_address({"ask": text})
    st.session_state[widget_key("ask")] = text


def _examples(path: Path, serves: dict[str, Any]) -> list[str]:
    """Return questions of the run's test data."""
    cells: pd.DataFrame = ask(path, "calibration_cells")
    for kind in _KINDS:
        cells = cells[cells[kind] == serves[kind]]
    for cell_id in cells["cell_id"]:
        _, found = ask(path, "question_page", cell_id=cell_id, limit=_EXAMPLES)
        if len(found):
            return list(dict.fromkeys(found["text"]))
    return []
