"""One question on page Trajectories: its trajectories, and the steps of one of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from prmcal.dashboard.charts.cells import MEDIAN
from prmcal.dashboard.charts.findings import budgeted, draw, stepwise
from prmcal.dashboard.charts.trajectory import budgets_chart, rewards_chart, step_table, step_texts
from prmcal.dashboard.controls.address import bound
from prmcal.dashboard.controls.rows import choose_row
from prmcal.dashboard.controls.selection import grid_names
from prmcal.dashboard.data import ask
from prmcal.dashboard.formats import LEFT_OUT, escaped, estimate, integer, kept, number, with_formulas
from prmcal.db.charts import GREY, INK, colour_scale, shape_scale
from prmcal.db.text.formats import graded

__all__ = ["show_question"]

_TARGETS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999)
_BUDGETS = {
    "PRM": "reward",
    "calibrated": "calibrated",
    "lowest quantile": "band",
    "success": "success",
}


def show_question(path: Path, cell: dict[str, Any], question_id: str) -> None:
    """Show a question with all its trajectories, and one of them in detail."""
    samples = ask(path, "trajectories", cell_id=cell["cell_id"], question_id=question_id)
    if samples.empty:
        st.info("This question has no trajectories yet.")
        return
    prefixes = ask(path, "prefixes", cell_id=cell["cell_id"], question_id=question_id)
    first = samples.iloc[0]
    st.markdown(with_formulas(kept(first["question"])))
    level = "" if pd.isna(first["question_level"]) else f" · level {first['question_level']}"
    correct = int(samples["correct"].sum())
    st.caption(
        f"Reference answer: {escaped(kept(first['reference']))}{level} · {correct} of {len(samples)} samples are "
        f"correct: pass@1 {number(correct / len(samples))}"
    )
    with st.expander(f"{len(samples)} trajectories"):
        _trajectory_list(samples, prefixes, f"trajectories-{cell['cell_id']}-{question_id}")
    left, right = st.columns(2)
    trajectories = list(samples["trajectory"].astype(int))
    trajectory = left.selectbox("Trajectory", trajectories, **bound("trajectory", trajectories, resets=[]))
    target = right.select_slider(
        "Target probability C", _TARGETS, **bound("target", _TARGETS, 0.99, text="{:g}".format, resets=[])
    )
    _trajectory(path, cell, samples[samples["trajectory"] == trajectory].iloc[0], prefixes, target)


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
        dict.fromkeys(("Last PRM reward", "Last calibrated reward")),
        key,
        ["trajectory"],
        [(trajectory,) for trajectory in samples["trajectory"].astype(int)],
    )
    st.caption(
        "Only the first trajectories of a question have success rates and calibrated rewards. The others are samples "
        "for best-of-n."
    )


def _trajectory(
    path: Path, cell: dict[str, Any], sample: pd.Series, prefixes: pd.DataFrame, target: float
) -> None:
    verdict = graded(sample["verdict"], sample["finish_reason"])
    st.header(f"Trajectory {sample['trajectory']}: {escaped(verdict)}")
    table = step_table(prefixes, int(sample["trajectory"]), target)
    steps = int(sample["steps"])
    texts = step_texts(sample["text"], steps) if isinstance(sample["text"], str) else [LEFT_OUT] * steps
    if table.empty:
        st.info("The PRM has not scored this trajectory.")
        for text in texts:
            st.markdown(with_formulas(text))
        return
    grid = grid_names(path)
    (calibrated,) = colour_scale(grid.calibrator, [cell["calibrator"]]).range
    (shape,) = shape_scale(grid.llm, [cell["llm"]]).range
    colours = (GREY, calibrated, INK)
    draw(
        rewards_chart(table, colours, shape),
        stepwise(table),
    )
    st.caption(
        "Vertical lines: 95% Clopper-Pearson intervals of the success probability. Band: from the lowest to the "
        "highest quantile, if the calibrator predicts quantiles."
    )
    draw(
        budgets_chart(table, colours, shape, target),
        budgeted(table, target),
    )
    st.caption(
        "Samples needed for at least one correct answer with probability C: log(1 \N{MINUS SIGN} C) / "
        "log(1 \N{MINUS SIGN} p), where p is the reward or the success rate, clipped to [0.0001, 0.9999]."
    )
    for row, text in zip(table.to_dict("records"), ["", *texts], strict=False):
        with st.container(border=True):
            st.markdown(with_formulas(text) if row["step"] else "*Question only*")
            st.caption(_numbers(row, target))


def _numbers(row: dict[str, Any], target: float) -> str:
    """Return all numbers of a prefix on one line."""
    if row["over_long"]:
        return f"**Step {row['step']}** · too long for the PRM, not scored"
    parts = [f"**Step {row['step']}**", f"PRM reward {number(row['reward'])}"]
    if not pd.isna(row["calibrated"]):
        parts.append(f"calibrated {_with_band(row)}")
    budgets = [
        f"{integer(row[f'budget_{name}'])} ({title})"
        for title, name in _BUDGETS.items()
        if not pd.isna(row[f"budget_{name}"])
    ]
    return " · ".join([*parts, _success(row), f"samples for C = {target:g}: {', '.join(budgets)}"])


def _with_band(row: dict[str, Any]) -> str:
    if pd.isna(row["band_low"]):
        return number(row["calibrated"])
    return escaped(estimate(row["calibrated"], row["band_low"], row["band_high"]))


def _success(row: dict[str, Any]) -> str:
    if pd.isna(row["success"]):
        return "success rate not measured"
    if row["terminal"]:
        return f"contains the final answer, which is {'correct' if row['success'] else 'incorrect'}"
    interval = escaped(estimate(row["success"], row["low"], row["high"]))
    return f"success rate {row['successes']} of {row['follow_ups']}: {interval}"
