"""Text and values from elsewhere as parts of a message: on one line, printable, and not too long."""

from __future__ import annotations

__all__ = ["excerpt", "message_of", "one_line", "printable", "shown"]

_LONGEST_TEXT = 300
_LONGEST_VALUE = 80


def printable(text: str) -> str:
    """Return text from a model or a data set with its control characters escaped. Line breaks stay.

    Half of a surrogate pair, which no file and no terminal takes, is escaped too.
    """
    return "".join(
        each if each.isprintable() or each == "\n" else each.encode("unicode_escape").decode()
        for each in text
    )


def one_line(text: str) -> str:
    """Return a text on one line, with its control characters escaped."""
    return printable(" ".join(text.split()))


def excerpt(text: str, longest: int = _LONGEST_TEXT) -> str:
    """Return the start of a text on one line of at most `longest` characters. An ellipsis says that there is more."""
    line = one_line(text)
    return line if len(line) <= longest else f"{line[: longest - 3]}..."


def shown(value: object) -> str:
    """Return how Python writes a value, in at most 80 characters."""
    try:
        text = repr(value)
    except (
        ValueError,
        RecursionError,
    ):  # Python writes no number of thousands of digits, and no deep nesting.
        return f"a value of the type {type(value).__name__} that is too long to show"
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."


def message_of(error: BaseException) -> str:
    """Return the type and the message of an error. It may come from a plugin, so that also its message can fail."""
    try:
        text = str(error)
    except Exception as failed:
        text = f"(its message raises {type(failed).__name__})"
    return f"{type(error).__name__}: {text}"
