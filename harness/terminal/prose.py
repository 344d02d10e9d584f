"""Text that is never wider than the terminal. Wide characters, such as those of Chinese, take two columns."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from prmcal.harness.terminal.size import UNLIMITED, terminal_width
from prmcal.registry.messages import one_line, printable

__all__ = ["broken", "cell_width", "cut", "wrapped"]

_CONSOLE = Console(width=80, color_system=None)


def wrapped(text: str, width: int | None = None, *, indent: str = "", hanging: str = "") -> str:
    """Return text with its lines wrapped at words. A word that is too long for a line is broken.

    Parameters
    ----------
    text : str
        Its line breaks stay. Control characters are escaped.
    width : int, optional
        Columns of a line. Default: those of the terminal, also for a table of unlimited width.
    indent : str
        What each line begins with.
    hanging : str
        What lines begin with besides, except the first line of the result.
    """
    space = (terminal_width() if width in (None, UNLIMITED) else width) - cell_len(indent)
    lines: list[str] = []
    for line in printable(text).split("\n"):
        if not lines and hanging:
            first = broken(line, space)[0]
            lines.append(first)
            line = line[len(first) :].lstrip()
            if not line:
                continue
        lines += [hanging + part for part in broken(line, space - cell_len(hanging))]
    return "\n".join(f"{indent}{line}".rstrip() for line in lines)


def broken(line: str, space: int) -> list[str]:
    """Return a line without control characters as lines of at most `space` columns, broken at words if possible."""
    return [part.plain.rstrip() for part in Text(line).wrap(_CONSOLE, space, overflow="fold")] or [""]


def cut(text: str, width: int) -> str:
    """Return the start of a text on one line of at most `width` columns. An ellipsis says that there is more."""
    line = one_line(text)
    return line if cell_len(line) <= width else f"{set_cell_size(line, width - 1).rstrip()}…"


def cell_width(text: str) -> int:
    """Return how many columns of the terminal a text takes."""
    return cell_len(text)
