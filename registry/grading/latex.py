"""Answers in one notation of LaTeX: what keyboards, Unicode and habits write in other ways.

The file `tables.toml` has the patterns and the words.
"""

import re
import unicodedata
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from prmcal.registry.grading.exact import exact_number
from prmcal.registry.grading.units import PATTERNS, SIZES, TABLES, TURNING, Words, compiled, words_of

_SYMBOLS = str.maketrans({character: text for text, all_ in TABLES["characters"].items() for character in all_})
_STAGES = {
    stage: [(compiled(pattern), replacement) for pattern, replacement in pairs]
    for stage, pairs in TABLES["spellings"].items()
}
_WHOLE = {value: re.compile(words, re.IGNORECASE) for value, words in TABLES["whole"].items()}
"""Whole answers in words, by what they are in mathematics."""

_PLAIN_WORDS = frozenset({"and", "or", "pi", "sqrt", "infinity", *SIZES})
_BASES = TABLES["words"]["bases"].split()


@dataclass(frozen=True)
class Spelled:
    """An answer in one spelling: the name that it is the value of, the value, and what was said beside it."""

    name: str
    text: str
    words: Words
    condition: str = ""
    parameter: str = ""
    base: int = 0
    claims: tuple[tuple[str, str], ...] = ()
    """Pairs of parts of a chain of equalities, such as ("4+3", "7"), that must be equal."""


@lru_cache(maxsize=8192)
def spelled(text: str, beside_number: bool = False) -> Spelled:
    """Return the normalized spelling of an answer, which the rules compare.

    Beside a plain number, letters behind a number are units, as in "12 m/s". Elsewhere they can be names.
    """
    text = without_wrappers(text)
    if said := _whole(re.sub(r"\\text\s*\{([^{}]*)\}", r"\1", text).strip()):
        return Spelled("", said, Words())
    text, condition, parameter = _without_condition(text)
    text = respelled(respelled(text, "units"), "notation")
    if PATTERNS["angle"].search(text):
        text = respelled(text, "degrees")
    text = PATTERNS["degree"].sub("", text).strip()
    if PATTERNS["separate"].search(text):  # The commas of thousands in a list have no space behind them.
        text = PATTERNS["grouped"].sub(lambda group: group[0].replace(",", ""), text)
    text, words = _without_words(text, beside_number)
    text = respelled(text, "words").strip()
    if beside_number and (magnitude := PATTERNS["magnitude"].fullmatch(text)):
        text = str(Fraction(magnitude[1]) * 1000 ** ((magnitude.lastindex or 2) - 1))
    name, interval = _as_intervals(text)
    text = interval or re.sub(r",?\s*\\l(?:or|and)(?![a-zA-Z])", ", ", text)
    text, claims = _end_of_chain(text)
    if not interval and (named := PATTERNS["named"].fullmatch(text)):
        name, text = named[1] if named[2] == "=" else "", named[3]
    elif named := PATTERNS["named behind"].fullmatch(text):
        text, name = named.groups()
    text = text.strip()
    letter = PATTERNS["letter in parentheses"].fullmatch(text)
    text = _vector(letter[1] if letter else text)
    base = 0
    if residue := PATTERNS["residue"].fullmatch(text):
        value, modulus = map(int, residue.groups())
        text, words = str(value % modulus if modulus else value), Words(((f"mod {modulus}", 1),))
    elif number := PATTERNS["base"].fullmatch(text):
        base = _BASES.index(number[2]) + 2 if number[2] in _BASES else int(number[2]) if number[2].isdigit() else 0
        base = base if 2 <= base <= 36 and all(int(digit, 36) < base for digit in number[1].strip("-")) else 0
        text = number[1] if base else text
    return Spelled(name.replace(" ", ""), _whole(text) or text, words, condition, parameter, base, claims)


def _whole(text: str) -> str:
    """Return what a whole answer in words is in mathematics."""
    return next((value for value, pattern in _WHOLE.items() if pattern.fullmatch(text)), "")


def respelled(text: str, stage: str) -> str:
    """Apply the patterns of a stage of `tables.toml`."""
    for pattern, replacement in _STAGES[stage]:
        text = pattern.sub(replacement, text)
    return text


