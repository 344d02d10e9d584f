"""Tables that several pages show: columns of text, areas under curves, jobs of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from prmcal.dashboard.charts.curves import FIXED
from prmcal.dashboard.formats import escaped, estimates, settings
from prmcal.db.text.presentation import COORDINATE_TITLES

__all__ = ["show_areas", "show_jobs", "show_table"]

_JOB_TITLES = {
    "kind": "Kind",
    **{name: COORDINATE_TITLES[name] for name in ("llm", "prm", "calibrator", "dataset")},
    "split": "Split",
    "job_key": "Key",
    "seed": "Seed",
    "status": "Status",
    "shards": "Shards",
    "seconds": "Seconds",
    "tokens": "Tokens",
}


def show_table(columns: Mapping[str, Sequence[str]] | pd.DataFrame) -> None:
    """Show columns of Markdown by their titles."""
    st.table(pd.DataFrame(columns), border="horizontal", hide_index=True)


def show_areas(areas: pd.DataFrame) -> None:
    """Show areas under curves with their intervals, in the order of the rows. A row without calibrator is a fixed n."""
    if areas.empty:
        st.info("No area was measured at this level.")
        return
    show_table(
        {
            "Curve": [escaped(name) if isinstance(name, str) else FIXED for name in areas["calibrator"]],
            "β": settings(areas["level"]),
            "Area": estimates(areas[["value", "low", "high"]]),
        }
    )


def show_jobs(jobs: pd.DataFrame) -> None:
    """Show jobs with their keys, seeds and costs."""
    shown = jobs.assign(
        # As text, because a seed can have more digits than a number in JavaScript.
        seed=[None if pd.isna(seed) else str(seed) for seed in jobs["seed"]],
        tokens=jobs["generated_tokens"] + jobs["scored_tokens"],
    )
    st.dataframe(
        shown[list(_JOB_TITLES)].rename(columns=_JOB_TITLES),
        hide_index=True,
        column_config={"Seconds": st.column_config.NumberColumn(format="%.1f")},
    )
