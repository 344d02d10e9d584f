"""The page that follows a cell down: its questions, a question's trajectories, the steps of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from prmcal.dashboard.charts import style as charts
from prmcal.dashboard.charts.steps import budgets_chart, rewards_chart
from prmcal.dashboard.controls.address import bound
from prmcal.dashboard.controls.cells import chosen_cell
from prmcal.dashboard.controls.paging import page_of
from prmcal.dashboard.controls.places import names_of
from prmcal.dashboard.data import ask
from prmcal.dashboard.text.mathematics import with_formulas
from prmcal.dashboard.text.plain import amount, estimate, number, plain
from prmcal.dashboard.text.steps import step_table, step_texts

__all__ = ["show"]

_PAGE = 10
_LISTS = ("Questions", "Most overestimated", "Most underestimated")
_ORDERS = {
    "As in the data set": ("question_id", False),
    "Level, hardest first": ("question_level", True),
    "pass@1, lowest first": ("pass_at_1", False),
    "Error of the PRM, highest first": ("reward_error", True),
    "Error calibrated, highest first": ("calibrated_error", True),
    "Error calibrated, lowest first": ("calibrated_error", False),
}
_JUDGED = {"Calibrated": "calibrated_reward", "As the PRM gave it": "reward"}
_GREY = "#7F8794"
_TARGETS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999)
_ERROR = "Mean reward minus success rate: above 0 is overestimated"


def show(path: Path) -> None:
    """Show what the rewards of one cell are about."""
    st.title("Trajectories")
    cell = chosen_cell(path)
    if cell is None:
        st.info("This run has no calibration cells.")
        return
    cell_id: str = cell["cell_id"]
    st.caption(f"Cell {plain(cell_id)}")
    if cell["status"] == "failed":
        st.error(f"This cell failed: {plain(cell['reason'] or 'no reason was recorded')}")
    elif cell["status"] == "pending":
        st.info("This cell has not been measured yet: what is shown is what there is so far.")
    questions = ask(path, "questions", cell_id=cell_id)
    if not questions:
        st.info("There are no questions yet.")
        return
    chosen = st.segmented_control(
        "List", _LISTS, default=_LISTS[0], required=True, label_visibility="collapsed", **bound("list")
    )
    if chosen == _LISTS[0]:
        _question_list(path, cell_id)
    else:
        _prefix_list(path, cell_id, over=chosen == _LISTS[1])
    st.divider()
    question_id = st.selectbox("Question", questions, **bound("question"))
    _question(path, cell, question_id)


def _question_list(path: Path, cell_id: str) -> None:
    left, right = st.columns(2)
    search = left.text_input("Search in questions, answers and topics", **bound("search"))
    order = right.selectbox("Order", list(_ORDERS), **bound("order"))
    column, descending = _ORDERS[order]
    about = {"cell_id": cell_id, "search": search, "order": column, "descending": descending}
    total, _ = ask(path, "question_page", **about, limit=0)
    if not total:
        st.info("No question matches the search.")
        return
    page = page_of(total, _PAGE)
    _, found = ask(path, "question_page", **about, limit=_PAGE, offset=_PAGE * page)
    shown = pd.DataFrame(
        {
            "Question": found["question_id"],
            "Level": found["question_level"],
            "pass@1": found["pass_at_1"],
            "Right of samples": _of(found["correct"], found["trajectories"]),
            "Error of the PRM": found["reward_error"],
            "Error calibrated": found["calibrated_error"],
            "Prefixes": found["prefixes"],
            "Text": [" ".join(text.split()) for text in found["text"]],
        }
    )
    numbers = {
        "pass@1": st.column_config.NumberColumn(format="%.3f", help="Share of the samples that are right"),
        "Error of the PRM": st.column_config.NumberColumn(format="%.3f", help=_ERROR),
        "Error calibrated": st.column_config.NumberColumn(format="%.3f", help=f"{_ERROR}; of the median"),
    }
    key = f"questions-{cell_id}-{search}-{order}-{page}"
    _choosable(shown, numbers, key, list(found["question_id"]), "question")
    st.caption(
        f"{amount(total)} question{'' if total == 1 else 's'}. Choose one by its box at the left, or below."
    )


def _prefix_list(path: Path, cell_id: str, over: bool) -> None:
    judged = st.segmented_control(
        "Reward", list(_JUDGED), default="Calibrated", required=True, **bound("judged")
    )
    about = {"cell_id": cell_id, "column": _JUDGED[judged], "over": over}
    found = ask(path, "worst_prefixes", **about, limit=_PAGE)
    if found.empty:
        st.info("No prefix has both such a reward and follow-ups.")
        return
    shown = pd.DataFrame(
        {
            "Question": found["question_id"],
            "Trajectory": found["trajectory"],
            "Step": found["step"],
            "Error": found["error"],
            "Right of follow-ups": _of(found["successes"], found["follow_ups"]),
            "Reward of the PRM": found["reward"],
            "Calibrated": found["calibrated_reward"],
        }
    )
    numbers = {
        name: st.column_config.NumberColumn(format="%.3f")
        for name in ("Error", "Reward of the PRM", "Calibrated")
    }
    places = list(zip(found["question_id"], found["trajectory"].astype(int), strict=True))
    _choosable(shown, numbers, f"prefixes-{cell_id}-{over}-{judged}", places, "question", "trajectory")
    st.caption(
        f"The {len(found)} prefixes whose reward is furthest {'above' if over else 'below'} their success rate. "
        "Choose one by its box at the left."
    )


def _question(path: Path, cell: dict[str, Any], question_id: str) -> None:
    pool = ask(path, "trajectories", cell_id=cell["cell_id"], question_id=question_id)
    if pool.empty:
        st.info("This question has no trajectories yet.")
        return
    prefixes = ask(path, "prefixes", cell_id=cell["cell_id"], question_id=question_id)
    first = pool.iloc[0]
    st.markdown(with_formulas(first["question"] or ""))
    level = "" if pd.isna(first["question_level"]) else f" · level {first['question_level']}"
    right = int(pool["correct"].sum())
    st.caption(
        f"Right answer: {plain(str(first['reference']))}{level} · {right} of {len(pool)} samples are right: "
        f"pass@1 {number(right / len(pool))}"
    )
    with st.expander(f"{len(pool)} trajectories"):
        _trajectory_list(pool, prefixes, f"trajectories-{cell['cell_id']}-{question_id}")
    left, right_half = st.columns(2)
    trajectory = left.selectbox("Trajectory", list(pool["trajectory"].astype(int)), **bound("trajectory"))
    target = right_half.select_slider("Target C of the budgets", _TARGETS, value=0.99, **bound("target"))
    _trajectory(path, cell, pool[pool["trajectory"] == trajectory].iloc[0], prefixes, target)


def _trajectory_list(pool: pd.DataFrame, prefixes: pd.DataFrame, key: str) -> None:
    median = prefixes[prefixes["level"].isna() | (prefixes["level"] == 0.5)]
    last = median.sort_values("step").groupby("trajectory").last().reindex(pool["trajectory"])
    shown = pd.DataFrame(
        {
            "Trajectory": pool["trajectory"],
            "Verdict": pool["verdict"],
            "Answer": pool["answer"],
            "Steps": pool["steps"],
            "Tokens": pool["tokens"],
            "Last reward": last["reward"].to_numpy(),
            "Last calibrated": last["calibrated_reward"].to_numpy(),
        }
    )
    numbers = {
        name: st.column_config.NumberColumn(format="%.3f") for name in ("Last reward", "Last calibrated")
    }
    _choosable(shown, numbers, key, list(pool["trajectory"].astype(int)), "trajectory")
    st.caption("Success rates were measured, and rewards calibrated, on the first of them only.")


def _trajectory(
    path: Path, cell: dict[str, Any], sample: pd.Series, prefixes: pd.DataFrame, target: float
) -> None:
    st.subheader(f"Trajectory {sample['trajectory']}: {plain(sample['verdict'])}")
    table = step_table(prefixes, int(sample["trajectory"]), target)
    if table.empty:
        st.info("The PRM has not scored this trajectory.")
        for text in step_texts(sample["text"], int(sample["steps"])):
            st.markdown(with_formulas(text))
        return
    colours = _colours(path, cell["calibrator"])
    mark = charts.shape_scale(names_of(path).llm, [cell["llm"]]).range[0]
    charts.draw(
        rewards_chart(table, colours, mark),
        "Rewards and success rates along the steps; the text below has the numbers",
    )
    st.caption(
        "Vertical lines: 95% intervals of the success probability (Clopper and Pearson). The band, where a calibrator "
        "has one, lies between its lowest and its highest quantile."
    )
    charts.draw(
        budgets_chart(table, colours, mark, target),
        "Samples that the rewards and success rates ask for; the text below has the numbers",
    )
    st.caption(
        "Samples that one right answer needs with probability C if this were the success probability p: "
        "log(1 \N{MINUS SIGN} C) / log(1 \N{MINUS SIGN} p), with p between 0.0001 and 0.9999."
    )
    texts = ["", *step_texts(sample["text"], int(sample["steps"]))]
    for row, text in zip(table.to_dict("records"), texts, strict=False):
        with st.container(border=True):
            st.markdown(with_formulas(text) if row["step"] else "*The bare question*")
            st.caption(_numbers(row, target))


def _numbers(row: dict[str, Any], target: float) -> str:
    """Everything about a prefix in one line."""
    if row["over_long"]:
        return f"**Step {row['step']}** · too long for the PRM: not scored"
    parts = [f"**Step {row['step']}** · reward {number(row['reward'])}"]
    if not pd.isna(row["calibrated"]):
        parts.append(f"calibrated {_with_band(row)}")
    parts.append(_truth(row))
    known = {"PRM": "reward", "calibrated": "calibrated", "lowest quantile": "band", "truth": "success"}
    budgets = [
        f"{amount(row[f'budget_{name}'])} ({title})"
        for title, name in known.items()
        if not pd.isna(row[f"budget_{name}"])
    ]
    return " · ".join([*parts, f"samples for C = {target:g}: {', '.join(budgets)}"])


def _with_band(row: dict[str, Any]) -> str:
    if pd.isna(row["band_low"]):
        return number(row["calibrated"])
    return plain(estimate(row["calibrated"], row["band_low"], row["band_high"]))


def _truth(row: dict[str, Any]) -> str:
    if pd.isna(row["success"]):
        return "no follow-ups"
    if row["terminal"]:
        return f"holds the final answer, which is {'right' if row['success'] else 'wrong'}"
    interval = plain(estimate(row["success"], row["low"], row["high"]))
    return f"{row['successes']} of {row['follow_ups']} follow-ups right: {interval}"


def _of(part: pd.Series, whole: pd.Series) -> list[str | None]:
    return [None if pd.isna(each) else f"{each} of {total}" for each, total in zip(part, whole, strict=True)]


def _choosable(
    shown: pd.DataFrame, numbers: dict[str, Any], key: str, values: list[Any], *parameters: str
) -> None:
    """Show rows of which one can be chosen; its value goes to the widgets of these query parameters."""

    def choose() -> None:
        for row in st.session_state[key].selection.rows:
            chosen = values[row] if len(parameters) > 1 else (values[row],)
            st.session_state.update(zip(parameters, chosen, strict=True))

    st.dataframe(
        shown,
        hide_index=True,
        column_config=numbers,
        key=key,
        on_select=choose,
        selection_mode="single-row",
    )


def _colours(path: Path, calibrator: str) -> tuple[str, str, str]:
    """Of the PRM's reward, of the calibrated one, and of the truth, which is in the colour of the text."""
    (own,) = charts.colour_scale(names_of(path).calibrator, [calibrator]).range
    return _GREY, own, charts.ink()
