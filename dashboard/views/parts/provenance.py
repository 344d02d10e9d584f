"""The provenance of a cell: jobs, versions and sample trajectories."""

from __future__ import annotations

from typing import Any

import streamlit as st

from prmcal.dashboard.formats import escaped, kept
from prmcal.dashboard.views.parts.tables import show_jobs
from prmcal.db.queries.cells import CellDetail
from prmcal.db.text.formats import graded

__all__ = ["show_provenance"]


def show_provenance(detail: CellDetail) -> None:
    """Show the jobs, the versions and a few trajectories from which a cell was computed."""
    st.header("Provenance")
    with st.expander(f"{len(detail.jobs)} jobs"):
        show_jobs(detail.jobs)
    with st.expander("Versions of plugins and data sets"):
        st.json(_versions(detail), expanded=True)
    with st.expander(f"{len(detail.samples)} sample trajectories"):
        for sample in detail.samples.to_dict("records"):
            verdict = graded(sample["verdict"], sample["finish_reason"])
            heading = f"Question {sample['question_id']}, trajectory {sample['trajectory']}: {verdict}"
            st.markdown(f"**{escaped(heading)}**")
            st.text(kept(sample["question"]))
            st.code(kept(sample["text"]), language=None, wrap_lines=True)


def _versions(detail: CellDetail) -> dict[str, Any]:
    plugins = {f"{row.kind} {row.name}": row.identity for row in detail.plugins.itertuples()}
    datasets = {f"{row.name} ({row.split})": row.content_hash for row in detail.datasets.itertuples()}
    return {"plugins": plugins, "content hashes of data sets": datasets}
