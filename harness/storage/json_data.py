"""JSON data from elsewhere: text that can be stored, and one line about the first wrong value."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prmcal.registry.messages import excerpt, shown

__all__ = ["check_text", "one_problem"]

_SHOWN_BEFORE = 40
"""Characters before a wrong one that a message shows."""


def check_text(name: str, value: Any) -> None:
    """Check that JSON data have only text that can be written as UTF-8.

    Parameters
    ----------
    name : str
        What the data are, for the message.
    value : JSON data

    Raises
    ------
    ValueError
        If a text has half of a surrogate pair. Python makes one of each byte of an argument that is not UTF-8.
    """
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        near = error.object[max(0, error.start - _SHOWN_BEFORE) : error.end].lstrip('"')
        raise ValueError(
            f"'{name}' has half of a surrogate pair or a byte that is not UTF-8: {excerpt(near)}"
        ) from error


@contextmanager
def one_problem() -> Iterator[None]:
    """Replace what pydantic says of JSON data with one line, which names the first wrong value.

    Raises
    ------
    ValueError
        If the block raises a ValidationError.
    """
    from pydantic import ValidationError

    try:
        yield
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(map(str, first["loc"]))
        value = "" if first["type"] == "json_invalid" else f" Got {shown(first['input'])}."
        raise ValueError(f"{excerpt(name)}: {first['msg']}.{value}".removeprefix(": ")) from error
