"""Page Overview: the error of scores, its repair, and the samples saved."""

from pathlib import Path

import pandas as pd
import streamlit as st

from prmcal.dashboard.charts.drawn import reliability_chart
from prmcal.dashboard.charts.trajectory import bin_errors, draw
from prmcal.dashboard.controls import context
from prmcal.dashboard.controls.widgets import ask, ask_cells, bound
from prmcal.dashboard.views.shared import show_html, show_question
from prmcal.db import catalog
from prmcal.db.charts import series_of
from prmcal.db.html.boards import answer_html, cards_html, ranking_html
from prmcal.db.overview.competition import before_and_after, of_calibrators
from prmcal.db.overview.types import Overview
from prmcal.db.text.answer import QUESTION
from prmcal.db.text.formats import counted

_SQUARE = 220  # pixels; with the ranking it fits one screen


def show(path: Path) -> None:
    """Show the page for a published database."""
    answer = show_question(QUESTION)
    filters = context.filter_by(path, "dataset", "llm", "prm")
    ranked: Overview = ask(catalog.overview, path, **filters)
    here = context.context_of(path)
    with answer:
        show_html(answer_html(ranked), "said")
    left, right = st.columns([3, 2], gap="medium")
    with left:
        _picture(path, ranked)
    with right:
        show_html(cards_html(ranked), "cards")
    show_html(
        ranking_html(ranked, of_calibrators(ranked), lambda name: here.link("calibration", calibrator=name)), "ranking"
    )


def _picture(path: Path, ranked: Overview) -> None:
    """Draw the scores of a setting before and after its repair by the first calibrator of the ranking."""
    settings = before_and_after(ranked)
    if not settings:
        return
    names = {" · ".join(names): names for names in settings}
    setting = st.selectbox(
        "Setting",
        list(names),
        format_func=lambda name: f"{name} ({counted(ranked.questions.get(names[name][0], 0), 'question')})",
        label_visibility="collapsed",
        **bound("setting", list(names)),
    )
    cells = pd.DataFrame(settings[names[setting]].items(), columns=["calibrator", "cell_id"])
    bins = ask_cells(catalog.reliability, path, cells)
    calibrators = list(cells["calibrator"])
    draw(reliability_chart(bins, series_of(calibrators, calibrators), _SQUARE), bin_errors(bins), wide=False)
