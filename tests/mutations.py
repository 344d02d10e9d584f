"""Files as strangers may have them: changes of JSON values and of bytes, as strategies of hypothesis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from prmcal.errors import PrmcalError

FEW = settings(max_examples=30, derandomize=True)
"""Enough to notice a careless change. Thousands of examples were tried when the readers were written."""

_HOSTILE: list[Any] = [
    *(None, True, -1, 0.0, 1e308, 10**400, float("nan"), float("inf"), [], {}, [[]], [None]),
    *("", " ", "\ud800", "\x1b[31m\x00", "x" * 5000, "#" * 40 + " " * 40 + "\nx", {"text": None}),
]
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
VALUES = st.sampled_from(_HOSTILE) | _JSON
TEXTS = st.sampled_from(
    ["[" * 100_000, "9" * 5000, '{"a":' * 3000, "1e999", '"\\ud800"', "NaN", "\x00", "\ufeff", "}", "\n"]
)


@st.composite
def changed(draw: st.DrawFn, data: Any) -> Any:
    """JSON data with one value replaced, added, renamed or removed, anywhere in it."""
    if isinstance(data, dict) and data and draw(st.integers(0, 9)):
        key = draw(st.sampled_from(sorted(data)))
        rest = {name: value for name, value in data.items() if name != key}
        match draw(st.integers(0, 9)):
            case 0:
                return rest
            case 1:
                return {**rest, draw(st.text(max_size=3)): data[key]}
            case _:
                return {**data, key: draw(changed(data[key]))}
    if isinstance(data, list) and data and draw(st.integers(0, 4)):
        place = draw(st.integers(0, len(data) - 1))
        return [*data[:place], draw(changed(data[place])), *data[place + 1 :]]
    return draw(VALUES)


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """A file with some bytes flipped, removed or added, or cut off."""
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(0, len(content) - 1)))
        head, tail = content[:place], content[place:]
        match draw(st.integers(0, 3)):
            case 0 if tail:
                content = head + bytes([tail[0] ^ draw(st.integers(1, 255))]) + tail[1:]
            case 1:
                content = head + tail[draw(st.integers(1, 16)) :]
            case 2:
                content = head + draw(st.binary(min_size=1, max_size=8)) + tail
            case _:
                content = head
    return content


def reads_or_refuses(read: Callable[[], object]) -> None:
    """The property: it reads, or it says in a message of reasonable length what is wrong."""
    try:
        read()
    except PrmcalError as error:
        assert 10 < len(str(error)) < 2000, str(error)
