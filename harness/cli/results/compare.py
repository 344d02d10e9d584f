"""``prmcal compare``: two cells side by side, as text, JSON, CSV or Markdown."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from prmcal.db.metrics import cell_number, with_terminal
from prmcal.db.queries.cells import find_cell, numbered
from prmcal.db.queries.two_cells import CellComparison, MetricComparison, compare_cells
from prmcal.db.statistics.paired import SIGNIFICANCE
from prmcal.db.text.board import Board, Column, estimate
from prmcal.db.text.formats import missing, number
from prmcal.harness.cli.options import (
    DEFAULT_RUN,
    FORMATS,
    FormatOption,
    PagerOption,
    RunOption,
    WideOption,
    completing_cells,
    hidden_note,
    one_of,
    plain_row,
)
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.terminal import UNLIMITED, cut, fit, wrapped
from prmcal.harness.terminal import show as show_text
from prmcal.registry.messages import one_line

_TEXT_START = 70
"""Characters of a question in Markdown."""
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
    directory: Path,
    first: str,
    second: str,
    metric: str | None,
    output_format: str,
    width: int | None = None,
) -> str:
    """Compare two cells of a run's folder and return the result in one of the formats.

    Parameters
    ----------
    directory : Path
        The output folder of a run.
    first, second : str
        Names of cells, as :func:`prmcal.db.queries.cells.find_cell` takes them.
    metric : str or None
        Compare this metric only; None for all metrics.
    output_format : {"table", "json", "csv", "markdown"}
        ``csv`` has the metrics, without the questions.
    width : int, optional
        Width of a table. Default: that of the terminal.

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
        return _csv([_metric_data(each) for each in found.metrics])
    numbers = numbered(published)
    cells = [
        f"{side}  {cell_number(numbers[row['cell_id']])} {row['cell_id']}"
        for side, row in (("A", found.a), ("B", found.b))
    ]
    if output_format == "markdown":
        return _markdown(found, cells)
    fitted = fit(_metric_columns(found), width, _sections(found))
    legend = [wrapped(line, width) for line in _legend(found)]
    if fitted.hidden:
        legend.append(wrapped(hidden_note(fitted.hidden, "--format csv"), width))
    parts = [
        "\n".join(wrapped(line, width, hanging="   ") for line in cells),
        wrapped(found.paired_over, width),
        fitted.text,
        "\n".join(legend),
    ]
    if len(found.differing):
        parts += [wrapped(_questions_title(found), width), fit(_question_columns(found), width).text]
    return "\n\n".join(parts) + "\n"


def _markdown(found: CellComparison, cells: list[str]) -> str:
    parts = [
        "\\\n".join(cells),
        found.paired_over,
        _markdown_table(_metric_columns(found, whole_names=True)),
        "\\\n".join(_legend(found)),
    ]
    if len(found.differing):
        parts += [_questions_title(found), _markdown_table(_question_columns(found))]
    return "\n\n".join(parts) + "\n"


def _metric_columns(found: CellComparison, *, whole_names: bool = False) -> list[Column]:
    names = [each.metric for each in found.metrics]
    shown = names if whole_names or not _sections(found) else [name.removesuffix(_SECTION) for name in names]
    return [
        Column("metric", tuple(shown)),
        Column(
            "A", tuple(estimate(each.metric, *each.a) for each in found.metrics), 3, group="cells", whole=True
        ),
        Column(
            "B", tuple(estimate(each.metric, *each.b) for each in found.metrics), 3, group="cells", whole=True
        ),
        Column("A - B", tuple(map(_difference, found.metrics)), whole=True),
        Column(
            "significant", tuple("" if missing(e.p) else "yes" if e.real else "no" for e in found.metrics), 1
        ),
        Column("p", tuple("" if missing(each.p) else f"{each.p:.2g}" for each in found.metrics), 2),
    ]


def _difference(each: MetricComparison) -> str:
    text = estimate(each.metric, each.difference, each.low, each.high, signed=True)
    return f"{text}†" if each.from_zero else text


def _sections(found: CellComparison) -> dict[int, str]:
    """Return the heading above the metrics that count terminal prefixes, if they are the last ones."""
    ends = [each.metric.endswith(_SECTION) for each in found.metrics]
    first = len(ends) - sum(ends)
    return {first: f"With terminal prefixes (METRIC{_SECTION})"} if any(ends) and all(ends[first:]) else {}


def _legend(found: CellComparison) -> list[str]:
    lines = ["Values with 95% intervals over questions. A - B is paired."]
    if any(each.from_zero for each in found.metrics):
        lines.append("†: difference of the distances from 0, the best value.")
    pairs = sorted({each.pairs for each in found.metrics if each.pairs is not None})
    if not pairs:
        adjusted = (
            "These cells do not compete on a leaderboard, so p is not adjusted for the number of comparisons."
        )
    else:
        names = [each.metric for each in found.metrics if each.pairs is not None]
        those = "" if len(names) == len(found.metrics) else f" of {', '.join(names)}"
        counts = " or ".join(map(str, pairs))
        adjusted = (
            f"p{those} is adjusted by Holm's correction over all pairs of cells of the group "
            f"({counts} {'pair' if counts == '1' else 'pairs'})."
        )
        if those:
            adjusted += " Other metrics are not compared on a leaderboard, and their p is not adjusted."
    return [*lines, f"significant: p < {SIGNIFICANCE}. {adjusted}"]


def _questions_title(found: CellComparison) -> str:
    by = "squared error, mean over prefixes" if found.prefixes else "accuracy"
    return f"Questions with the largest differences ({by}):"


def _question_columns(found: CellComparison) -> list[Column]:
    rows = list(found.differing.itertuples())
    return [
        Column("question", tuple(one_line(row.question_id) for row in rows), 3),
        Column(
            "level", tuple("" if missing(row.question_level) else str(row.question_level) for row in rows), 4
        ),
        Column("A", tuple(number(row.value_a) for row in rows), 1),
        Column("B", tuple(number(row.value_b) for row in rows), 1),
        Column("A - B", tuple(number(row.difference, signed=True) for row in rows)),
        Column("text", tuple("" if missing(row.question) else row.question for row in rows), 2, text=True),
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
        "metrics": [_metric_data(each) for each in found.metrics],
        "differing_questions": [plain_row(row) for row in found.differing.to_dict("records")],
    }


def _metric_data(each: MetricComparison) -> dict[str, Any]:
    row = asdict(each)
    sides = {
        f"{side}{end}": number
        for side in ("a", "b")
        for end, number in zip(("", "_low", "_high"), row.pop(side), strict=True)
    }
    real = None if missing(each.p) else each.real
    return plain_row({"metric": row.pop("metric"), **sides, **row, "real": real})


def _csv(rows: list[dict[str, Any]]) -> str:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()
