"""Durations in words, and tables as Markdown and LaTeX.

Names and reasons are escaped, since they come from grids and from plugins.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["duration", "escape_latex", "escape_markdown", "latex_line", "markdown_grid", "tabular"]

_LATEX_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    **{each: f"\\{each}" for each in "&%$#_{}"},
}


def escape_markdown(text: str) -> str:
    """A text that Markdown shows as it is, also inside a table."""
    return re.sub(r"([\\`*_\[\]<>|$~&])", r"\\\1", " ".join(text.split()))


def escape_latex(text: str) -> str:
    """A text that LaTeX sets as it is."""
    return "".join(_LATEX_SPECIAL.get(each, each) for each in " ".join(text.split()))


def markdown_grid(head: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> str:
    """A table of Markdown, its first `left` columns flush left and all others flush right."""
    rule = ["---"] * left + ["---:"] * (len(head) - left)
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *rows))


def latex_line(cells: Sequence[str]) -> str:
    """A line of a table of LaTeX."""
    return " & ".join(cells) + r" \\"


def tabular(head: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> str:
    """A plain table of LaTeX, as :func:`markdown_grid` is one of Markdown; it needs the package booktabs."""
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


def duration(seconds: float) -> str:
    """Seconds as ``45 s``, ``3 min`` or ``2 h 5 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
