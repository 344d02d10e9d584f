"""What the command line prints: states, leaderboards and cells as text."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table

from harness.estimate import Work
from harness.folder import RunFolder
from harness.progress import duration
from registry.errors import PrmcalError

if TYPE_CHECKING:
    import pandas as pd

    from harness.status import Status

__all__ = [
    "FORMATS",
    "markdown_table",
    "missing",
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
_STANDING = {"best": "*", "tied": "=", "worse": " "}
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
    from db.queries import leaderboard

    one_of("--table", table, _TABLES)
    one_of("--format", output_format, FORMATS)
    RunFolder(directory).record()
    if table == "costs":
        from harness.render_costs import render_costs

        return render_costs(RunFolder(directory).published, output_format)
    frame = leaderboard(RunFolder(directory).published, table)  # type: ignore[arg-type]
    if output_format == "csv":
        text: str = frame.to_csv(index=False, lineterminator="\n")
        return text
    if output_format == "json":
        return json.dumps([plain_row(row) for row in frame.to_dict("records")], indent=1) + "\n"
    if output_format == "markdown":
        metrics = [name for name in frame.columns if f"{name}_low" in frame.columns]
        return markdown_table(*_readable(frame, metrics)) + "".join(
            f"\n{line}\n" for line in _failures(frame)
        )
    head, rows = _readable(frame, _TABLE_METRICS[table])
    legend = (
        "value [95% interval by bootstrap over questions]; * best, = not distinguishable from the best; what shares a "
        "letter within a data set, LLM and PRM is not distinguishable (paired, p < 0.05 after Holm's correction)"
    )
    return "\n".join([text_table(head, rows), legend, *_failures(frame)]) + "\n"


def render_cell(directory: Path, cell_id: str) -> str:
    """A cell with its results and its provenance."""
    from db.queries import cell

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


def _readable(frame: pd.DataFrame, metrics: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    names = [
        name
        for name in ("dataset", "llm", "prm", "calibrator", "strategy", "target", "level")
        if frame[name].notna().any()
    ]
    shown = [metric for metric in metrics if metric in frame.columns]
    rows = []
    for row in frame.to_dict("records"):
        cells = [
            "" if missing(row[name]) else f"{row[name]:g}" if isinstance(row[name], float) else str(row[name])
            for name in names
        ]
        values = [_value(row, metric) for metric in shown]
        counts = "" if missing(row["questions"]) else f"{row['rows']:g}/{row['questions']:g}"
        rows.append([*cells, *values, counts, row["status"]])
    titles = {"target": "C", "level": "beta"}
    return [*(titles.get(name, name) for name in names), *shown, "rows/questions", "status"], rows


def _failures(frame: pd.DataFrame) -> list[str]:
    failed = frame[frame["status"] == "failed"]
    return [f"failed ({count} cells): {reason}" for reason, count in failed["reason"].value_counts().items()]


def _value(row: dict[str, Any], metric: str) -> str:
    if missing(row[metric]):
        return ""
    interval = (
        "" if missing(row[f"{metric}_low"]) else f" [{row[f'{metric}_low']:.3f}, {row[f'{metric}_high']:.3f}]"
    )
    standing, letters = row[f"{metric}_standing"], row[f"{metric}_letters"]
    mark = "" if missing(standing) else _STANDING[standing]
    return f"{row[metric]:.3f}{interval}{mark}{'' if missing(letters) else f' {letters}'}"


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same as a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def _frame_table(frame: pd.DataFrame) -> str:
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
    return {name: None if missing(value) else value for name, value in row.items()}


def missing(value: Any) -> bool:
    """Whether a value of a DataFrame is not there."""
    import pandas as pd

    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))


def one_of(option: str, value: str, known: Sequence[str]) -> None:
    """Raise a PrmcalError unless an option has a known value."""
    if value not in known:
        raise PrmcalError(f"{option} must be one of {', '.join(known)}. Got '{value}'.")


def time_left(work: Work) -> str:
    """Worker time of what is left of one kind of job, in words."""
    if work.reused == work.shards:
        return "none"
    return "not known yet" if work.seconds is None else duration(work.seconds)
