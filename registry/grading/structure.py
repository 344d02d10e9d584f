"""Comparison of lists, sets, tuples, intervals, unions and matrices by element. If unsure, it does not decide."""

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
class Conjunction:
    """Parts that must all hold."""

    parts: "tuple[Question, ...]"


@dataclass(frozen=True, slots=True)
class Matching:
    """A square of comparisons of answers (rows) with references (columns).

    Each row needs another column that holds.
    """

    rows: "tuple[tuple[Comparison, ...], ...]"


Question = Pair | Conjunction | Matching
"""A comparison that only the symbolic one can decide."""

Comparison = bool | Question


@dataclass(frozen=True, slots=True)
class _Structure:
    """Elements, and their kind.

    The kinds are ``list`` (bare or in braces), ``values`` (of names, such as ``x = 1, y = 2``), ``union``,
    ``matrix RxC`` and the pairs of brackets. Values stay in their written order, except that the values of the names x,
    y and z are sorted by name.
    """

    kind: str
    elements: tuple[str, ...]
    names: tuple[str, ...] = ()


def compare(answer: str, reference: str) -> Comparison:
    """Compare two spelled answers by text, numbers and structure. If these do not decide, return a question."""
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
    answer_structure, reference_structure = _structure(answer), _structure(reference)
    if answer_structure is None or reference_structure is None:
        structure = answer_structure or reference_structure
        if structure and len(structure.elements) > 1 and numbers != (None, None):
            return False
        return Pair(answer, reference)
    comparison = _compare_structures(answer_structure, reference_structure)
    return Pair(answer, reference) if comparison is None else comparison


def _compare_ratios(answer: str, reference: str) -> bool | None:
    """Compare ratios and times of day, None if none is there. A text such as 1:20 can be a time or a ratio."""
    texts = answer.replace(" ", ""), reference.replace(" ", "")
    ratios = [tuple(map(int, text.split(":"))) for text in texts if PATTERNS["ratio"].fullmatch(text)]
    times = [bool(PATTERNS["clock"].fullmatch(text)) for text in texts]
    if not ratios:
        return None
    if len(ratios) == 1:  # The other text may be its value.
        number = exact_number(texts[1] if ":" in texts[0] else texts[0])
        return number is not None and len(ratios[0]) == 2 and not any(times) and ratios[0][0] == number * ratios[0][1]
    terms, other_terms = ratios
    if all(times) or len(terms) != len(other_terms):
        return terms == other_terms
    pairs = zip(terms, other_terms, strict=True)
    return all(term * other_terms[0] == other_term * terms[0] for term, other_term in pairs)


def _compare_structures(answer: _Structure, reference: _Structure) -> Comparison | None:
    """Compare two structures part by part. Return None if structures of their kinds have no comparable parts."""
    kinds = answer.kind, reference.kind
    have_names = (values.names or any("=" in text for text in values.elements) for values in (answer, reference))
    if "values" in kinds and all(have_names):
        if sorted(answer.names) != sorted(reference.names):
            return _in_any_order(_equations(answer), _equations(reference))
        order = [answer.names.index(name) for name in reference.names]
        return _in_order(tuple(answer.elements[place] for place in order), reference.elements)
    if kinds[0] == kinds[1]:
        if kinds[0] == "union" and len(answer.elements) != len(reference.elements):
            return None  # Intervals can overlap.
        unordered = kinds[0] in ("list", "union")
        return (_in_any_order if unordered else _in_order)(answer.elements, reference.elements)
    if set(kinds) <= set(_IN_ORDER):
        return _in_order(answer.elements, reference.elements)
    columns = [kind for kind in kinds if PATTERNS["matrix of a vector"].fullmatch(kind)]
    if len(columns) == 1 and {*kinds} - {*columns} <= {"()", "values"}:
        return _in_order(answer.elements, reference.elements)
    return False if set(kinds) <= {*_IN_ORDER, *_BRACKETS} else None


def _equations(values: _Structure) -> tuple[str, ...]:
    named_values = zip(values.names, values.elements, strict=True)
    return tuple(map(" = ".join, named_values)) if values.names else values.elements


def _in_order(answers: tuple[str, ...], references: tuple[str, ...]) -> Comparison:
    if len(answers) != len(references):
        return False
    comparisons = [compare(answer, reference) for answer, reference in zip(answers, references, strict=True)]
    if False in comparisons:
        return False
    questions = tuple(comparison for comparison in comparisons if not isinstance(comparison, bool))
    return Conjunction(questions) if questions else True


def _in_any_order(answers: tuple[str, ...], references: tuple[str, ...]) -> Comparison:
    if len(answers) != len(references):
        return False
    unmatched, undecided = list(references), []
    for answer in answers:
        row = [compare(answer, reference) for reference in unmatched]
        if True in row:  # Equality is transitive, so this reference differs from all others that stay.
            unmatched.pop(row.index(True))
        elif any(row):
            undecided.append(answer)
        else:
            return False
    rows = tuple(tuple(compare(answer, reference) for reference in unmatched) for answer in undecided)
    return Matching(rows) if rows else True


def _structure(text: str) -> _Structure | None:
    """Return the structure of an answer. None if it is a single value, as far as its brackets and commas tell."""
    if matrix := PATTERNS["matrix"].fullmatch(text):
        rows = [row.split("&") for row in matrix[2].split("\\\\") if row.strip()]
        lengths = "x".join(str(len(row)) for row in rows)
        return _Structure(f"matrix {lengths}", tuple(element.strip() for row in rows for element in row))
    if named_tuple := PATTERNS["named tuple"].fullmatch(text):
        names, values = (_split(side, ",") for side in named_tuple.groups())
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
        names, values = zip(*(equation.groups() for equation in equations if equation), strict=True)
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
    pieces, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character in _OPENING) - (character in _CLOSING)
        if depth == 0 and text.startswith(separator, position):
            pieces.append(text[start:position])
            start = position + len(separator)
    pieces.append(text[start:])
    return tuple(piece.strip() for piece in pieces if piece.strip())
