"""``prmcal show``: a cell with its results, its jobs and some of its trajectories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from prmcal.db.queries.catalog import cell
from prmcal.db.text.readable import missing
from prmcal.harness.commands.output import printable, text_table
from prmcal.harness.storage.folder import RunFolder

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["render_cell"]

_JOB_COLUMNS = (
    "depth",
    "kind",
    "dataset",
    "split",
    "job_key",
    "seed",
    "status",
    "shards",
    "samples",
    "seconds",
)


def render_cell(directory: Path, cell_id: str) -> str:
    """Return a cell of a run's folder as text.

    Raises
    ------
    PrmcalError
        If no grid was run in the folder.
    DatabaseError
        If there is no such cell, or no readable database.
    """
    detail = cell(RunFolder(directory).results(), cell_id)
    lines = [f"{detail.cell['cell_id']}: {detail.cell['status']}"]
    if detail.cell["reason"]:
        lines.append(f"reason: {detail.cell['reason']}")
    lines += ["", _frame_table(detail.results), "", "Plugins"]
    lines += [
        f"  {row.kind} {row.name}: {row.plugin} {json.dumps(row.arguments, sort_keys=True)} "
        f"{json.dumps(row.identity, sort_keys=True)}"
        for row in detail.plugins.itertuples()
    ]
    lines += ["", "Data"]
    lines += [
        f"  {row.name}/{row.split}: {row.questions} questions, content {row.content_hash}, grader {row.grader_version}"
        for row in detail.datasets.itertuples()
    ]
    jobs = detail.jobs[list(_JOB_COLUMNS)].astype({"seed": "str"})
    lines += ["", "Jobs, from the cell down to the rollouts", _frame_table(jobs)]
    for row in detail.samples.itertuples():
        lines += [
            "",
            f"Trajectory {row.trajectory} of {row.question_id} ({row.verdict}): {printable(str(row.question))}",
            printable(row.text),
        ]
    return "\n".join(lines) + "\n"


def _frame_table(frame: pd.DataFrame) -> str:
    rows = [
        ["" if missing(v) else f"{v:.4g}" if isinstance(v, float) else str(v) for v in row]
        for row in frame.to_numpy()
    ]
    return text_table(list(frame.columns), rows)
