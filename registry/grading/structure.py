"""Comparison of lists, sets, tuples, intervals, unions and matrices by element. It decides only if it is certain."""

from __future__ import annotations

import re
from dataclasses import dataclass

from prmcal.registry.grading.latex import exact_number, is_word, without_spaces

__all__ = ["Undecided", "compare"]

_OPENING = ("(", "[", "{")
_CLOSING = (")", "]", "}")
_UNORDERED = ("list", "union")
_BRACKETS = ("()", "[]", "(]", "[)")
_UNION = "\\cup"
_MATRIX = re.compile(r"\\begin\{([pb]?matrix|array)\}(?:\{[lcr| ]*\})?(.*)\\end\{\1\}", re.DOTALL)
_PLUS_MINUS = "\\pm"


@dataclass(frozen=True, slots=True)
class Undecided:
    """The elements for symbolic comparison. They must be equal in pairs: in order if `ordered`, else in any order."""

    ordered: bool
    answers: tuple[str, ...]
    references: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Structure:
    """Elements, and their kind: ``list`` (bare or in braces), ``union``, ``matrix RxC`` or a pair of brackets."""

    kind: str
    elements: tuple[str, ...]


def compare(answer: str, reference: str) -> bool | Undecided:
    """Compare two spelled answers by text, numbers and structure. Return Undecided if these do not decide."""
    if without_spaces(answer) == without_spaces(reference):
        return True
    numbers = exact_number(answer), exact_number(reference)
    if None not in numbers:
        return numbers[0] == numbers[1]
    words = is_word(answer), is_word(reference)
    if any(words) and (all(words) or numbers != (None, None)):
        return False
    given, expected = _structure(answer), _structure(reference)
    if given is None or expected is None:
        several = given or expected
        if several and len(several.elements) > 1 and numbers != (None, None):
            return False
        return Undecided(True, (answer,), (reference,))
    return _compare_structures(given, expected, Undecided(True, (answer,), (reference,)))


def _compare_structures(given: _Structure, expected: _Structure, whole: Undecided) -> bool | Undecided:
    if given.kind != expected.kind:
        return False if {given.kind, expected.kind} <= set(_BRACKETS) else whole
    texts = (*given.elements, *expected.elements)
    if len(given.elements) != len(expected.elements):
        return whole if any(_PLUS_MINUS in text for text in texts) else False
    if given.kind in _UNORDERED:
        return _compare_unordered(list(given.elements), list(expected.elements))
    found = [compare(a, b) for a, b in zip(given.elements, expected.elements, strict=True)]
    if False in found:
        return False
    open_pairs = [index for index, each in enumerate(found) if isinstance(each, Undecided)]
    if not open_pairs:
        return True
    return Undecided(
        True,
        tuple(given.elements[index] for index in open_pairs),
        tuple(expected.elements[index] for index in open_pairs),
    )


def _compare_unordered(answers: list[str], references: list[str]) -> bool | Undecided:
    for answer in tuple(answers):
        equal = [reference for reference in references if compare(answer, reference) is True]
        if equal:
            answers.remove(answer)
            references.remove(equal[0])
    if not answers:
        return True
    # Equality is transitive, so the remaining elements differ from all paired elements.
    for answer in answers:
        if all(compare(answer, reference) is False for reference in references):
            return False
    return Undecided(False, tuple(answers), tuple(references))


def _structure(text: str) -> _Structure | None:
    matrix = _MATRIX.fullmatch(text)
    if matrix:
        rows = [row.split("&") for row in matrix.group(2).split("\\\\") if row.strip()]
        cells = tuple(cell.strip() for row in rows for cell in row)
        return _Structure(f"matrix {'x'.join(str(len(row)) for row in rows)}", cells)
    if _enclosed(text):
        braces = text.startswith("\\{")
        inside = text[2:-2] if braces else text[1:-1]
        elements = _split(inside, ",")
        kind = "list" if braces else text[0] + text[-1]
        return _Structure(kind, elements) if len(elements) > 1 or braces else None
    for separator, kind in ((_UNION, "union"), (",", "list")):
        elements = _split(text, separator)
        if len(elements) > 1:
            return _Structure(kind, elements)
    return None


def _enclosed(text: str) -> bool:
    """Return whether the first bracket of a text is closed by its last character, and not earlier."""
    if not text.startswith(("(", "[", "\\{")) or not text.endswith((")", "]", "\\}")):
        return False
    depth = 0
    for position, character in enumerate(text):
        depth += (character in _OPENING) - (character in _CLOSING)
        if depth == 0 and character in _CLOSING:
            return position == len(text) - 1
    return False


def _split(text: str, separator: str) -> tuple[str, ...]:
    """Split a text at the separators outside of all brackets, and drop empty parts."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character in _OPENING) - (character in _CLOSING)
        if depth == 0 and text.startswith(separator, position):
            parts.append(text[start:position])
            start = position + len(separator)
    parts.append(text[start:])
    return tuple(part.strip() for part in parts if part.strip())
