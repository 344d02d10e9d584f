"""``prmcal show`` and ``compare``: a cell, and two of them side by side."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from prmcal.db.catalog import cell, metrics
from prmcal.db.metrics import cell_number, with_terminal
from prmcal.db.queries.cells import CellDetail, find_cell, numbered
from prmcal.db.queries.two_cells import compare_cells
from prmcal.db.reader import reading
from prmcal.db.text import formats
from prmcal.db.text.board import Column, comparison_board, estimate, questions_board
from prmcal.harness.cli import options
from prmcal.harness.cli.options import argument
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.terminal import UNLIMITED, terminal_width, wrapped
from prmcal.steps import without_marks

_JOB_WEIGHTS = {
    **{"depth": 8, "kind": 0, "dataset": 3, "split": 2, "job_key": 0, "status": 6, "shards": 7},
    **{"samples": 5, "seconds": 4},
}
"""The columns of the table of jobs. Columns with the largest weights are left out first."""

_ROOM_FOR_BOTH_INTERVALS = 120
"""From this width of a terminal in columns, not only differences of two cells have intervals, but also their values."""
_SECTION = with_terminal("")
"""The end of the names of metrics that count terminal prefixes."""


def show(
    cell: options.CellArgument, directory: options.RunOption = options.DEFAULT_RUN, wide: options.WideOption = False
) -> None:
    """Show the results of a cell and their provenance.

    The provenance is the cell's plugins, data sets, jobs with keys, and some trajectories.
    """
    typer.echo(render_cell(directory, cell, UNLIMITED if wide else None), nl=False)


def render_cell(directory: Path, name: str, width: int | None = None) -> str:
    """Return a cell of a run's folder as text. The name is one that `find_cell` takes."""
    with reading(RunFolder(directory).results()) as source:
        cell_id = find_cell(source, name)
        detail, short = cell(source, cell_id), cell_number(numbered(source)[cell_id])
        order = {metric: place for place, metric in enumerate(metrics(source))}
    head = [f"{short} {cell_id}: {detail.cell['status']}"]
    if detail.cell["reason"]:
        head.append(f"reason: {detail.cell['reason']}")
    head += formats.source_lines(detail.cell, detail.run)
    paragraphs = ["\n".join(wrapped(line, width) for line in head)]
    if len(detail.results):
        paragraphs.append(options.table(_results(detail.results, order), width))
    jobs = detail.jobs.to_dict("records")
    columns = [Column(name, _texts(jobs, name), weight) for name, weight in _JOB_WEIGHTS.items()]
    paragraphs += [_plugins(detail, width), "Jobs, from the cell down to the rollouts", options.table(columns, width)]
    for row in detail.samples.itertuples():
        graded_as = formats.graded(row.verdict, row.finish_reason)
        title = f"Trajectory {row.trajectory} of {row.question_id} ({graded_as}): {without_marks(row.question)}"
        paragraphs.append(f"{wrapped(title, width)}\n{wrapped(without_marks(row.text), width)}")
    return "\n\n".join(paragraphs) + "\n"


def _results(results: pd.DataFrame, order: Mapping[str, int]) -> list[Column]:
    # Values over all questions come before those of a difficulty.
    place = results["metric"].map(order).fillna(len(order))
    results = results.assign(place=place).sort_values(["place", "metric", "question_level"], na_position="first")
    rows = results.to_dict("records")
    values = tuple(estimate(row["metric"], row["value"], row["low"], row["high"]) for row in rows)
    levels = [Column("level", _texts(rows, "question_level", "all"))]
    return [
        Column("metric", _texts(rows, "metric")),
        *(levels if results["question_level"].notna().any() else ()),
        Column("value, 95% interval", values, whole=True),
        Column("questions", _texts(rows, "questions"), 1),
        Column("rows", _texts(rows, "rows"), 2),
    ]


def _plugins(detail: CellDetail, width: int | None) -> str:
    lines = ["Plugins"]
    for row in detail.plugins.itertuples():
        lines.append(wrapped(f"{row.kind} {row.name}: {row.plugin}", width, indent="  ", hanging="  "))
        for title, data in (("arguments", row.arguments), ("identity", row.identity)):
            text = f"{title} {json.dumps(data, sort_keys=True)}"
            lines.append(wrapped(text, width, indent="    ", hanging="  "))
    lines += ["", "Data"]
    for row in detail.datasets.itertuples():
        text = f"{row.name}/{row.split}: {row.questions} questions, content {row.content_hash}, grader "
        lines.append(wrapped(text + row.grader_version, width, indent="  ", hanging="  "))
    return "\n".join(lines)


def _texts(rows: list[dict[str, Any]], name: str, absent: str = "") -> tuple[str, ...]:
    values = [absent if formats.missing(row[name]) else row[name] for row in rows]
    return tuple(formats.amount(value) if isinstance(value, float) else str(value) for value in values)


def compare(
    first: Annotated[str, argument("A", "A cell: its number in the leaderboard, its id or a part of it.")],
    second: Annotated[str, argument("B", "Another cell on the same data set.")],
    directory: options.RunOption = options.DEFAULT_RUN,
    output_format: options.FormatOption = "table",
    wide: options.WideOption = False,
) -> None:
    """Compare two cells on the same questions.

    Every metric has a difference with a 95% interval and a test of significance.
    """
    width = UNLIMITED if wide else None
    typer.echo(render_comparison(directory, first, second, output_format, width), nl=False)


def render_comparison(
    directory: Path, first: str, second: str, output_format: str = "table", width: int | None = None
) -> str:
    """Compare two cells of a run and return the result in one of the formats. ``csv`` leaves out the questions."""
    options.one_of("--format", output_format, options.FORMATS)
    published = RunFolder(directory).results()
    with reading(published) as source:
        a, b, numbers = find_cell(source, first), find_cell(source, second), numbered(source)
    comparison = compare_cells(published, a, b)
    if output_format == "json":
        data = {
            "a": options.plain_row(comparison.a),
            "b": options.plain_row(comparison.b),
            "questions": comparison.questions,
            "metrics": [options.plain_row(row) for row in comparison.table.to_dict("records")],
            "differing_questions": [options.plain_row(row) for row in comparison.differing.to_dict("records")],
        }
        return json.dumps(data, indent=1) + "\n"
    if output_format == "csv":
        return options.exported(comparison.table, output_format)
    cell_ids = {"A": comparison.a["cell_id"], "B": comparison.b["cell_id"]}
    cells = [f"{side}  {cell_number(numbers[cell_id])} {cell_id}" for side, cell_id in cell_ids.items()]
    narrow = (terminal_width() if width is None else width) < _ROOM_FOR_BOTH_INTERVALS
    board, questions = comparison_board(comparison, narrow=narrow), questions_board(comparison)
    # The metrics that count terminal prefixes are the last ones, if there are any.
    ends, sections = [metric.endswith(_SECTION) for metric in comparison.table["metric"]], {}
    if any(ends) and all(ends[-sum(ends) :]):
        sections[len(ends) - sum(ends)] = f"With terminal prefixes (METRIC{_SECTION})"
        board = comparison_board(comparison, lambda metric: metric.removesuffix(_SECTION), narrow=narrow)
    legend, head = board.legend.split("\n"), "\n".join(wrapped(line, width, hanging="   ") for line in cells)
    table = options.table(board.columns, width, legend=legend, options=["--format csv"], sections=sections)
    paragraphs = [head, wrapped(comparison.paired_over, width), table]
    if len(comparison.differing):
        paragraphs += [wrapped(f"{questions.title}:", width), options.table(questions.columns, width)]
    return "\n\n".join(paragraphs) + "\n"
