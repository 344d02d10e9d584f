"""Numbers in their spellings, read exactly, and the comparison of plain numbers and words."""

import re
from fractions import Fraction

from prmcal.registry.grading.units import PATTERNS


def exact_number(text: str) -> Fraction | None:
    """Return the value of an integer, decimal, fraction or mixed number with up to 30 digits per part, else None."""
    text = text.replace(",", "") if PATTERNS["thousands"].fullmatch(text) else text.replace(" ", "")
    if power := PATTERNS["scientific"].fullmatch(text):
        return Fraction(power[1] + (power[2] or "1")) * Fraction(10) ** int(power[3])
    if repeating := PATTERNS["repeating"].fullmatch(text):
        sign, start, period = repeating.groups()
        places = len(start.partition(".")[2])
        value = Fraction(f"0{start}0") + Fraction(int(period), (10 ** len(period) - 1) * 10**places)
        return -value if sign == "-" else value
    match = PATTERNS["number"].fullmatch(text)
    if match is None:
        return None
    sign, decimal, divisor, integer, numerator, denominator = match.groups()
    divisor = int(divisor or denominator or 1)
    ratio = Fraction(decimal or int(numerator)) / (divisor or 1) + int(integer or 0)
    return None if not divisor else -ratio if sign == "-" else ratio


def with_decimal_comma(text: str) -> Fraction | None:
    """Return the value of a number such as 1.234,5, with a comma before the decimals, else None."""
    matches = PATTERNS["decimal comma"].fullmatch(text)
    return Fraction(text.replace(".", "").replace(",", ".")) if matches else None


def equal_in_plain_spelling(answer: str, reference: str) -> bool:
    """Return whether two answers are the same text or the same number (compared exactly, up to 30 digits)."""
    plain_answer, plain_reference = _normalise(answer), _normalise(reference)
    number = _number(plain_answer)
    return plain_answer == plain_reference or (number is not None and number == _number(plain_reference))


def _normalise(text: str) -> str:
    text = text.strip().strip("$").rstrip(".").replace("\\!", "").replace("\\,", "").replace(" ", "")
    text = PATTERNS["plain fraction"].sub(r"\1/\2", text)
    return re.sub(r"(?<=\d),(?=\d{3}(\D|$))", "", text)


def _number(text: str) -> Fraction | None:
    numerator, _, denominator = text.partition("/")
    is_number = PATTERNS["plain number"].fullmatch(text) and int(denominator or 1)
    return Fraction(numerator) / int(denominator or 1) if is_number else None
