"""The lists on page Trajectories: the questions of a cell, and its prefixes with the largest signed errors."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import streamlit as st

from prmcal.dashboard.controls.address import bound, bound_text
from prmcal.dashboard.controls.options import choose_option
from prmcal.dashboard.controls.paging import choose_page
from prmcal.dashboard.controls.rows import choose_row
from prmcal.dashboard.data import ask
from prmcal.dashboard.formats import integer, kept

__all__ = ["show_questions", "show_worst_prefixes"]

_PAGE = 10
_ORDERS = {
    "Question ID": ("question_id", False),
    "Level, hardest first": ("question_level", True),
    "pass@1, lowest first": ("pass_at_1", False),
    "PRM error, highest first": ("reward_error", True),
    "Calibrated error, highest first": ("calibrated_error", True),
    "Calibrated error, lowest first": ("calibrated_error", False),
}
_REWARDS = {"calibrated": "calibrated_reward", "uncalibrated": "reward"}
_ERROR = "Mean of {} minus success rate. Values above 0 are overestimates"


def show_questions(path: Path, cell_id: str) -> None:
    """Show the questions of a cell, with a search and a choice of the order."""
    left, right = st.columns(2)
    search = left.text_input("Search in questions, answers and topics", **bound_text("search"))
    order = right.selectbox("Order", list(_ORDERS), **bound("order", list(_ORDERS)))
    column, descending = _ORDERS[order]
    query = {"cell_id": cell_id, "search": search, "order": column, "descending": descending}
    total, _ = ask(path, "question_page", **query, limit=0)
    if not total:
        st.info("No question matches the search.")
        return
    page = choose_page(total, _PAGE)
    _, found = ask(path, "question_page", **query, limit=_PAGE, offset=_PAGE * page)
    choose_row(
        pd.DataFrame(
            {
                "Question": found["question_id"],
                "Level": found["question_level"],
                "pass@1": found["pass_at_1"],
                "Correct samples": _of(found["correct"], found["trajectories"]),
                "PRM error": found["reward_error"],
                "Calibrated error": found["calibrated_error"],
                "Prefixes": found["prefixes"],
                "Text": [" ".join(kept(text).split()) for text in found["text"]],
            }
        ),
        {
            "pass@1": "Share of correct samples",
            "PRM error": _ERROR.format("the PRM's reward"),
            "Calibrated error": _ERROR.format("the calibrated reward (median)"),
        },
        f"questions-{cell_id}-{search}-{order}-{page}",
        ["question", "trajectory"],
        [(question_id, None) for question_id in found["question_id"]],
    )
    st.caption(
        f"{integer(total)} question{'' if total == 1 else 's'}. Select a row to show its question below."
    )


def show_worst_prefixes(path: Path, cell_id: str, over: bool) -> None:
    """Show the prefixes whose success probability is overestimated, or underestimated, most."""
    rewards = choose_option("Reward", list(_REWARDS), "reward")
    query = {"cell_id": cell_id, "column": _REWARDS[rewards], "over": over}
    found = ask(path, "worst_prefixes", **query, limit=_PAGE)
    if found.empty:
        st.info("No prefix has both this reward and a success rate.")
        return
    choose_row(
        pd.DataFrame(
            {
                "Question": found["question_id"],
                "Trajectory": found["trajectory"],
                "Step": found["step"],
                "Signed error": found["error"],
                "Correct follow-ups": _of(found["successes"], found["follow_ups"]),
                "PRM reward": found["reward"],
                "Calibrated reward": found["calibrated_reward"],
            }
        ),
        dict.fromkeys(("Signed error", "PRM reward", "Calibrated reward")),
        f"prefixes-{cell_id}-{over}-{rewards}",
        ["question", "trajectory"],
        list(zip(found["question_id"], found["trajectory"].astype(int), strict=True)),
    )
    st.caption(
        f"The {len(found)} prefixes whose {rewards} reward is furthest {'above' if over else 'below'} the success "
        "rate. Select a row to show its trajectory below."
    )


def _of(part: pd.Series, whole: pd.Series) -> list[str | None]:
    return [None if pd.isna(each) else f"{each} of {total}" for each, total in zip(part, whole, strict=True)]
