"""``prmcal compare``: two cells side by side, as text, JSON, CSV or Markdown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from prmcal.db.metrics import cell_number, with_terminal
from prmcal.db.queries.cells import find_cell, numbered
from prmcal.db.queries.two_cells import CellComparison, compare_cells
from prmcal.db.statistics.paired import SIGNIFICANCE
from prmcal.db.text.board import Board, Column, column_of, estimate
from prmcal.db.text.formats import missing, number
from prmcal.harness.cli.options import (
    DEFAULT_RUN,
    FORMATS,
    FormatOption,
    PagerOption,
    RunOption,
    WideOption,
    completing_cells,
    exported,
    fitted,
    one_of,
    plain_row,
)
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.terminal import UNLIMITED, cut, wrapped
from prmcal.harness.terminal import show as show_text
from prmcal.registry.messages import one_line

_TEXT_START = 70
"""Characters of a question in Markdown."""
_FROM_ZERO = "†"
_SECTION = with_terminal("")
"""The end of the names of metrics that count terminal prefixes."""


def compare(
    first: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="A cell: its number in the leaderboard, its id or a part of it.",
            autocompletion=completing_cells,
        ),
    ],
    second: Annotated[
        str,
        typer.Argument(
            metavar="B", help="Another cell on the same data set.", autocompletion=completing_cells
        ),
    ],
    directory: RunOption = DEFAULT_RUN,
    metric: Annotated[str | None, typer.Option(metavar="METRIC", help="Compare this metric only.")] = None,
    output_format: FormatOption = "table",
    wide: WideOption = False,
    pager: PagerOption = True,
) -> None:
    """Compare two cells on the same questions.

    Every metric has a difference with a 95% interval and a test of significance.
    """
    width = UNLIMITED if wide else None
    text = render_comparison(directory, first, second, metric, output_format, width)
    show_text(text, pager and output_format == "table")


def render_comparison(
    directory: Path, first: str, second: str, metric: str | None, output_format: str, width: int | None = None
) -> str:
    """Compare two cells of a run's folder and return the result in one of the formats.

    ``csv`` has the metrics, without the questions.

    Raises
    ------
    PrmcalError
        If there is no such format, or no grid was run in the folder.
    DatabaseError
        If there is no such cell, the cells cannot be compared, or there is no readable database.
    """
    one_of("--format", output_format, FORMATS)
    published = RunFolder(directory).results()
    found = compare_cells(published, find_cell(published, first), find_cell(published, second), metric)
    if output_format == "json":
        return json.dumps(_data(found), indent=1) + "\n"
    if output_format == "csv":
        return exported(found.table, output_format)
    numbers = numbered(published)
    cells = [
        f"{side}  {cell_number(numbers[row['cell_id']])} {row['cell_id']}"
        for side, row in (("A", found.a), ("B", found.b))
    ]
    if output_format == "markdown":
        return _markdown(found, cells)
    sections = _sections(found)
    parts = [
        "\n".join(wrapped(line, width, hanging="   ") for line in cells),
        wrapped(found.paired_over, width),
        fitted(
            _metric_columns(found, _SECTION if sections else ""),
            width,
            legend=_legend(found),
            options=["--format csv"],
            sections=sections,
        ),
    ]
    if len(found.differing):
        parts += [wrapped(_questions_title(found), width), fitted(_question_columns(found), width)]
    return "\n\n".join(parts) + "\n"


def _markdown(found: CellComparison, cells: list[str]) -> str:
    parts = [
        "\\\n".join(cells),
        found.paired_over,
        _markdown_table(_metric_columns(found)),
        "\\\n".join(_legend(found)),
    ]
    if len(found.differing):
        parts += [_questions_title(found), _markdown_table(_question_columns(found))]
    return "\n\n".join(parts) + "\n"


def _sections(found: CellComparison) -> dict[int, str]:
    """Return the heading above the metrics that count terminal prefixes, if they are the last ones."""
    ends = [metric.endswith(_SECTION) for metric in found.table["metric"]]
    first = len(ends) - sum(ends)
    return {first: f"With terminal prefixes (METRIC{_SECTION})"} if any(ends) and all(ends[first:]) else {}


def _metric_columns(found: CellComparison, without: str = "") -> list[Column]:
    """Return the table, with the names of metrics `without` their end."""
    rows = list(found.table.itertuples())
    differences = [estimate(row.metric, row.difference, row.low, row.high, signed=True) for row in rows]
    sides = [
        column_of(rows, "A", lambda row: estimate(row.metric, row.a, row.a_low, row.a_high), 3),
        column_of(rows, "B", lambda row: estimate(row.metric, row.b, row.b_low, row.b_high), 3),
    ]
    return [
        column_of(rows, "metric", lambda row: row.metric.removesuffix(without)),
        *(replace(each, group="cells", whole=True) for each in sides),
        Column(
            "A - B",
            tuple(f"{text}{_FROM_ZERO * row.from_zero}" for text, row in zip(differences, rows, strict=True)),
            whole=True,
        ),
        column_of(rows, "significant", lambda row: {None: "", True: "yes", False: "no"}[row.real], 1),
        column_of(found.p_values, "p", lambda p: "" if missing(p) else f"{p:.2g}", 2),
    ]


def _legend(found: CellComparison) -> list[str]:
    lines = ["Values with 95% intervals over questions. A - B is paired."]
    if found.table["from_zero"].any():
        lines.append(f"{_FROM_ZERO}: difference of the distances from 0, the best value.")
    pairs = sorted({each for each in found.table["pairs"] if each is not None})
    if not pairs:
        adjusted = (
            "These cells do not compete on a leaderboard, so p is not adjusted for the number of comparisons."
        )
    else:
        adjusted = (
            "p is adjusted by Holm's correction over all pairs of cells of the group "
            f"({' or '.join(map(str, pairs))} {'pair' if pairs == [1] else 'pairs'}), except that of metrics that are "
            "not compared on a leaderboard."
        )
    return [*lines, f"significant: p < {SIGNIFICANCE}. {adjusted}"]


def _questions_title(found: CellComparison) -> str:
    by = "squared error, mean over prefixes" if found.prefixes else "accuracy"
    return f"Questions with the largest differences ({by}):"


def _question_columns(found: CellComparison) -> list[Column]:
    rows = list(found.differing.itertuples())
    texts = column_of(rows, "text", lambda row: "" if missing(row.question) else row.question, 2)
    return [
        column_of(rows, "question", lambda row: one_line(row.question_id), 3),
        column_of(
            rows, "level", lambda row: "" if missing(row.question_level) else f"{row.question_level}", 4
        ),
        column_of(rows, "A", lambda row: number(row.value_a), 1),
        column_of(rows, "B", lambda row: number(row.value_b), 1),
        column_of(rows, "A - B", lambda row: number(row.difference, signed=True)),
        replace(texts, text=True),
    ]


def _markdown_table(columns: list[Column]) -> str:
    short = (
        replace(each, values=tuple(cut(value, _TEXT_START) for value in each.values)) for each in columns
    )
    return Board(tuple(short), names=1).markdown().rstrip("\n")


def _data(found: CellComparison) -> dict[str, Any]:
    return {
        "a": plain_row(found.a),
        "b": plain_row(found.b),
        "questions": found.questions,
        "prefixes_a": found.prefixes and found.prefixes[0],
        "prefixes_b": found.prefixes and found.prefixes[1],
        "common_prefixes": found.common_prefixes,
        "metrics": [plain_row(row) for row in found.table.to_dict("records")],
        "differing_questions": [plain_row(row) for row in found.differing.to_dict("records")],
    }
