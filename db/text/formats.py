"""Numbers, durations, tables in Markdown and LaTeX, and the escaping of names and reasons in both.

Names and reasons must be escaped because they come from grids and plugins.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from prmcal.steps import without_marks

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


def number(value: float, digits: int = 3, *, signed: bool = False) -> str:
    """Return a number with some decimal places, and with a plus sign if `signed`. A rounded 0 has no minus sign."""
    text = f"{value:{'+' if signed else ''},.{digits}f}"
    return text if float(text.replace(",", "")) else text.replace("-", "+" if signed else "")


def amount(value: float) -> str:
    """Return a cost, such as tokens or seconds, with four significant digits and no exponent if it is large."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def interval(low: float, high: float, digits: int = 3, *, signed: bool = False) -> str:
    """Return ``[low, high]``; empty if the ends are NaN."""
    if low != low or high != high:
        return ""
    return f"[{number(low, digits, signed=signed)}, {number(high, digits, signed=signed)}]"


def counted(count: int, singular: str, plural: str = "") -> str:
    """Return ``1 place`` or ``18 places``."""
    return f"{count:,} {singular if count == 1 else plural or f'{singular}s'}"


def graded(verdict: str, finish_reason: str) -> str:
    """Return the verdict on a trajectory, and why it has no answer if its thought was cut off."""
    return f"{verdict}, cut off inside its thought" if finish_reason == "thought" else verdict


LEFT_OUT = "(left out of the submission)"
"""What stands in the place of a text that a submission leaves out."""


def kept(text: Any) -> str:
    """Return a text of a question or of a trajectory, or say that its submission leaves it out."""
    return without_marks(text) if isinstance(text, str) else LEFT_OUT


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


def file_size(size: int) -> str:
    """Return a number of bytes as ``45 bytes``, ``1.2 kB``, ``17 MB`` or ``3.4 GB``."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            scaled = size / factor
            return f"{scaled:,.0f} {unit}" if scaled >= 10 else f"{scaled:.1f} {unit}"
    return counted(size, "byte")


def duration(seconds: float) -> str:
    """Return a number of seconds as ``45 s``, ``3 min`` or ``2 h 5 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def missing(value: Any) -> bool:
    """Return whether a value of a DataFrame is missing."""
    import pandas as pd

    return value is None or value is pd.NA or bool(value != value)