@lru_cache(maxsize=8192)
def without_wrappers(text: str) -> str:
    """Return an answer in LaTeX, without what stands around it and changes nothing."""
    if not text.isascii():
        text = "".join(map(_in_latex, text)).replace("\0^{", "").replace("\0_{", "").replace("\0", "}")
    return respelled(text.strip(), "wrappers")


def _in_latex(character: str) -> str:
    """Return a Unicode character in LaTeX. The end of a power or index is a null, so that neighbours can be joined."""
    kind = unicodedata.decomposition(character).partition(" ")[0]
    if kind == "<circle>":  # A number in a circle is the mark of a list, and no number.
        return character
    text = unicodedata.normalize("NFKC", character.translate(_SYMBOLS)).translate(_SYMBOLS)
    if kind == "<fraction>" and not text.endswith("/"):
        return "\\frac{{{}}}{{{}}}".format(*text.split("/"))
    return f"{'^' if kind == '<super>' else '_'}{{{text}\0" if kind in ("<super>", "<sub>") else text


def _without_condition(text: str) -> tuple[str, str, str]:
    r"""Return a text without the condition at its end, the condition, and the parameter that it declares an integer."""
    found = PATTERNS["condition"].search(text)
    head = text[: found.start()].rstrip("\\ ") if found else ""
    bare = found and found[2] and (PATTERNS["relation"].search(head) or ("=" in head and "\\ne" not in found[0]))
    if not found or not head or bare:
        return text, "", ""
    declared = PATTERNS["declared"].search(found[0])
    parameter = next(filter(None, declared.groups())) if declared else ""
    return head, found[0].strip(), parameter


def _without_words(text: str, beside_number: bool) -> tuple[str, Words]:
    """Return a text without the words at its end. A sum such as 3 hours 15 minutes is in its last unit."""
    terms = list(PATTERNS["term"].finditer(text))
    if len(terms) > 1 and "".join(term[0] for term in terms) == text:
        units = [words_of(term[2] or term[3]) for term in terms]
        numbers = [exact_number(term[1]) for term in terms]
        if len({unit.dimensions for unit in units}) == 1 and units[0].dimensions and None not in numbers:
            total = sum(number * unit.size for number, unit in zip(numbers, units, strict=True) if number)
            return str(total / units[-1].size), units[-1]
    for kind in ("in text", "in words", "in other scripts", "at number", *["in symbols"] * beside_number):
        if found := PATTERNS[f"unit {kind}"].search(text):
            words = words_of(found[1])
            if kind not in ("at number", "in symbols") or (words.dimensions and not words.left):
                return _times(text[: found.start()], words.factor), words
    return text, Words()


def _times(text: str, factor: Fraction) -> str:
    number = exact_number(text)
    product = f"({text})\\cdot\\frac{{{factor.numerator}}}{{{factor.denominator}}}"
    return text if factor == 1 else product if number is None else str(number * factor)


def _as_intervals(text: str) -> tuple[str, str]:
    r"""Return the name in inequalities joined by "or" and "and", and the union of their intervals, else nothing."""
    if not PATTERNS["relation"].search(text):
        return "", ""
    sets = [[_interval(clause.strip(" ,")) for clause in one.split("\\land")] for one in text.split("\\lor")]
    names = {name for intervals in sets for name, _ in intervals}
    if len(names) > 1 or "" in names:
        return "", ""
    return names.pop(), "\\cup".join("\\cap".join(interval for _, interval in intervals) for intervals in sets)


def _interval(relation: str) -> tuple[str, str]:
    """Return the name in an inequality such as 2 < x <= 5, and the interval of its values, else nothing."""
    parts = [part.strip() for part in PATTERNS["relation"].split(relation)]
    if len(parts) == 1 and (equation := PATTERNS["named"].fullmatch(relation)):
        return equation[1], f"\\{{{equation[3].strip()}\\}}" if equation[2] == "=" else equation[3].strip()
    upwards = {sign in ("<", "\\le") for sign in parts[1::2]}
    if len(upwards) != 1 or len(parts) not in (3, 5):
        return "", ""
    parts = parts if upwards == {True} else parts[::-1]
    if len(parts) == 3:
        parts = ["-\\infty", "<", *parts] if PATTERNS["NAME"].fullmatch(parts[0]) else [*parts, "<", "\\infty"]
    low, left, name, right, high = parts
    bounds = f"{low} {high}"
    if not PATTERNS["NAME"].fullmatch(name) or re.search("[,=|]", bounds) or name in _names(bounds):
        return "", ""
    return name, f"{'[' if 'e' in left else '('}{low},{high}{']' if 'e' in right else ')'}"


