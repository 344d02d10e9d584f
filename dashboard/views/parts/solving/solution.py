"""The solution of a question on page "Try it": the answer, what it cost, and the samples behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from prmcal.dashboard.charts.trajectory import Solving, sample_table
from prmcal.dashboard.controls.options import SELECT_WIDTH
from prmcal.dashboard.formats import MISSING, escaped, estimate, integer, integers, names, number, numbers
from prmcal.dashboard.views.parts.solving.steps import Style, show_steps
from prmcal.dashboard.views.parts.tables import show_table

__all__ = ["counted", "show_solution"]


def show_solution(found: Solving, style: Style) -> None:
    """Show the answer or "I don't know" with the samples, or why the question failed."""
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
        f"{counted(spent['samples'])} · {integer(spent['generated_tokens'])} generated tokens · "
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
    show_steps(found.along(place), style)
    table = sample_table(found)
    with st.expander(f"All: {counted(len(table))}"):
        show_table(
            {
                "Sample": [integer(each) for each in table["sample"]],
                "Answer": names(table["answer"]),
                "Steps": integers(table["steps"]),
                "Tokens": integers(table["tokens"]),
                "Calibrated reward": numbers(table["reward"]),
            }
        )


def counted(samples: int) -> str:
    """Return a number of samples in words."""
    return f"{integer(samples)} sample{'' if samples == 1 else 's'}"
