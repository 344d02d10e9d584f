"""Page Trajectories, down to the steps of one trajectory, and page Compare, with two cells."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import streamlit as st

from prmcal.dashboard import formats
from prmcal.dashboard.charts import trajectory as charts
from prmcal.dashboard.charts.curves import likest
from prmcal.dashboard.charts.drawn import interval_chart
from prmcal.dashboard.controls import context
from prmcal.dashboard.controls.widgets import ask, bound, choose_row, choose_view, show_board
from prmcal.dashboard.views.shared import show_status, show_table
from prmcal.db import catalog
from prmcal.db.charts import GREY, INK, Series, legend, series_of
from prmcal.db.metrics import Leaderboard, Metrics
from prmcal.db.queries.trajectories import MEDIAN
from prmcal.db.queries.two_cells import CellComparison
from prmcal.db.text.board import comparison_board, questions_board
from prmcal.db.text.formats import LEADERBOARDS, counted, graded
from prmcal.errors import ArtifactError, IncomparableCellsError
from prmcal.steps import without_marks

_PREFIXES = 10
_QUESTIONS, _OVER, _UNDER = "Questions", "Most overestimated", "Most underestimated"
_REWARDS: dict[str, Literal["reward", "calibrated_reward"]] = {
    "calibrated": "calibrated_reward",
    "uncalibrated": "reward",
}


def show(path: Path) -> None:
    """Show the page for a published database."""
    st.title("Trajectories")
    cell = context.choose(path, context.CHOICES, "calibration")
    if cell is None:
        st.info("This run has no calibration cells.")
        return
    cell_id: str = cell["cell_id"]
    st.caption(f"Cell {formats.escaped(cell_id)}")
    show_status(cell)
    questions = ask(catalog.questions, path, cell_id=cell_id)
    if questions.empty:
        st.info("There are no questions yet.")
        return
    view = choose_view([_QUESTIONS, _OVER, _UNDER], "list", resets=["reward"])
    if view == _QUESTIONS:
        _show_questions(questions, f"questions-{cell_id}")
    else:
        _show_worst_prefixes(path, cell_id, over=view == _OVER)
    st.divider()
    names = list(questions["question_id"])
    question_id = st.selectbox("Question", names, **bound("question", names, resets=["trajectory"]))
    _show_question(path, cell, question_id)


def _show_questions(found: pd.DataFrame, key: str) -> None:
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
                "Topic": found["subject"],
                "Text": [" ".join(without_marks(text).split()) for text in found["text"]],
            }
        ),
        key,
        {"question": "Question", "trajectory": None},
    )
    st.caption(
        f"{counted(len(found), 'question')}. Select a row to show its question below. pass@1: share of correct "
        "samples. Errors: mean of the PRM's reward, or of the calibrated reward (median), minus success rate. Values "
        "above 0 are overestimates."
    )


def _show_worst_prefixes(path: Path, cell_id: str, over: bool) -> None:
    rewards = choose_view(list(_REWARDS), "reward", "Reward")
    found = ask(catalog.worst_prefixes, path, cell_id, column=_REWARDS[rewards], over=over, limit=_PREFIXES)
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
        f"prefixes-{cell_id}-{over}-{rewards}",
        {"question": "Question", "trajectory": "Trajectory"},
    )
    st.caption(
        f"The {len(found)} prefixes whose {rewards} reward is furthest {'above' if over else 'below'} the success "
        "rate. Select a row to show its trajectory below."
    )


def _of(part: pd.Series, whole: pd.Series) -> list[str | None]:
    return [None if pd.isna(each) else f"{each} of {total}" for each, total in zip(part, whole, strict=True)]


def _show_question(path: Path, cell: dict[str, Any], question_id: str) -> None:
    samples = ask(catalog.trajectories, path, cell_id=cell["cell_id"], question_id=question_id)
    if samples.empty:
        st.info("This question has no trajectories yet.")
        return
    prefixes = ask(catalog.prefixes, path, cell_id=cell["cell_id"], question_id=question_id)
    first = samples.iloc[0]
    st.markdown(formats.with_formulas(without_marks(first["question"])))
    level = "" if pd.isna(first["question_level"]) else f" · level {first['question_level']}"
    correct = int(samples["correct"].sum())
    st.caption(
        f"Reference answer: {formats.escaped(first['reference'])}{level} · {correct} of {len(samples)} samples "
        f"are correct: pass@1 {formats.number(correct / len(samples))}"
    )
    with st.expander(f"{len(samples)} trajectories"):
        _trajectory_list(samples, prefixes, f"trajectories-{cell['cell_id']}-{question_id}")
    trajectories = list(samples["trajectory"].astype(int))
    trajectory = st.selectbox("Trajectory", trajectories, **bound("trajectory", trajectories))
    _trajectory(path, cell, samples[samples["trajectory"] == trajectory].iloc[0], prefixes)


def _trajectory_list(samples: pd.DataFrame, prefixes: pd.DataFrame, key: str) -> None:
    median = prefixes[prefixes["level"].isna() | (prefixes["level"] == MEDIAN)]
    last = median.sort_values("step").groupby("trajectory").last().reindex(samples["trajectory"])
    choose_row(
        pd.DataFrame(
            {
                "Trajectory": samples["trajectory"],
                "Verdict": list(map(graded, samples["verdict"], samples["finish_reason"])),
                "Answer": samples["answer"],
                "Steps": samples["steps"],
                "Tokens": samples["tokens"],
                "Last PRM reward": last["reward"].to_numpy(),
                "Last calibrated reward": last["calibrated_reward"].to_numpy(),
            }
        ),
        key,
        {"trajectory": "Trajectory"},
    )
    st.caption(formats.CAPTIONS["samples"])


def _trajectory(path: Path, cell: dict[str, Any], sample: pd.Series, prefixes: pd.DataFrame) -> None:
    verdict = graded(sample["verdict"], sample["finish_reason"])
    st.header(f"Trajectory {sample['trajectory']}: {formats.escaped(verdict)}")
    table = charts.step_table(prefixes, int(sample["trajectory"]))
    texts = charts.step_texts(sample["text"], int(sample["steps"]))
    if table.empty:
        st.info("The PRM has not scored this trajectory.")
        for text in texts:
            st.markdown(formats.with_formulas(text))
        return
    (colour,) = series_of(context.grid_names(path)["calibrator"], [cell["calibrator"]]).colours
    charts.draw(charts.rewards_chart(table, colour), charts.along(table))
    st.caption(formats.CAPTIONS["rewards"])
    shown = ["*Question only*", *map(formats.with_formulas, texts)]
    show_table(
        {
            "Step": table["step"],
            "Text": shown[: len(table)],
            "PRM reward": table["reward"],
            "Calibrated reward": formats.estimates(table[["calibrated", "band_low", "band_high"]]),
            "Success rate": list(map(_success, table.to_dict("records"))),
        }
    )


def _success(row: dict[Any, Any]) -> str:
    if pd.isna(row["success"]):
        return formats.MISSING
    if row["terminal"]:
        return f"final answer, {'correct' if row['success'] else 'incorrect'}"
    interval = formats.escaped(formats.estimate(row["success"], row["low"], row["high"]))
    return f"{row['successes']} of {row['follow_ups']}: {interval}"


_FEW = 10  # metrics that are shown at once
_EXCERPT = 90  # characters of a question
_DIFFERENCE = "A \N{MINUS SIGN} B"
_SERIES = Series(["significant", "not significant"], [INK, GREY], [[1, 0]] * 2, ["circle"] * 2)


def show_comparison(path: Path) -> None:
    """Show the page for a published database."""
    st.title("Compare")
    boards = {table: ask(catalog.leaderboard, path, table=table) for table in LEADERBOARDS}
    boards = {table: cells[cells["status"] == "done"] for table, cells in boards.items()}
    boards = {table: cells for table, cells in boards.items() if len(cells) > 1}
    if not boards:
        st.info("A comparison needs two finished cells. This run has fewer so far.")
        return
    table = context.choose_leaderboard(list(boards), "a", "b")
    pair = _pick_cells(path, boards[table], table)
    if pair is None:
        st.info("No other cell of this leaderboard and data set is finished.")
        return
    try:
        found: CellComparison = ask(catalog.compare_cells, path, cell_a=pair[0], cell_b=pair[1])
    except (ArtifactError, IncomparableCellsError) as error:
        st.info(formats.escaped(str(error)))
        return
    st.caption(found.paired_over)
    described: Metrics = ask(catalog.metrics, path)
    first = found.table["metric"].isin(LEADERBOARDS[table].main_metrics)
    rows = pd.concat([found.table[first], found.table[~first]])
    few, others = (replace(found, table=part) for part in (rows.head(_FEW), rows[_FEW:]))
    _chart(few, described)
    board = comparison_board(few, described.title)
    st.caption(formats.escaped(board.legend))
    show_board(board, f"comparison {pair}")
    if len(others.table):
        with st.expander(f"{len(others.table)} more metrics"):
            _chart(others, described)
            show_board(comparison_board(others, described.title), f"more of comparison {pair}")
    _questions(context.context_of(path), found)


def _pick_cells(path: Path, cells: pd.DataFrame, table: Leaderboard) -> tuple[str, str] | None:
    """Let the reader pick two cells of a data set. Return None if there is nothing to compare with the first.

    By default, these are an uncalibrated cell of the place in the context, and the best one of the same place.
    """
    metric = ask(catalog.metrics, path)[LEADERBOARDS[table].main_metrics[0]]
    first_names = {kind: next(iter(cells[kind].dropna()), None) for kind in context.CHOICES}
    place = {**first_names, **context.context_of(path).wanted}
    baseline = next(iter(ask(catalog.with_role, path, role="baseline")), None)
    first = likest(cells, {**place, "calibrator": baseline}, metric)["cell_id"].iloc[0]
    first = _pick("a", cells, str(first))
    picked = dict(cells[cells["cell_id"] == first].iloc[0])
    others = cells[(cells["dataset"] == picked["dataset"]) & (cells["cell_id"] != first)]
    if others.empty:
        return None
    alike = {kind: picked[kind] for kind in ("llm", "prm", "strategy", "target", "level")}
    others = likest(others, alike, metric)
    return first, _pick("b", others, str(others["cell_id"].iloc[0]))


def _pick(parameter: str, cells: pd.DataFrame, default: str) -> str:
    """Let the reader pick one of these cells, whose identifier the parameter has. Another A has another B."""
    names = list(cells["cell_id"])
    return str(st.selectbox(parameter.upper(), names, **bound(parameter, names, default, resets=["b"])))


def _chart(found: CellComparison, described: Metrics) -> None:
    # Metrics of similar size only.
    charted = {name for name in described if described[name].better} | {"budget_ratio"}
    shown = found.table[found.table["metric"].isin(charted)]
    rows = shown[["low", "high"]].astype(float)
    rows = rows.assign(label=shown["metric"].map(described.title), value=shown["difference"].astype(float))
    rows["series"] = ["significant" if real else "not significant" for real in shown["real"]]
    real = rows[rows["series"] == "significant"]
    finding = f"{len(real)} of {len(rows)} differences are significant. "
    chart = interval_chart(rows, _DIFFERENCE, _SERIES, zero=True, shown=legend(lines=False))
    charts.draw(chart, finding + charts.extremes(_DIFFERENCE, rows["label"], rows["value"]))


def _questions(here: context.Context, found: CellComparison) -> None:
    board = questions_board(found)
    st.header(board.title)
    if found.differing.empty:
        st.info(formats.CAPTIONS["no questions"])
        return
    own = {kind: found.a[kind] for kind in context.CHOICES if found.a[kind]}
    names, *others, texts = board.columns
    # The text of a question says more than its name, and a narrow screen has no room for both.
    links = [
        f"[{formats.escaped(text[:_EXCERPT] or name)}]({here.link('trajectories', question=name, **own)})"
        for name, text in zip(names.values, texts.values, strict=True)
    ]
    show_table(
        {
            "Question": links,
            **{each.title[:1].upper() + each.title[1:]: formats.texts(each.values) for each in others},
        }
    )
