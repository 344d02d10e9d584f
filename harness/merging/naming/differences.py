"""What differs between several things of one name, in a few words for the name that tells them apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from prmcal.harness.storage.store import content_key

__all__ = ["words_apart"]

_MOST_WORDS = 3
"""How many differences a name tells at most. With more, it has a hash of them."""
_LONGEST_VALUE = 24
_HASH = re.compile(r"[0-9a-f]{16,}")


def words_apart(described: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return for each of several descriptions what differs from the others, such as ``seed 2``.

    Parameters
    ----------
    described : sequence of mapping of str to JSON data
        The properties of each, by their names in words. A property that only some have counts for those.

    Returns
    -------
    list of str
        No two are equal, unless their descriptions are. All are empty if there is only one description.
    """
    if len(described) < 2:
        return [""] * len(described)
    names = dict.fromkeys(name for each in described for name in each)
    apart = [name for name in names if len({content_key(_only(each, [name])) for each in described}) > 1]
    found = [", ".join(_words(name, each[name]) for name in apart if name in each) for each in described]
    if len(apart) > _MOST_WORDS:
        return [_hashed(each, apart) for each in described]
    doubtful = Counter(found)
    return [
        text if text and doubtful[text] == 1 else _hashed(each, apart)
        for text, each in zip(found, described, strict=True)
    ]


def _hashed(described: Mapping[str, Any], names: Sequence[str]) -> str:
    return f"variant {content_key(_only(described, names))[:8]}"


def _only(described: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the properties with these names. One that is absent differs from one without a value."""
    return {name: described[name] for name in names if name in described}


def _words(name: str, value: Any) -> str:
    text = "none" if value is None else str(value)
    if isinstance(value, str) and _HASH.fullmatch(value):
        text = value[:8]
    elif len(text) > _LONGEST_VALUE or "/" in text:
        text = content_key(value)[:8]
    return f"{name} {text}"
