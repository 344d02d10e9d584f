"""Markdown from plain values."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence


def code(text: object) -> str:
    """Return a text as code; an empty text stays empty."""
    return f"`{text}`" if str(text) else ""


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines) + "\n"


def directive(name: str, argument: str, **options: str) -> str:
    """Return a directive of Sphinx, such as ``autoclass``, with options that may have a value."""
    lines = [f".. {name}:: {argument}", *(f"   :{option}: {value}" for option, value in options.items())]
    return "\n".join(["```{eval-rst}", *lines, "```", ""])


def summary(value: object) -> str:
    """Return the first paragraph of a docstring, without the marks of Sphinx."""
    text = inspect.cleandoc(value.__doc__ or "").partition("\n\n")[0]
    return re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text).replace("``", "`")


def _cell(value: object) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")
