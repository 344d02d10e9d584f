"""Answers as plain text and as LaTeX in one notation."""

from __future__ import annotations

import re
from fractions import Fraction

from prmcal.steps import behind_thought

_SYMBOLS = str.maketrans(
    {
        "\u2212": "-",
        "\u2013": "-",
        "\u00b0": "",
        "\u03c0": "\\pi ",
        "\u221e": "\\infty ",
        "\u222a": "\\cup ",
        "\u00d7": "\\times ",
        "\u00b7": "\\cdot ",
        "\u2264": "\\le ",
        "\u2265": "\\ge ",
        "\u00b1": "\\pm ",
        "\u00a0": " ",
        "\u200b": "",
    }
)
_TEXT = r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox|hbox|operatorname)\s*"
_MAGNITUDES = "hundred|thousand|million|billion"
_PLAIN_WORDS = frozenset({"and", "or", "pi", "sqrt", "infinity", *_MAGNITUDES.split("|")})

# Pairs of pattern and replacement, applied in this order. Each takes linear time, and the length of texts is limited.
_SPELLINGS = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\\[()]|\\?\$", ""),  # inline mathematics and dollar signs
        (r"[.\s]+$", ""),
        (r"\\(?:left|right|[bB]igg?[lr]?)(?![a-zA-Z])\.?", ""),
        (r"\\displaystyle(?![a-zA-Z])", ""),
        (r"(?:\{,\}|,\s*\\!)(?=\d{3})", ""),
        (r"(?<!\\)\\[!,;:> ]|\\q?quad(?![a-zA-Z])|~", " "),
        (r"\\[dtc]frac(?![a-zA-Z])", r"\\frac"),
        (r"\\frac\s*(\d)\s*(\d)", r"\\frac{\1}{\2}"),
        (r"\\frac\s*(\d)\s*\{", r"\\frac{\1}{"),
        (r"(\\frac\s*\{[^{}]*\})\s*(\d)", r"\1{\2}"),
        (r"\\sqrt\s*(\w)", r"\\sqrt{\1}"),
        (r"\\lbrace(?![a-zA-Z])", r"\\{"),
        (r"\\rbrace(?![a-zA-Z])", r"\\}"),
        (r"\\leq(?![a-zA-Z])", r"\\le"),
        (r"\\geq(?![a-zA-Z])", r"\\ge"),
        (r"\^\s*(?:\\circ|\{\s*\\circ\s*\})|\\degree(?![a-zA-Z])|\\?%", ""),
        (rf"{_TEXT}\{{\s*(?:and|or)\s*\}}|\s(?:and|or)\s", ", "),
        (
            rf"(?<=[^\s,(\[{{=])\s*{_TEXT}\{{(?!\s*(?:{_MAGNITUDES}))[^{{}}]*\}}(?:\^\s*(?:\d|\{{\d\}}))?\s*$",
            "",
        ),  # a unit
        (rf"{_TEXT}\{{([^{{}}]*)\}}", r" \1 "),
        (r"_\{(\w)\}", r"_\1"),
        (
            r"^\s*[a-zA-Z](?:\([a-zA-Z]\))?(?:_\w)?\s*(?:=|\\in(?![a-zA-Z]))(?=[^=]+$)",
            "",
        ),  # x = ..., x in ...
        (r"\s+", " "),
        (r",\s*,", ","),
    )
)
_UNIT_IN_WORDS = re.compile(r"(?<=\d)\s+([a-zA-Z]{2,})(?:\s+[a-zA-Z]+)*$")
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_LETTER_IN_PARENTHESES = re.compile(r"\(\s*([A-Za-z])\s*\)")
_WORD = re.compile(r"[A-Za-z]{3,}(?:[ '-]+[A-Za-z]+)*")
_NUMBER = re.compile(
    r"([-+]?)(?:(\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:/(\d{1,30}))?"
    r"|(\d{1,30})?\\frac\{([-+]?\d{1,30})\}\{([-+]?\d{1,30})\})"
)
_REPEATING = re.compile(r"([-+]?)(\d{0,30}\.\d{0,30})\\overline\{(\d{1,30})\}")


def spelled(text: str) -> str:
    """Return the normalized spelling of an answer, which the rules compare."""
    text = text.translate(_SYMBOLS)
    for pattern, replacement in _SPELLINGS:
        text = pattern.sub(replacement, text)
    text = text.strip()
    unit = _UNIT_IN_WORDS.search(text)
    if unit and unit.group(1).lower() not in _PLAIN_WORDS:
        text = text[: unit.start()]
    letter = _LETTER_IN_PARENTHESES.fullmatch(text)
    return letter.group(1) if letter else text


def without_spaces(text: str) -> str:
    """Remove the spaces of a spelled answer, and convert words to lower case."""
    text = text.lower() if is_word(text) else text
    return text.replace(" ", "")


def is_word(text: str) -> bool:
    """Return whether a text is a word or a name, not mathematics."""
    return bool(_WORD.fullmatch(text)) and text.lower() not in _PLAIN_WORDS


def exact_number(text: str) -> Fraction | None:
    """Return the value of an integer, decimal, fraction or mixed number with up to 30 digits per part, else None."""
    text = text.replace(",", "") if _THOUSANDS.fullmatch(text) else text.replace(" ", "")
    repeating = _REPEATING.fullmatch(text)
    if repeating:
        return _repeating_decimal(*repeating.groups())
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    sign, decimal, divisor, whole, numerator, denominator = match.groups()
    if decimal is not None:
        below = int(divisor or 1)
        value = Fraction(decimal) / below if below else None
    else:
        below = int(denominator)
        value = Fraction(int(numerator), below) + int(whole or 0) if below else None
    return -value if sign == "-" and value is not None else value


def _repeating_decimal(sign: str, start: str, period: str) -> Fraction:
    places = len(start.partition(".")[2])
    value = Fraction(f"0{start}0") + Fraction(int(period), (10 ** len(period) - 1) * 10**places)
    return -value if sign == "-" else value


_BOX = "\\boxed{"
_FRACTION = re.compile(r"\\[dt]?frac\{(-?\d+)\}\{(\d+)\}")
_PLAIN_NUMBER = re.compile(r"[-+]?(\d{1,30}(\.\d{1,30})?|\.\d{1,30})(/\d{1,30})?")


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
    if not _PLAIN_NUMBER.fullmatch(text):
        return None
    numerator, _, denominator = text.partition("/")
    if not denominator:
        return Fraction(numerator)
    return Fraction(numerator) / int(denominator) if int(denominator) else None
