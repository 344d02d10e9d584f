"""Where the numbers of a cell come from: jobs, versions, trajectories."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from prmcal.dashboard.text.plain import number, plain
from prmcal.db.queries.provenance import CellDetail

__all__ = ["show_provenance"]


def show_provenance(detail: CellDetail) -> None:
    """Show what a cell was made from."""
    st.subheader("Where it comes from")
    with st.expander(f"{len(detail.jobs)} jobs"):
        jobs = detail.jobs
        shown = {
            "Kind": [plain(kind) for kind in jobs["kind"]],
            "Key": [plain(key) for key in jobs["job_key"]],
            "Seed": [str(seed) if isinstance(seed, int) else number(None) for seed in jobs["seed"]],
            "Status": list(jobs["status"]),
        }
        st.table(pd.DataFrame(shown), border="horizontal", hide_index=True)
    with st.expander("Versions"):
        st.json(_versions(detail), expanded=True)
    with st.expander(f"{len(detail.samples)} sample trajectories"):
        for sample in detail.samples.to_dict("records"):
            heading = (
                f"Question {sample['question_id']}, trajectory {sample['trajectory']}: {sample['verdict']}"
            )
            st.markdown(f"**{plain(heading)}**")
            st.text(sample["question"] or "")
            st.code(sample["text"], language=None, wrap_lines=True)


def _versions(detail: CellDetail) -> dict[str, Any]:
    plugins = {f"{row.kind} {row.name}": row.identity for row in detail.plugins.itertuples()}
    datasets = {f"{row.name} ({row.split})": row.content_hash for row in detail.datasets.itertuples()}
    return {"plugins": plugins, "content of data sets": datasets}
