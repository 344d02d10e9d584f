"""Page Submissions of a merged leaderboard: who sent which cells, what was verified, and the history of a cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from prmcal.dashboard.charts.calibration import interval_chart
from prmcal.dashboard.charts.findings import draw
from prmcal.dashboard.controls.address import bound
from prmcal.dashboard.controls.widgets import choose_metric, choose_row, show_board
from prmcal.dashboard.data import ask
from prmcal.dashboard.formats import escaped, integer, names, submitter, visible
from prmcal.dashboard.views.shared import show_table
from prmcal.db import catalog
from prmcal.db.charts import legend, two_kinds
from prmcal.db.metrics import Metrics
from prmcal.db.text.board import estimate, web_board
from prmcal.db.text.formats import counted
from prmcal.db.text.presentation import LEADERBOARDS
from prmcal.db.text.provenance import TIER_MEANINGS, VERIFIED, renewal, signature_text, verified_text

_SERIES = two_kinds("current", "not current")
# Pixels of columns of text. Both fit a phone, however long a name is. The whole name is below the table.
_WIDTHS = {"Submitter": 105, VERIFIED: 220}


def show(path: Path) -> None:
    """Show the page for a published database."""
    st.title("Submissions")
    if not ask(catalog.is_merged, path):
        st.info(
            "These are the results of one run. `prmcal merge` makes a leaderboard of several, with their submissions."
        )
        return
    found: pd.DataFrame = ask(catalog.submissions, path)
    _table(found)
    known = {row["submission_id"]: row for row in found.to_dict("records")}
    chosen = known[st.selectbox("Submission", list(known), **bound("submission", list(known)))]
    st.header(f"Submission {chosen['submission_id']}", anchor=False)
    _about(chosen)
    _verifications(ask(catalog.verifications, path, submission_id=chosen["submission_id"]))
    _cells(path, chosen["submission_id"])
    st.header("History of a cell")
    _history(path)


def _table(found: pd.DataFrame) -> None:
    rows = found.to_dict("records")
    choose_row(
        pd.DataFrame(
            {
                "Submitter": [submitter(row) for row in rows],
                VERIFIED: [
                    visible(verified_text(row["tier"], row["verified_by"], row["verified_at"], row["failed"]))
                    for row in rows
                ],
                "Cells": [row["cells"] for row in rows],
                "Signature": [signature_text(row["signed_by"]) for row in rows],
                "Licence": [visible(row["licence"]) for row in rows],
                "Measured": [_day(row["finished_at"] or row["started_at"]) for row in rows],
                "Texts": ["yes" if row["texts"] else "no" for row in rows],
                "Submission": found["submission_id"],
            }
        ),
        "submissions",
        {"submission": "Submission"},
        {name: st.column_config.TextColumn(width=width) for name, width in _WIDTHS.items()},
    )
    st.caption(
        f"{counted(len(found), 'submission')}. Select a row to show its cells and its verifications below."
    )
    with st.expander("What the tiers of verification mean"):
        st.markdown(
            "\n".join(
                f"{place}. **{tier}**: {text}" for place, (tier, text) in enumerate(TIER_MEANINGS.items(), 1)
            )
        )
        st.markdown("Each tier includes those before it.")


def _about(row: dict[str, Any]) -> None:
    licence = escaped(visible(row["licence"])) or "without a licence"
    version = escaped(row["prmcal_version"] or "unknown")
    facts = [
        f"By **{escaped(submitter(row))}**, {licence}, {escaped(signature_text(row['signed_by']))}.",
        f"Grid {escaped(row['grid_name'] or 'unknown')}, run {escaped(row['run_id'])}, prmcal {version}.",
    ]
    if row["note"]:
        note_of_submitter = visible(" ".join(row["note"].split()))
        facts.append(f"Note of the submitter: {escaped(note_of_submitter)}")
    st.markdown("  \n".join(facts))
    if row["grid"]:
        with st.expander("Grid of this submission"):
            st.code(row["grid"], language=None)


def _verifications(found: pd.DataFrame) -> None:
    if found.empty:
        st.info("Nobody has verified this submission. `prmcal verify BUNDLE` does.")
        return
    for row in found.to_dict("records"):
        outcome = f"{row['tier']}: {'passed' if row['passed'] else 'failed'}"
        by = f"Verified by {row['verified_by']}, {_day(row['verified_at'])}, prmcal {row['prmcal_version']}"
        text = f"{outcome}. {by}."
        st.markdown(f"**{escaped(visible(text))}**")
        checks = row["checks"].get("checks", [])
        if checks:
            show_table(
                {
                    "Tier": names(each["tier"] for each in checks),
                    "Check": names(each["check"] for each in checks),
                    "Result": ["passed" if each["passed"] else "failed" for each in checks],
                    "n": [integer(each["n"]) for each in checks],
                    "Finding": names(visible(each["message"]) for each in checks),
                    "Cells": [integer(len(each["cells"])) if each["cells"] else "" for each in checks],
                }
            )


def _cells(path: Path, submission_id: str) -> None:
    """Show the rows of each leaderboard that came with a submission, and how to renew those that are not current."""
    boards = {table: ask(catalog.leaderboard, path, table=table) for table in LEADERBOARDS}
    own = {
        table: cells[[submission_id in each.split() for each in cells["submissions"]]]
        for table, cells in boards.items()
        if len(cells)
    }
    st.markdown(f"**{counted(sum(map(len, own.values())), 'cell')}**")
    for table, cells in own.items():
        if len(cells):
            shown = [name for name in LEADERBOARDS[table].main_metrics if name in cells]
            board = web_board(cells, table, ask(catalog.metrics, path), shown)
            st.caption(f"{board.title}. {escaped(board.legend)}")
            show_board(board, f"cells {submission_id} {table}")
    outdated = [row for cells in own.values() for row in cells[cells["outdated"].notna()].to_dict("records")]
    if outdated:
        with st.expander(f"{counted(len(outdated), 'cell')} not current: how to measure them again"):
            st.markdown("`GRID.yaml` is the grid of this submission, which is shown above.")
            st.code("\n".join(dict.fromkeys(map(renewal, outdated))), language=None, wrap_lines=True)


def _history(path: Path) -> None:
    cells: pd.DataFrame = ask(catalog.cells, path)
    done = cells[cells["status"] == "done"]
    base = done["base_id"].fillna(done["cell_id"])
    several = base.value_counts(sort=False)
    options = [str(each) for each in base.drop_duplicates() if several[each] > 1]
    if not options:
        st.info("No cell was measured more than once.")
        return
    left, right = st.columns([3, 1])
    with left:
        base_id = st.selectbox("Cell", options, **bound("history", options))
    described: Metrics = ask(catalog.metrics, path)
    table = str(done.loc[base == base_id, "leaderboard"].iloc[0])
    main = LEADERBOARDS[table].main_metrics  # type: ignore[index]
    of_table = [each.name for each in described.values() if each.leaderboard == table]
    metrics = [name for name in dict.fromkeys([*main, *of_table]) if name in described]
    with right:
        metric = choose_metric("Metric", metrics, "metric", described)
    found: pd.DataFrame = ask(catalog.history, path, base_id=base_id, metric=metric.name)
    if found.empty:
        st.info(f"This cell has no value of {metric.title}.")
        return
    measured = zip(found["value"], found["low"], found["high"], strict=True)
    values = [estimate(metric.name, *each) for each in measured]
    rows = found.assign(
        day=[_day(each) for each in found["measured_at"]],
        variant=[
            "; ".join(filter(None, each)) or "as in the grid"
            for each in zip(found["conditions"], found["version"], strict=True)
        ],
        series=["current" if pd.isna(each) else "not current" for each in found["outdated"]],
        n=found["questions"],
    )
    rows["label"] = rows["day"] + ", " + rows["variant"]
    said = "; ".join(map("{}: {}".format, rows["label"], values))
    draw(
        interval_chart(rows, metric.title, _SERIES, shown=legend(lines=False)),
        f"{metric.title} of {base_id}: {said}",
    )
    show_table(
        {
            "Measured": names(rows["day"]),
            "Variant": names(rows["variant"]),
            metric.title: names(values),
            "Questions": [integer(each) for each in rows["questions"]],
            "Not current": names(rows["outdated"]),
            VERIFIED: names(map(verified_text, rows["tier"])),
        }
    )
    st.caption(
        f"{metric.description} Intervals are over questions; variants with other seeds show the spread between seeds."
    )


def _day(moment: Any) -> str:
    return "unknown" if moment is None or pd.isna(moment) else f"{moment:%Y-%m-%d}"
