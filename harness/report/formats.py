"""Tables of a report as Markdown and CSV."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

from prmcal.db.text.formats import escape_markdown, interval, markdown_grid, number
from prmcal.db.text.presentation import DIGITS
from prmcal.harness.report.evidence.values import Value
from prmcal.harness.report.exhibits.types import Panel, Row, Table, TextTable, counts_text

__all__ = ["VERDICTS", "csv_text", "markdown", "markdown_notes", "without_repetition"]

_COLUMNS = (
    *("dataset", "prm", "llm", "strategy", "target", "level", "calibrator", "question_level", "metric"),
    *("value", "low", "high", "published", "prefixes", "questions", "standing", "status", "reason"),
)
VERDICTS = ("kept", "not kept", "open")
"""Standings of values that are compared with a promise."""


def csv_text(table: Table | TextTable) -> str:
    """Return a table as CSV: a line for each value, for programs, or the rows of a table of texts."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    if isinstance(table, TextTable):
        writer.writerows([table.readable.head, *table.readable.rows])
        return buffer.getvalue()
    writer.writerow(_COLUMNS)
    for each in table.values():
        setting = ["" if number is None else f"{number:g}" for number in (each.target, each.level)]
        numbers = ["" if number is None else f"{number:.6f}" for number in (each.value, each.low, each.high)]
        writer.writerow(
            [
                *(each.group.dataset, each.group.prm, each.group.llm, each.strategy, *setting),
                *(each.calibrator, each.question_level, each.metric, *numbers, each.published),
                *(each.prefixes, each.questions, each.standing, each.status, each.reason),
            ]
        )
    return buffer.getvalue()


def markdown(table: Table | TextTable) -> str:
    """Return a table in Markdown with title, caption and footnotes. Its headings start at level 2."""
    parts = [f"## {escape_markdown(table.title)}", escape_markdown(table.caption)]
    if isinstance(table, TextTable):
        return "\n\n".join([*parts, replace(table.readable, notes=()).markdown()])
    for panel in table.panels:
        if panel.title:
            parts.append(f"### {escape_markdown(panel.title)}")
        if panel.description:
            parts.append(escape_markdown(panel.description))
        heads = [
            f"{escape_markdown(head)}<br>{escape_markdown(column)}" if head else escape_markdown(column)
            for head, columns in panel.heads
            for column in columns
        ]
        parts.append(
            markdown_grid(
                [*panel.coordinates, *heads, "n"],
                [
                    [
                        *map(escape_markdown, shown),
                        *(_markdown_value(v, table) for v in row.values),
                        counts_text(row.values),
                    ]
                    for row, shown in without_repetition(panel)
                ],
                left=len(panel.coordinates),
            )
        )
    remarks = map(escape_markdown, table.remarks)
    return "\n\n".join([*parts, *markdown_notes(table.notes()), *remarks]) + "\n"


def markdown_notes(notes: dict[str, int]) -> list[str]:
    """Return the footnotes as a list of one paragraph, or an empty list."""
    lines = [f"<sup>{number}</sup> {escape_markdown(reason)}" for reason, number in notes.items()]
    return ["<br>\n".join(lines)] if lines else []


def _markdown_value(value: Value, table: Table) -> str:
    published = f"<br><sub>paper {value.published}</sub>" if value.published else ""
    if value.value is None:
        return f"–<sup>{table.notes()[value.reason or '']}</sup>{published}"  # noqa: RUF001
    text = number(value.value, DIGITS)
    if value.standing in VERDICTS:
        text = f"{text} ({value.standing})"
    text = {"best": f"**{text}**", "tied": f"{text} ="}.get(value.standing or "", text)
    between = "" if value.low is None or value.high is None else interval(value.low, value.high, DIGITS)
    return f"{text}{f'<br><sub>{between}</sub>' if between else ''}{published}"


def without_repetition(panel: Panel) -> list[tuple[Row, list[str]]]:
    """Return rows with their coordinates. Coordinates that repeat the row above are empty."""
    shown: list[tuple[Row, list[str]]] = []
    before = ("",) * len(panel.coordinates)
    for row in panel.rows:
        changed = next((i for i, name in enumerate(row.labels) if name != before[i]), len(row.labels))
        shown.append((row, [name if index >= changed else "" for index, name in enumerate(row.labels)]))
        before = row.labels
    return shown
