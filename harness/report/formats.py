"""Tables of a report as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from itertools import chain

from prmcal.db.text.formats import escape_latex, escape_markdown, latex_line, markdown_grid
from prmcal.db.text.formats import number as rounded
from prmcal.db.text.presentation import DIGITS
from prmcal.harness.report.evidence.values import Value
from prmcal.harness.report.exhibits.types import Panel, Row, Table, counts_text

__all__ = ["csv_text", "latex", "markdown", "markdown_notes"]

_COLUMNS = (
    *("dataset", "prm", "llm", "strategy", "target", "level", "calibrator", "question_level", "metric"),
    *("value", "low", "high", "published", "prefixes", "questions", "standing", "status", "reason"),
)
_VERDICTS = ("kept", "not kept", "open")


def csv_text(table: Table) -> str:
    """Return a table as CSV for programs, with one line per value."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
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


def markdown(table: Table) -> str:
    """Return a table in Markdown with title, caption and footnotes. Its headings start at level 2."""
    parts = [f"## {escape_markdown(table.title)}", escape_markdown(table.caption)]
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
                    for row, shown in _without_repetition(panel)
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


def latex(table: Table) -> str:
    r"""Return a table in LaTeX for ``\input``, with one float for each panel."""
    first = f"% {table.name}. The preamble needs \\usepackage{{booktabs,graphicx}} and \\usepackage[T1]{{fontenc}}.\n"
    return first + "\n".join(_latex_float(table, panel) for panel in table.panels)


def _latex_float(table: Table, panel: Panel) -> str:
    # LaTeX numbers tables itself, so the number in "Table 2: best-of-n" is dropped.
    subject = table.title.partition(": ")[2] or table.title
    named = f"{subject[0].upper()}{subject[1:]}{f' ({panel.title})' if panel.title else ''}."
    texts = [named, panel.description, table.caption]
    label = "-".join(part for part in ("tab:prmcal", table.name, panel.name) if part)
    columns = list(chain.from_iterable(columns for _, columns in panel.heads))
    lines = [
        r"\begin{table}[htbp]",
        r"\centering",
        rf"\caption{{{escape_latex(' '.join(text for text in texts if text))}}}",
        rf"\label{{{label}}}",
        r"\resizebox{\textwidth}{!}{%",
        rf"\begin{{tabular}}{{{'l' * len(panel.coordinates)}{'r' * len(columns)}r}}",
        r"\toprule",
        *_latex_heads(panel),
        latex_line([*map(escape_latex, [*panel.coordinates, *columns]), "n"]),
        *_latex_rows(table, panel),
        r"\bottomrule",
        r"\end{tabular}}",
        *_latex_notes(table, panel),
        *(rf"\par\smallskip\footnotesize {escape_latex(remark)}" for remark in table.remarks),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_heads(panel: Panel) -> list[str]:
    if not any(head for head, _ in panel.heads):
        return []
    heads = [rf"\multicolumn{{{len(columns)}}}{{c}}{{{escape_latex(head)}}}" for head, columns in panel.heads]
    rules, start = [], len(panel.coordinates) + 1
    for _, columns in panel.heads:
        rules.append(rf"\cmidrule(lr){{{start}-{start + len(columns) - 1}}}")
        start += len(columns)
    return [latex_line([*[""] * len(panel.coordinates), *heads, ""]), " ".join(rules)]


def _latex_rows(table: Table, panel: Panel) -> list[str]:
    lines = []
    for row, shown in _without_repetition(panel):
        lines.append(r"\midrule" if shown[0] else r"\addlinespace")
        values = [_latex_value(value, table) for value in row.values]
        lines.append(latex_line([*map(escape_latex, shown), *values, counts_text(row.values)]))
        intervals = [_interval(value, r"{{\scriptsize [{}, {}]}}", _latex_number) for value in row.values]
        published = [
            rf"{{\scriptsize paper {each.published}}}" if each.published else "" for each in row.values
        ]
        lines += [
            latex_line([*[""] * len(shown), *below, ""]) for below in (intervals, published) if any(below)
        ]
    return lines


def _latex_notes(table: Table, panel: Panel) -> list[str]:
    here = {value.reason for row in panel.rows for value in row.values if value.reason}
    return [
        rf"\par\smallskip\footnotesize\textsuperscript{{{number}}} {escape_latex(reason)}"
        for reason, number in table.notes().items()
        if reason in here
    ]


def _latex_value(value: Value, table: Table) -> str:
    if value.value is None:
        return rf"--\textsuperscript{{{table.notes()[value.reason or '']}}}"
    number = _latex_number(value.value)
    if value.standing == "best":
        return rf"\textbf{{{number}}}"
    if value.standing in _VERDICTS:
        return rf"{number} ({value.standing})"
    return rf"{number}\textsuperscript{{=}}" if value.standing == "tied" else number


def _latex_number(number: float) -> str:
    return rounded(number, DIGITS).replace("-", r"\textminus{}")


def _markdown_value(value: Value, table: Table) -> str:
    published = f"<br><sub>paper {value.published}</sub>" if value.published else ""
    if value.value is None:
        return f"–<sup>{table.notes()[value.reason or '']}</sup>{published}"  # noqa: RUF001
    number = rounded(value.value, DIGITS)
    if value.standing in _VERDICTS:
        number = f"{number} ({value.standing})"
    number = {"best": f"**{number}**", "tied": f"{number} ="}.get(value.standing or "", number)
    interval = _interval(value, "<br><sub>[{}, {}]</sub>", lambda end: rounded(end, DIGITS))
    return f"{number}{interval}{published}"


def _interval(value: Value, pattern: str, number: Callable[[float], str]) -> str:
    return (
        ""
        if value.low is None or value.high is None
        else pattern.format(number(value.low), number(value.high))
    )


def _without_repetition(panel: Panel) -> list[tuple[Row, list[str]]]:
    """Return rows with their coordinates. Coordinates that repeat the row above are empty."""
    shown: list[tuple[Row, list[str]]] = []
    before = ("",) * len(panel.coordinates)
    for row in panel.rows:
        changed = next((i for i, name in enumerate(row.labels) if name != before[i]), len(row.labels))
        shown.append((row, [name if index >= changed else "" for index, name in enumerate(row.labels)]))
        before = row.labels
    return shown
