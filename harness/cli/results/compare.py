"""``prmcal compare``: two cells side by side, as text, JSON, CSV or Markdown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from prmcal.db.metrics import cell_number, with_terminal
from prmcal.db.queries.cells import find_cell, numbered
from prmcal.db.queries.two_cells import CellComparison, compare_cells
from prmcal.db.text.board import Board
from prmcal.db.text.comparison import comparison_board, questions_board
from prmcal.harness.cli.options import (
    DEFAULT_RUN,
    FORMATS,
    FormatOption,
    PagerOption,
    RunOption,
    WideOption,
    argument,
    completing_cells,
    exported,
    fitted,
    one_of,
    option,
    plain_row,
)
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.terminal import UNLIMITED, cut, wrapped
from prmcal.harness.terminal import show as show_text

_TEXT_START = 70
"""Characters of a question in Markdown."""
_SECTION = with_terminal("")
"""The end of the names of metrics that count terminal prefixes."""


def compare(
    first: Annotated[
        str,
        argument(
            "A",
            "A cell: its number in the leaderboard, its id or a part of it.",
            autocompletion=completing_cells,
        ),
    ],
    second: Annotated[
        str, argument("B", "Another cell on the same data set.", autocompletion=completing_cells)
    ],
    directory: RunOption = DEFAULT_RUN,
    metric: Annotated[str | None, option("METRIC", "Compare this metric only.")] = None,
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
    """Compare two cells of a run and return the result in one of the formats. ``csv`` leaves out the questions.

    Raise PrmcalError if there is no such format, run or cell, or the cells cannot be compared.
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
    board, questions = comparison_board(found), questions_board(found)
    if output_format == "markdown":
        parts = ["\\\n".join(cells), found.paired_over, _markdown(board), board.legend.replace("\n", "\\\n")]
        parts += [f"{questions.title}:", _markdown(questions)] if len(found.differing) else []
        return "\n\n".join(parts) + "\n"
    sections = _sections(found)
    if sections:
        board = comparison_board(found, lambda metric: metric.removesuffix(_SECTION))
    parts = [
        "\n".join(wrapped(line, width, hanging="   ") for line in cells),
        wrapped(found.paired_over, width),
        fitted(
            board.columns,
            width,
            legend=board.legend.split("\n"),
            options=["--format csv"],
            sections=sections,
        ),
    ]
    if len(found.differing):
        parts += [wrapped(f"{questions.title}:", width), fitted(questions.columns, width)]
    return "\n\n".join(parts) + "\n"


def _sections(found: CellComparison) -> dict[int, str]:
    """Return the heading above the metrics that count terminal prefixes, if they are the last ones."""
    ends = [metric.endswith(_SECTION) for metric in found.table["metric"]]
    first = len(ends) - sum(ends)
    return {first: f"With terminal prefixes (METRIC{_SECTION})"} if any(ends) and all(ends[first:]) else {}


def _markdown(board: Board) -> str:
    short = (
        replace(each, values=tuple(cut(value, _TEXT_START) for value in each.values))
        for each in board.columns
    )
    return replace(board, columns=tuple(short)).markdown().rstrip("\n")


def _data(found: CellComparison) -> dict[str, Any]:
    return {
        "a": plain_row(found.a),
        "b": plain_row(found.b),
        "questions": found.questions,
        "prefixes_a": found.prefixes and found.prefixes[0],
        "prefixes_b": found.prefixes and found.prefixes[1],
        "metrics": [plain_row(row) for row in found.table.to_dict("records")],
        "differing_questions": [plain_row(row) for row in found.differing.to_dict("records")],
    }
