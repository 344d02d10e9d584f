"""The words behind a number: units, sizes such as dozen, words that change nothing, and words that turn a value round.

Units say what a number measures, so that 3 hours are 180 minutes, and 20 cm^2 are not 20 cm^5.
"""

import re
import tomllib
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

TABLES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("tables.toml").read_text(encoding="utf-8"))

_POWERS = {"square": 2, "sq": 2, "sq.": 2, "squared": 2, "cubic": 3, "cu": 3, "cubed": 3}
_TOKEN = re.compile(r"/|[a-zA-Z][a-zA-Z.'-]*|[^\W\d_]+|[\^!]\s*\{?\s*(-?\d)\s*\}?|\S")


@dataclass(frozen=True)
class Unit:
    """A unit: the power of each of its dimensions, in alphabetical order, and its size in the base units."""

    dimensions: tuple[tuple[str, int], ...]
    size: Fraction


@dataclass(frozen=True)
class Words:
    """What the words behind a number say: its unit, a size that multiplies it, and the words that are no such thing."""

    unit: Unit | None = None
    factor: Fraction = Fraction(1)
    left: tuple[str, ...] = ()


def _sizes(table: str) -> dict[str, Fraction]:
    return {name: Fraction(size) for size, *names in map(str.split, table.split("|")) for name in names}


_KNOWN = {
    name: (dimension, size) for dimension, names in TABLES["units"].items() for name, size in _sizes(names).items()
}
SIZES = _sizes(TABLES["words"]["sizes"])


def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of `tables.toml`, in which <NAME> stands for a part."""
    nouns = "|".join(words for language, words in TABLES["phrases"].items() if language != "verbs")
    parts = {**TABLES["parts"], **TABLES["patterns"], "SIZES": "|".join(SIZES)}
    parts |= {"NOUNS": nouns, "VERBS": TABLES["phrases"]["verbs"]}
    while expanded := re.search(r"<([A-Z]+)>", pattern):
        pattern = pattern.replace(expanded[0], parts[expanded[1]])
    return re.compile(pattern)


PATTERNS = {name: compiled(pattern) for name, pattern in TABLES["patterns"].items()}
_HARMLESS = frozenset(TABLES["words"]["harmless"].split())
TURNING = frozenset(TABLES["words"]["turning"].split())
"""A value with such a word is another one than without it."""


def words_of(text: str) -> Words:
    """Return what words such as "square cm", "miles per hour", "dozen eggs" or "km east" say."""
    powers: dict[str, int] = {}
    size, sign, power, last, factor, left = Fraction(1), 1, 1, "", Fraction(1), []
    tokens = list(_TOKEN.finditer(text.replace("\\", " ").lower()))
    alone = all(token[0] in (*_POWERS, "a", "in") or token[1] for token in tokens)
    for token in tokens:
        word = token[0] if token[0] in _KNOWN else token[0].rstrip(".") or token[0]
        if word in ("/", "per"):
            sign = -1
        elif last and (token[1] or word in ("squared", "cubed")):
            again = (int(token[1]) if token[1] else _POWERS[word]) - 1
            dimension, scale = _KNOWN[last]
            direction = 1 if powers[dimension] > 0 else -1
            powers[dimension] += direction * again
            size *= scale ** (direction * again)
        elif word in _POWERS and not word.endswith("ed"):
            power = _POWERS[word]
        elif word in SIZES:
            factor *= SIZES[word]
        elif word in _KNOWN and (word not in ("a", "in") or alone):
            dimension, scale = _KNOWN[word]
            powers[dimension] = powers.get(dimension, 0) + sign * power
            size *= scale ** (sign * power)
            sign, power, last = 1, 1, word
        elif word not in _HARMLESS and word not in ",.()":
            left.append(word)
    known = tuple(sorted((name, power) for name, power in powers.items() if power))
    return Words(Unit(known, size) if known else None, factor, tuple(left))
