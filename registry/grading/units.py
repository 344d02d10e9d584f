"""The words behind a number: units, sizes such as dozen, words that change nothing, and words that invert a value.

By their units, 3 hours are 180 minutes, and 20 cm^2 are not 20 cm^5.
"""

import re
import tomllib
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

TABLES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("tables.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Words:
    """The words behind a number: a unit, a size that multiplies the number, and the words that are neither.

    The unit is the power of each of its dimensions, in alphabetical order, and its size in the base units.
    """

    dimensions: tuple[tuple[str, int], ...] = ()
    size: Fraction = Fraction(1)
    factor: Fraction = Fraction(1)
    unknown: tuple[str, ...] = ()
    harmless: tuple[str, ...] = ()


def _sizes(table: str) -> dict[str, Fraction]:
    return {name: Fraction(size) for size, *names in map(str.split, table.split("|")) for name in names}


_UNITS = {
    name: (dimension, size) for dimension, names in TABLES["units"].items() for name, size in _sizes(names).items()
}
_UNITS |= {
    name: (names[0], Fraction(1)) for names in map(str.split, TABLES["words"]["units"].split("|")) for name in names
}
SIZES = _sizes(TABLES["words"]["sizes"])


_PARTS = TABLES["parts"] | TABLES["patterns"] | {"SIZES": "|".join(SIZES), "VERBS": TABLES["phrases"].pop("verbs")}
_PARTS["NOUNS"] = "|".join(TABLES["phrases"].values())


@lru_cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of `tables.toml`, in which <NAME> stands for a part."""
    while expanded := re.search(r"<([A-Z]+)>", pattern):
        pattern = pattern.replace(expanded[0], _PARTS[expanded[1]])
    return re.compile(pattern)


PATTERNS = {name: compiled(pattern) for name, pattern in TABLES["patterns"].items()}
_POWERS = {word: int(power) for word, power in _sizes(TABLES["words"]["powers"]).items()}
_HARMLESS = frozenset(TABLES["words"]["harmless"].split())
TURNING = frozenset(TABLES["words"]["turning"].split())
"""Words that change the value before them, such as "less"."""


def words_of(text: str) -> Words:
    """Return the unit, size and direction of words such as "square cm", "miles per hour", "dozen eggs" or "km east"."""
    powers, size, factor = Counter[str](), Fraction(1), Fraction(1)
    unknown, harmless = list[str](), list[str]()
    sign, power, last_unit = 1, 1, ""
    tokens = list(PATTERNS["token"].finditer(text.replace("\\", " ").lower()))
    is_alone = all(token[0] in (*_POWERS, "a", "in") or token[1] for token in tokens)
    for token in tokens:
        word = token[0] if token[0] in _UNITS else token[0].rstrip(".") or token[0]
        if word in ("/", "per"):
            sign = -1
        elif last_unit and (token[1] or word in ("squared", "cubed")):
            more = (int(token[1] or _POWERS[word]) - 1) * (1 if powers[_UNITS[last_unit][0]] > 0 else -1)
            powers[_UNITS[last_unit][0]] += more
            size *= _UNITS[last_unit][1] ** more
        elif word in _POWERS and not word.endswith("ed"):
            power = _POWERS[word]
        elif word in SIZES:
            factor *= SIZES[word]
        elif word in _UNITS and (word not in ("a", "in") or is_alone):
            powers[_UNITS[word][0]] += sign * power
            size *= _UNITS[word][1] ** (sign * power)
            sign, power, last_unit = 1, 1, word
        elif word not in ",.()":
            (harmless if word in _HARMLESS else unknown).append(word)
    dimensions = tuple(sorted((name, times) for name, times in powers.items() if times))
    return Words(dimensions, size, factor, tuple(unknown), tuple(harmless))
