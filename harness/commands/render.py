"""What the command line prints: states, leaderboards and cells as text."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table

from prmcal.db.text.formats import duration
from prmcal.errors import PrmcalError
from prmcal.harness.costs.estimate import Work
from prmcal.harness.storage.folder import RunFolder

if TYPE_CHECKING:
    import pandas as pd

    from prmcal.harness.commands.status import Status

__all__ = [
    "FORMATS",
    "one_of",
    "plain_row",
    "printable",
    "render_cell",
    "render_leaderboard",
    "render_status",
    "text_table",
    "time_left",
]

_TABLES = ("calibration", "scaling", "costs")
FORMATS = ("table", "json", "csv", "markdown")
# What a terminal has room for; the other formats have every metric.
_TABLE_METRICS = {
    "calibration": ("brier_corrected", "positive_brier", "adaptive_ce", "signed_error", "coverage_0.1"),
    "scaling": ("accuracy", "budget_ratio", "pass_at_n"),
}
_WIDE = 1000


def render_status(status: Status) -> str:
    """The state of a folder, by kind of job."""
    state = "running" if status.running else ("done" if status.done == status.shards else "not running")
    rows = [
        [each.kind.replace("_", " "), f"{each.reused}/{each.shards}", time_left(each)] for each in status.work
    ]
    lines = [
        f"Grid '{status.grid}' in {status.directory}: {state}, {status.done}/{status.shards} shards. "
        f"Latest run started {status.started_at}.",
        text_table(["jobs", "shards done", "worker time left"], rows),
    ]
    if status.done < status.shards and status.seconds_left is not None:
        lines.append(f"About {duration(status.seconds_left)} of worker time left.")
    lines += [f"failed: {reason}" for reason in status.reasons]
    return "\n".join(lines)


def render_leaderboard(directory: Path, table: str, output_format: str) -> str:
    """A leaderboard in one of the formats.

    Raises
    ------
    PrmcalError
        If the table or the format does not exist.
    DatabaseError
        If there is no readable database.
    """
    from prmcal.db.queries.catalog import leaderboard
    from prmcal.db.text.readable import readable_leaderboard

    one_of("--table", table, _TABLES)
    one_of("--format", output_format, FORMATS)
    RunFolder(directory).record()
    if table == "costs":
        from prmcal.harness.commands.costs import render_costs

        return render_costs(RunFolder(directory).published, output_format)
    frame = leaderboard(RunFolder(directory).published, table)  # type: ignore[arg-type]
    if output_format == "csv":
        text: str = frame.to_csv(index=False, lineterminator="\n")
        return text
    if output_format == "json":
        return json.dumps([plain_row(row) for row in frame.to_dict("records")], indent=1) + "\n"
    if output_format == "markdown":
        return readable_leaderboard(frame).markdown()
    found = readable_leaderboard(frame, _TABLE_METRICS[table])
    legend = (
        "value [95% interval by bootstrap over questions]; * best, = not distinguishable from the best; what shares a "
        "letter within a data set, LLM and PRM is not distinguishable (paired, p < 0.05 after Holm's correction)"
    )
    return "\n".join([text_table(found.head, found.rows), legend, *found.notes]) + "\n"


def render_cell(directory: Path, cell_id: str) -> str:
    """A cell with its results and its provenance."""
    from prmcal.db.queries.catalog import cell

    RunFolder(directory).record()
    detail = cell(RunFolder(directory).published, cell_id)
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
    lines += ["", "Jobs, from the cell down to the rollouts", _frame_table(_job_columns(detail.jobs))]
    for row in detail.samples.itertuples():
        lines += [
            "",
            f"Trajectory {row.trajectory} of {row.question_id} ({row.verdict}): {printable(str(row.question))}",
            printable(row.text),
        ]
    return "\n".join(lines) + "\n"


def printable(text: str) -> str:
    """A foreign text with what a terminal would obey written out; its line breaks stay."""
    return "".join(
        each if each.isprintable() or each == "\n" else each.encode("unicode_escape").decode()
        for each in text
    )


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns aligned with spaces, a rule below the head, as wide as it must be."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in head:
        table.add_column(title, no_wrap=True)
    for row in rows:
        table.add_row(*row)
    buffer = io.StringIO()
    Console(file=buffer, width=_WIDE, markup=False, highlight=False, color_system=None).print(table)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()).strip("\n")


def _frame_table(frame: pd.DataFrame) -> str:
    from prmcal.db.text.readable import missing

    rows = [
        ["" if missing(v) else f"{v:.4g}" if isinstance(v, float) else str(v) for v in row]
        for row in frame.to_numpy()
    ]
    return text_table(list(frame.columns), rows)


def _job_columns(jobs: pd.DataFrame) -> pd.DataFrame:
    columns = [
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
    ]
    return jobs[columns].astype({"seed": "str"})


def plain_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row for JSON, which knows null but neither NaN nor NA."""
    from prmcal.db.text.readable import missing

    return {name: None if missing(value) else value for name, value in row.items()}


def one_of(option: str, value: str, known: Sequence[str]) -> None:
    """Raise a PrmcalError unless an option has a known value."""
    if value not in known:
        raise PrmcalError(f"{option} must be one of {', '.join(known)}. Got '{value}'.")


def time_left(work: Work) -> str:
    """Worker time of what is left of one kind of job, in words."""
    if work.reused == work.shards:
        return "none"
    return "not known yet" if work.seconds is None else duration(work.seconds)
