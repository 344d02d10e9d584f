"""Page Trajectories: the questions of a cell, the trajectories of a question, and the steps of a trajectory."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from prmcal.dashboard.controls.address import PAGE, bound
from prmcal.dashboard.controls.cells import choose_cell
from prmcal.dashboard.controls.options import choose_view
from prmcal.dashboard.data import ask
from prmcal.dashboard.formats import escaped
from prmcal.dashboard.views.parts.question import show_question
from prmcal.dashboard.views.parts.questions import show_questions, show_worst_prefixes
from prmcal.dashboard.views.parts.status import show_status

__all__ = ["show"]

_QUESTIONS, _OVER, _UNDER = "Questions", "Most overestimated", "Most underestimated"


def show(path: Path) -> None:
    """Show the page for a published database."""
    st.title("Trajectories")
    cell = choose_cell(path)
    if cell is None:
        st.info("This run has no calibration cells.")
        return
    cell_id: str = cell["cell_id"]
    st.caption(f"Cell {escaped(cell_id)}")
    show_status(cell)
    questions = ask(path, "questions", cell_id=cell_id)
    if not questions:
        st.info("There are no questions yet.")
        return
    view = choose_view([_QUESTIONS, _OVER, _UNDER], "list", resets=[PAGE, "search", "order", "reward"])
    if view == _QUESTIONS:
        show_questions(path, cell_id)
    else:
        show_worst_prefixes(path, cell_id, over=view == _OVER)
    st.divider()
    question_id = st.selectbox("Question", questions, **bound("question", questions, resets=["trajectory"]))
    show_question(path, cell, question_id)
