"""Numbers, durations, tables in Markdown and LaTeX, and the escaping of names and reasons in both.

Names and reasons must be escaped because they come from grids and plugins.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = [
    "DIGITS",
    "duration",
    "escape_latex",
    "escape_markdown",
    "fixed",
    "latex_line",
    "markdown_grid",
    "tabular",
    "with_interval",
]

DIGITS = 3
"""Decimal places of a measured value."""

_LATEX_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "β": r"\ensuremath{\beta}",
    **{each: f"\\{each}" for each in "&%$#_{}"},
}


def escape_markdown(text: str) -> str:
    """Return Markdown that shows a text unchanged, also inside a table."""
    return re.sub(r"([\\`*_\[\]<>|$~&])", r"\\\1", " ".join(text.split()))


def escape_latex(text: str) -> str:
    """Return LaTeX that shows a text unchanged."""
    return "".join(_LATEX_SPECIAL.get(each, each) for each in " ".join(text.split()))


def markdown_grid(head: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> str:
    """Return a Markdown table. The first `left` columns are aligned left, the others right."""
    rule = ["---"] * left + ["---:"] * (len(head) - left)
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *rows))


def latex_line(cells: Sequence[str]) -> str:
    """Return a row of a LaTeX table."""
    return " & ".join(cells) + r" \\"


def tabular(head: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> str:
    """Return a LaTeX table with the alignment of :func:`markdown_grid`. It needs the package booktabs."""
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{'l' * left}{'r' * (len(head) - left)}}}",
            r"\toprule",
            latex_line(head),
            r"\midrule",
            *map(latex_line, rows),
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


def fixed(value: float, digits: int = DIGITS, *, sign: bool = False) -> str:
    """Return a number with a fixed number of decimal places. A number that rounds to 0 has no sign."""
    text = f"{value:z.{digits}f}"
    return f"+{text}" if sign and value > 0 and float(text) != 0 else text


def with_interval(
    value: float, low: float | None, high: float | None, digits: int = DIGITS, *, sign: bool = False
) -> str:
    """Return a number with its interval, such as ``0.191 [0.177, 0.208]``; without one if it has none (None, NaN)."""
    ends = [fixed(end, digits, sign=sign) for end in (low, high) if end is not None and end == end]
    text = fixed(value, digits, sign=sign)
    return f"{text} [{ends[0]}, {ends[1]}]" if len(ends) == 2 else text


def duration(seconds: float) -> str:
    """Return a number of seconds as ``45 s``, ``3 min`` or ``2 h 5 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
