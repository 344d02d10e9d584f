"""Page Trajectories: the steps of one solution, with the score before and after calibration at each."""

from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from prmcal.dashboard import formats
from prmcal.dashboard.charts import answers
from prmcal.dashboard.charts import trajectory as charts
from prmcal.dashboard.controls import context
from prmcal.dashboard.controls.widgets import ask, bound, choose_row, choose_view
from prmcal.dashboard.views.shared import show_question, show_status, show_table
from prmcal.db import catalog
from prmcal.db.queries.trajectories import MEDIAN
from prmcal.db.text.formats import counted, graded
from prmcal.steps import without_marks

_PLAIN = {"correct": "right", "incorrect": "wrong"}
_HELPS, _HURTS = "Where it helps", "Where it does not"


def show(path: Path) -> None:
    """Show the page for a published database."""
    answer = show_question("Step by step: does the repair help?")
    cell = context.choose(path, context.CHOICES, "calibration")
    if cell is None:
        st.info("This run has no calibration cells.")
        return
    show_status(path, cell)
    solutions = ask(catalog.solutions, path, cell_id=cell["cell_id"])
    if solutions.empty:
        st.info("No solution of this cell has scores and success rates yet.")
        return
    view = choose_view([_HELPS, _HURTS], "case", resets=["question", "trajectory"])
    example = solutions.dropna(subset=["repaired"]).iloc[:: 1 if view == _HELPS else -1]
    example = (example if len(example) else solutions).iloc[0]
    heading, steps, more = st.container(), st.container(), st.expander("Other solutions")
    with more:
        _cases(solutions, f"cases-{cell['cell_id']}")
        names = sorted(set(solutions["question_id"]))
        question = st.selectbox(
            "Question", names, **bound("question", names, example["question_id"], resets=["trajectory"])
        )
        samples = ask(catalog.trajectories, path, cell_id=cell["cell_id"], question_id=question)
        prefixes = ask(catalog.prefixes, path, cell_id=cell["cell_id"], question_id=question)
        numbers = list(samples["trajectory"].astype(int))
        default = example["trajectory"] if question == example["question_id"] else numbers[0]
        number = st.selectbox("Solution", numbers, **bound("trajectory", numbers, int(default)))
        _samples(samples, prefixes, f"trajectories-{cell['cell_id']}-{question}")
    sample = samples[samples["trajectory"] == number].iloc[0]
    with heading:
        st.markdown(formats.with_formulas(without_marks(sample["question"])))
    table = charts.step_table(prefixes, number)
    verdict = graded(_PLAIN.get(sample["verdict"], sample["verdict"]), sample["finish_reason"])
    finding = answers.of_solution(table, verdict, len(solutions))
    answer.markdown(finding)
    with steps:
        _steps(sample, table, finding)
    st.caption(f"Cell {formats.escaped(cell['cell_id'])}")


def _cases(solutions: pd.DataFrame, key: str) -> None:
    st.caption(
        f"{counted(len(solutions), 'solution')} with success rates. Select a row to show its steps. Off before, off "
        "after: mean distance of the score from the success rate. Error: mean of score minus success rate."
    )
    choose_row(
        pd.DataFrame(
            {
                "Question": solutions["question_id"],
                "Solution": solutions["trajectory"],
                "Right": ["yes" if is_right else "no" for is_right in solutions["correct"]],
                "Off before": solutions["before"],
                "Off after": solutions["after"],
                "Repaired": solutions["repaired"],
                "Error before": solutions["reward_error"],
                "Error after": solutions["calibrated_error"],
                "Steps": solutions["prefixes"],
                "Level": solutions["question_level"],
                "Topic": solutions["subject"],
                "Text": [" ".join(without_marks(text).split()) for text in solutions["text"]],
            }
        ),
        key,
        {"question": "Question", "trajectory": "Solution"},
    )


def _samples(samples: pd.DataFrame, prefixes: pd.DataFrame, key: str) -> None:
    """Show all solutions of a question, also those without success rates."""
    median = prefixes[prefixes["level"].isna() | (prefixes["level"] == MEDIAN)]
    last_scores = median.sort_values("step").groupby("trajectory").last().reindex(samples["trajectory"])
    sample, correct = samples.iloc[0], int(samples["correct"].sum())
    level = "" if pd.isna(sample["question_level"]) else f", level {sample['question_level']}"
    st.caption(
        f"{correct} of {counted(len(samples), 'solution')} of this question{level} are right. Reference answer: "
        f"{formats.escaped(sample['reference'])}. {formats.CAPTIONS['samples']}"
    )
    choose_row(
        pd.DataFrame(
            {
                "Solution": samples["trajectory"],
                "Verdict": list(map(graded, samples["verdict"], samples["finish_reason"])),
                "Answer": samples["answer"],
                "Steps": samples["steps"],
                "Tokens": samples["tokens"],
                "Last score": last_scores["reward"].to_numpy(),
                "Last score, after": last_scores["calibrated_reward"].to_numpy(),
            }
        ),
        key,
        {"trajectory": "Solution"},
    )


def _steps(sample: pd.Series, table: pd.DataFrame, finding: str) -> None:
    texts = charts.step_texts(sample["text"], int(sample["steps"]))
    if table.empty:
        for text in texts:
            st.markdown(formats.with_formulas(text))
        return
    texts_of_steps = ["*Question only*", *map(formats.with_formulas, texts)]
    show_table(
        {
            "Step": table["step"],
            "Text": texts_of_steps[: len(table)],
            "Before": table["reward"],
            "After": table["calibrated"],
            "Right": list(map(_success, table.to_dict("records"))),
        }
    )
    charts.draw(charts.rewards_chart(table), finding.replace("*", ""))
    st.caption(formats.CAPTIONS["rewards"])


def _success(row: dict[Any, Any]) -> str:
    if pd.isna(row["success"]):
        return formats.MISSING
    if row["terminal"]:
        return "yes" if row["success"] else "no"
    return f"{row['successes']} of {row['follow_ups']}"
