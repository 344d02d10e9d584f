"""Extraction of the answer, and the first rules: equal text, and equal numbers in plain spelling."""

from __future__ import annotations

import re
from fractions import Fraction

from prmcal.thoughts import behind_thought

__all__ = ["equal_in_plain_spelling", "extract_answer"]

_BOX = "\\boxed{"
_FRACTION = re.compile(r"\\[dt]?frac\{(-?\d+)\}\{(\d+)\}")
_NUMBER = re.compile(r"[-+]?(\d{1,30}(\.\d{1,30})?|\.\d{1,30})(/\d{1,30})?")


def extract_answer(trajectory: str) -> str | None:
    r"""Return the content of the last ``\boxed{...}``, or None if it does not exist or its braces are not balanced.

    What stands inside a thought, between ``<think>`` and ``</think>``, is no answer. A text whose thought has no end
    has none.
    """
    trajectory = behind_thought(trajectory)
    start = trajectory.rfind(_BOX)
    if start < 0:
        return None
    depth = 1
    begin = start + len(_BOX)
    for position in range(begin, len(trajectory)):
        depth += {"{": 1, "}": -1}.get(trajectory[position], 0)
        if depth == 0:
            return trajectory[begin:position].strip()
    return None


def equal_in_plain_spelling(answer: str, reference: str) -> bool:
    """Return whether two answers are the same text or the same number (compared exactly, up to 30 digits)."""
    given, expected = _normalise(answer), _normalise(reference)
    if given == expected:
        return True
    number = _number(given)
    return number is not None and number == _number(expected)


def _normalise(text: str) -> str:
    text = text.strip().strip("$").rstrip(".").replace("\\!", "").replace("\\,", "").replace(" ", "")
    text = _FRACTION.sub(r"\1/\2", text)
    return re.sub(r"(?<=\d),(?=\d{3}(\D|$))", "", text)


def _number(text: str) -> Fraction | None:
    if not _NUMBER.fullmatch(text):
        return None
    numerator, _, denominator = text.partition("/")
    if not denominator:
        return Fraction(numerator)
    return Fraction(numerator) / int(denominator) if int(denominator) else None