def _end_of_chain(text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the end of a chain such as x = 4+3 = 7, with the name before it, and its parts that must be equal."""
    first, *between, last = map(str.strip, text.split("=")) if "=" in text else ("", text)
    named = bool(PATTERNS["NAME"].fullmatch(first))
    parts = [part for part in (between if named else [first, *between]) if not PATTERNS["letters"].search(part)]
    whole = named or (len(parts) > len(between) and not PATTERNS["letters"].search(last))
    numbers = {exact_number(part) for part in (*parts, last)} - {None}
    chain = between if named else parts
    if not chain or not whole or len(numbers) > 1 or PATTERNS["no chain"].search(text):
        return text, ()
    return f"{first} = {last}" if named else last, tuple((part, last) for part in parts)


def _vector(text: str) -> str:
    """Return a sum such as 3i + 4j of unit vectors as a tuple."""
    terms = PATTERNS["vector"].findall(text)
    values = {unit: coefficient.replace(" ", "").removeprefix("+") for coefficient, unit in terms}
    if len(values) < 2 or len(values) < len(terms) or not text.endswith("}") or text.count("\\mathbf") != len(terms):
        return text
    full = {"": "1", "-": "-1"}
    names = "ijk" if "k" in values else "ij"
    return f"({','.join(full.get(values[name], values[name]) if name in values else '0' for name in names)})"


def in_same_unit(given: Spelled, expected: Spelled) -> tuple[str, str] | None:
    """Return two values in the same unit, base and parameter. Return None if what they measure or name differs."""
    names = given.name, expected.name
    if all(names) and names[0] != names[1] and not ("y" in names and any("(" in name for name in names)):
        return None
    if given.base and expected.base:
        return str(int(given.text, given.base)), str(int(expected.text, expected.base))
    units = given.words, expected.words
    if not units[0].dimensions or not units[1].dimensions or units[0] == units[1]:
        return _renamed(given, expected), expected.text
    if units[0].dimensions != units[1].dimensions:
        return None
    return _times(given.text, units[0].size / units[1].size), expected.text


def _names(text: str) -> set[str]:
    return set(PATTERNS["parameter"].findall(text))


def _renamed(given: Spelled, expected: Spelled) -> str:
    """Return the given value with the other's name of its parameter, which one of them declares, as in k in Z."""
    own, other = _names(given.text), _names(expected.text)
    before, after = own - other, other - own
    if len(before) == len(after) == 1 and {given.parameter, expected.parameter} & (before | after):
        return re.sub(rf"(?<![\\a-zA-Z]){before.pop()}(?![a-zA-Z])", after.pop(), given.text)
    return given.text


def doubt(given: Spelled, expected: Spelled) -> str:
    """Return why answers with equal values may yet be different: "turned", "unknown words", or nothing."""
    words, others = given.words.left, expected.words.left
    if words != others:
        return "turned" if TURNING & ({*words} ^ {*others}) else "unknown words"
    nouns = {*given.words.harmless}, {*expected.words.harmless}
    if nouns[0] and nouns[1] and not nouns[0] & nouns[1]:
        return "unknown words"
    texts = [without_spaces(each.text) for each in (given, expected)]
    conditions = {re.sub(r"\s|\\text|[{}(),.]", "", each.condition) for each in (given, expected)} - {""}
    unread = texts[0] != texts[1] and any(map(PATTERNS["unread"].search, texts))
    unread = unread or any(PATTERNS["split digits"].search(each.text) for each in (given, expected))
    dots = ("\\ldots" in texts[0]) != ("\\ldots" in texts[1])
    parameters = given.parameter and expected.parameter
    return "unknown words" if unread or dots or (len(conditions) > 1 and not parameters) else ""


def without_spaces(text: str) -> str:
    """Remove the spaces of a spelled answer, and convert words to lower case."""
    text = text.lower() if is_word(text) else text
    return text.replace(" ", "")


def is_word(text: str) -> bool:
    """Return whether a text is a word or a name, not mathematics."""
    return bool(PATTERNS["word"].fullmatch(text)) and text.lower() not in _PLAIN_WORDS
