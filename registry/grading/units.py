"""Units behind numbers: what they measure, so that 3 hours are 180 minutes, and 20 cm^2 are not 20 cm^5."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

_TABLE = """
time: 1 s sec secs second seconds | 60 min mins minute minutes | 3600 h hr hrs hour hours | 86400 day days
time: 604800 week weeks
months: 1 month months | 12 yr yrs year years
length: 1 m meter meters metre metres | 1/1000 mm millimeter millimeters | 1/100 cm centimeter centimeters
length: 1000 km kilometer kilometers | 127/5000 inch inches | 381/1250 ft foot feet | 1143/1250 yd yard yards
length: 201168/125 mi mile miles
mass: 1 g gram grams | 1/1000 mg milligram milligrams | 1000 kg kilogram kilograms
ounces: 1 oz ounce ounces | 16 lb lbs pound pounds
liters: 1 l liter liters litre litres | 1/1000 ml milliliter milliliters
money: 1 dollar dollars | 1/100 cent cents
forenoon: 1 a.m a.m. am
afternoon: 1 p.m p.m. pm
"""
_POWERS = {"square": 2, "sq": 2, "squared": 2, "cubic": 3, "cu": 3, "cubed": 3}
_TOKEN = re.compile(r"/|[a-zA-Z][a-zA-Z.]*|\^\s*\{?\s*(-?\d)\s*\}?|\S")


@dataclass(frozen=True)
class Unit:
    """A unit: the power of each of its dimensions, in alphabetical order, and its size in the base units."""

    dimensions: tuple[tuple[str, int], ...]
    size: Fraction


@cache
def _known() -> dict[str, tuple[str, Fraction]]:
    found: dict[str, tuple[str, Fraction]] = {}
    for line in _TABLE.strip().splitlines():
        dimension, _, units = line.partition(": ")
        for unit in units.split("|"):
            size, *names = unit.split()
            found |= {name: (dimension, Fraction(size)) for name in names}
    return found


def unit_of(text: str) -> Unit | None:
    """Return the unit that words such as "square cm" or "miles per hour" name, or None if one is not known."""
    powers: dict[str, int] = {}
    size, sign, power, last = Fraction(1), 1, 1, ""
    for token in _TOKEN.finditer(text.replace("\\", " ").lower()):
        word = token[0]
        if word in ("/", "per"):
            sign = -1
        elif token[1] or word in ("squared", "cubed"):
            again = (int(token[1]) if token[1] else _POWERS[word]) - 1
            if not last:
                return None
            dimension, factor = _known()[last]
            direction = 1 if powers[dimension] > 0 else -1
            powers[dimension] += direction * again
            size *= factor ** (direction * again)
        elif word in _POWERS:
            power = _POWERS[word]
        elif word in _known():
            dimension, factor = _known()[word]
            powers[dimension] = powers.get(dimension, 0) + sign * power
            size *= factor ** (sign * power)
            sign, power, last = 1, 1, word
        else:
            return None
    known = tuple(sorted((name, power) for name, power in powers.items() if power))
    return Unit(known, size) if known else None
