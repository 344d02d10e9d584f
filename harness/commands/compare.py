"""``prmcal compare``: two cells side by side, as text, JSON, CSV or Markdown."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from prmcal.db.queries.two_cells import CellComparison, MetricComparison, compare_cells
from prmcal.db.statistics.standings import SIGNIFICANCE
from prmcal.db.text.readable import Readable, missing
from prmcal.harness.commands.output import FORMATS, one_of, plain_row, printable, text_table
from prmcal.harness.storage.folder import RunFolder

__all__ = ["render_comparison"]

_TEXT_START = 70


def render_comparison(
    directory: Path, cell_a: str, cell_b: str, metric: str | None, output_format: str
) -> str:
    """Compare two cells of a run's folder and return the result in one of the formats.

    Parameters
    ----------
    directory : Path
        The output folder of a run.
    cell_a, cell_b : str
        Cell ids.
    metric : str or None
        Compare this metric only; None for all metrics.
    output_format : {"table", "json", "csv", "markdown"}
        ``csv`` has the metrics, without the questions.

    Raises
    ------
    PrmcalError
        If there is no such format, or no grid was run in the folder.
    DatabaseError
        If there is no such cell, the cells cannot be compared, or there is no readable database.
    """
    one_of("--format", output_format, FORMATS)
    found = compare_cells(RunFolder(directory).results(), cell_a, cell_b, metric)
    if output_format == "json":
        return json.dumps(_data(found), indent=1) + "\n"
    if output_format == "csv":
        return _csv([_metric_data(each) for each in found.metrics])
    markdown = output_format == "markdown"
    table, line_end = (_markdown_table, "\\\n") if markdown else (text_table, "\n")
    head, rows = _metric_rows(found)
    parts = [
        line_end.join([f"A  {found.a['cell_id']}", f"B  {found.b['cell_id']}"]),
        found.paired_over,
        table(head, rows).rstrip("\n"),
        line_end.join(_legend(found)),
    ]
    if len(found.differing):
        by = "squared error, mean over prefixes" if found.prefixes else "accuracy"
        parts += [
            f"Questions with the largest differences ({by}):",
            table(*_question_rows(found)).rstrip("\n"),
        ]
    return "\n\n".join(parts) + "\n"


def _metric_rows(found: CellComparison) -> tuple[list[str], list[list[str]]]:
    rows = [
        [
            each.metric,
            _estimate(*each.a),
            _estimate(*each.b),
            _estimate(each.difference, each.low, each.high, "+.3f") + ("†" if each.from_zero else ""),
            "" if missing(each.p) else f"{each.p:.2g}",
            _adjustment(each.pairs),
            "" if missing(each.p) else "yes" if each.real else "no",
        ]
        for each in found.metrics
    ]
    return ["metric", "A", "B", "A - B", "p", "p adjusted", "significant"], rows


def _adjustment(pairs: int | None) -> str:
    return "not adjusted" if pairs is None else f"Holm, {pairs} pair{'' if pairs == 1 else 's'}"


def _legend(found: CellComparison) -> list[str]:
    lines = ["Values with 95% intervals over questions. A - B is paired."]
    if any(each.from_zero for each in found.metrics):
        lines.append("†: difference of the distances from 0, the best value.")
    if any(each.pairs is None for each in found.metrics):
        lines.append(
            f"significant: p < {SIGNIFICANCE}. These cells do not compete on a leaderboard, so p is not adjusted for "
            "the number of comparisons."
        )
    else:
        lines.append(
            f"significant: p < {SIGNIFICANCE} after Holm's correction over all pairs of cells of the group."
        )
    return lines


def _question_rows(found: CellComparison) -> tuple[list[str], list[list[str]]]:
    rows = [
        [
            _one_line(row.question_id),
            "" if missing(row.question_level) else str(row.question_level),
            f"{row.value_a:.3f}",
            f"{row.value_b:.3f}",
            f"{row.difference:+.3f}",
            "" if missing(row.question) else _one_line(row.question),
        ]
        for row in found.differing.itertuples()
    ]
    return ["question", "level", "A", "B", "A - B", "text"], rows


def _estimate(value: float, low: float, high: float, number: str = ".3f") -> str:
    interval = "" if missing(low) else f" [{low:{number}}, {high:{number}}]"
    return f"{value:{number}}{interval}"


def _one_line(text: str) -> str:
    """Return the start of a text on one line, with control characters escaped."""
    flat = " ".join(text.split())
    start = flat if len(flat) <= _TEXT_START else flat[: _TEXT_START - 1] + "…"
    return printable(start)


def _markdown_table(head: list[str], rows: list[list[str]]) -> str:
    return Readable(head, rows, names=1).markdown()


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
