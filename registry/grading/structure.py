"""Comparison of lists, sets, tuples, intervals, unions and matrices by element. It decides only if it is certain."""

from dataclasses import dataclass

from prmcal.registry.grading.exact import exact_number
from prmcal.registry.grading.latex import is_word, without_spaces
from prmcal.registry.grading.units import PATTERNS

_OPENING = ("(", "[", "{")
_CLOSING = (")", "]", "}")
_BRACKETS = ("()", "[]", "(]", "[)")
_IN_ORDER = ("list", "values", "()")
_UNION = "\\cup"
_COORDINATES = ("x", "y", "z")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two expressions that must be equal as mathematics."""

    answer: str
    reference: str


@dataclass(frozen=True, slots=True)
class Every:
    """Parts that must all hold."""

    parts: "tuple[Question, ...]"


@dataclass(frozen=True, slots=True)
class Matching:
    """A square of comparisons of answers (rows) with references (columns).

    Each row needs a column of its own that holds.
    """

    rows: "tuple[tuple[Found, ...], ...]"


Question = Pair | Every | Matching
"""The signs that only a symbolic comparison can decide on."""

Found = bool | Question


@dataclass(frozen=True, slots=True)
class _Structure:
    """Elements, and their kind.

    The kinds are ``list`` (bare or in braces), ``values`` (of names, such as ``x = 1, y = 2``), ``union``,
    ``matrix RxC`` and the pairs of brackets. Values are in the order in which they are written, but the values of
    x, y and z are in the order of the alphabet.
    """

    kind: str
    elements: tuple[str, ...]
    names: tuple[str, ...] = ()


def compare(answer: str, reference: str) -> Found:
    """Compare two spelled answers by text, numbers and structure. Return a question if these do not decide."""
    if without_spaces(answer) == without_spaces(reference):
        return True
    points = PATTERNS["points"].fullmatch(answer), PATTERNS["points"].fullmatch(reference)
    if points[0] and points[1]:  # They are names, not products.
        return points[0][1] == points[1][1]
    if ":" in answer + reference and (same := _compare_ratios(answer, reference)) is not None:
        return same
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
        return Pair(answer, reference)
    found = _compare_structures(given, expected)
    return Pair(answer, reference) if found is None else found


def _compare_ratios(answer: str, reference: str) -> bool | None:
    """Compare ratios and times of day, None if none is there. What looks like a time can also be a ratio."""
    texts = answer.replace(" ", ""), reference.replace(" ", "")
    ratios = [tuple(map(int, text.split(":"))) for text in texts if PATTERNS["ratio"].fullmatch(text)]
    times = [bool(PATTERNS["clock"].fullmatch(text)) for text in texts]
    if not ratios:
        return None
    if len(ratios) == 1:
        number = exact_number(texts[1] if ":" in texts[0] else texts[0])
        return number is not None and len(ratios[0]) == 2 and not any(times) and ratios[0][0] == number * ratios[0][1]
    first, second = ratios
    proportional = all(one * second[0] == other * first[0] for one, other in zip(first, second, strict=False))
    return first == second if all(times) else proportional and len(first) == len(second)


def _compare_structures(given: _Structure, expected: _Structure) -> Found | None:
    """Compare two structures. Return None if their kinds can only be compared as a whole."""
    kinds = given.kind, expected.kind
    if "values" in kinds and all(one.names or any("=" in text for text in one.elements) for one in (given, expected)):
        if sorted(given.names) != sorted(expected.names):
            both = [
                one.names and map(" = ".join, zip(one.names, one.elements, strict=True)) for one in (given, expected)
            ]
            return _in_any_order(tuple(both[0] or given.elements), tuple(both[1] or expected.elements))
        order = [given.names.index(name) for name in expected.names]
        return _in_order(tuple(given.elements[place] for place in order), expected.elements)
    if kinds[0] == kinds[1]:
        if kinds[0] == "union" and len(given.elements) != len(expected.elements):
            return None  # Intervals can overlap.
        unordered = kinds[0] in ("list", "union")
        return (_in_any_order if unordered else _in_order)(given.elements, expected.elements)
    if set(kinds) <= set(_IN_ORDER):
        return _in_order(given.elements, expected.elements)
    columns = [kind for kind in kinds if PATTERNS["matrix of a vector"].fullmatch(kind)]
    if len(columns) == 1 and {*kinds} - {*columns} <= {"()", "values"}:
        return _in_order(given.elements, expected.elements)
    return False if set(kinds) <= {*_IN_ORDER, *_BRACKETS} else None


def _in_order(answers: tuple[str, ...], references: tuple[str, ...]) -> Found:
    if len(answers) != len(references):
        return False
    found = [compare(a, b) for a, b in zip(answers, references, strict=True)]
    if False in found:
        return False
    questions = tuple(each for each in found if not isinstance(each, bool))
    return Every(questions) if questions else True


def _in_any_order(answers: tuple[str, ...], references: tuple[str, ...]) -> Found:
    if len(answers) != len(references):
        return False
    left, open_answers = list(references), []
    for answer in answers:
        row = [compare(answer, reference) for reference in left]
        if True in row:  # Equality is transitive, so this reference differs from all others that stay.
            left.pop(row.index(True))
        elif any(row):
            open_answers.append(answer)
        else:
            return False
    rows = tuple(tuple(compare(answer, reference) for reference in left) for answer in open_answers)
    return Matching(rows) if rows else True


def _structure(text: str) -> _Structure | None:
    if matrix := PATTERNS["matrix"].fullmatch(text):
        rows = [tuple(row.split("&")) for row in matrix[2].split("\\\\") if row.strip()]
        return _Structure(f"matrix {'x'.join(str(len(row)) for row in rows)}", tuple(map(str.strip, sum(rows, ()))))
    if named := PATTERNS["named tuple"].fullmatch(text):
        names, values = (_split(side, ",") for side in named.groups())
        return _values(names, values) if len(names) == len(values) > 1 else None
    if equation := PATTERNS["equation"].fullmatch(text):
        return _structure(equation[2].strip())
    if _enclosed(text) and text.startswith("\\{"):
        return _list(_split(text[2:-2], ","))
    if _enclosed(text) and not _signs(text):
        elements = _split(text[1:-1], ",")
        inside = _list(elements)
        if inside.kind == "values":
            return inside
        return _Structure(text[0] + text[-1], elements) if len(elements) > 1 else None
    sets = _split(text, _UNION)
    if len(sets) > 1:
        return _Structure("union", sets)
    listed = _list(_split(text, ","))
    return listed if len(listed.elements) > 1 else None


def _list(elements: tuple[str, ...]) -> _Structure:
    """Return the structure of a list, of the values of several names, or of the several values of one name."""
    equations = [PATTERNS["equation"].fullmatch(element) for element in elements]
    if elements and all(equations):
        names, values = zip(*(each.groups() for each in equations if each), strict=True)
        period = len(set(names))
        if period == len(names) > 1:
            return _values(names, values)
        if period == 1:
            elements = tuple(value.strip() for value in values)
        elif names == names[:period] * (len(names) // period):  # several solutions
            starts = range(0, len(names), period)
            elements = tuple(", ".join(elements[start : start + period]) for start in starts)
    return _Structure("list", tuple(text for element in elements for text in _signs(element) or (element,)))


def _values(names: tuple[str, ...], values: tuple[str, ...]) -> _Structure:
    pairs = [(name.replace(" ", ""), value.strip()) for name, value in zip(names, values, strict=True)]
    if all(name in _COORDINATES for name, _ in pairs):
        pairs.sort()
    return _Structure("values", tuple(value for _, value in pairs), tuple(name for name, _ in pairs))


def _signs(text: str) -> tuple[str, ...]:
    """Return the two values of a text with one plus-minus sign, else nothing."""
    if len(PATTERNS["plus minus"].findall(text)) != 1:
        return ()
    return tuple(
        PATTERNS["minus plus"].sub(lower, PATTERNS["plus minus"].sub(upper, text)).strip()
        for upper, lower in (("+", "-"), ("-", "+"))
    )


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
