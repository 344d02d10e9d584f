"""One notation for answers, which people write in many ways, with LaTeX, Unicode or a plain keyboard.

The file `tables.toml` has the patterns and the words.
"""

import re
import unicodedata
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from prmcal.registry.grading.exact import exact_number
from prmcal.registry.grading.units import PATTERNS, SIZES, TABLES, TURNING, Words, compiled, words_of

_SYMBOLS = {ord(sign): text for text, signs in TABLES["characters"].items() for sign in signs}
for _code in range(0x391, 0x3CA):
    if _letter := re.fullmatch(r"GREEK (SMALL|CAPITAL) LETTER (\w+)", unicodedata.name(chr(_code), "")):
        _name = _letter[2].replace("LAMDA", "LAMBDA")
        _SYMBOLS.setdefault(_code, f"\\{_name.title() if _letter[1] == 'CAPITAL' else _name.lower()} ")
_STAGES = {
    stage: [(compiled(pattern), text) for pattern, text in pairs] for stage, pairs in TABLES["spellings"].items()
}
_WHOLE = {value: re.compile(words, re.IGNORECASE) for value, words in TABLES["whole"].items()}
"""Whole answers in words, by their form in mathematics."""

_PLAIN_WORDS = frozenset({"and", "or", "pi", "sqrt", "infinity", *SIZES})
_BASES = TABLES["words"]["bases"].split()


@dataclass(frozen=True)
class Spelled:
    """An answer in one spelling: the name before the equality sign, the value, and the words beside it."""

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
    if mathematics := _in_mathematics(re.sub(r"\\text\s*\{([^{}]*)\}", r"\1", text).strip()):
        return Spelled("", mathematics, Words())
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
    if not interval and (equation := PATTERNS["named"].fullmatch(text)):
        name, text = equation[1] if equation[2] == "=" else "", equation[3]
    elif equation := PATTERNS["named behind"].fullmatch(text):
        text, name = equation.groups()
    text = text.strip()
    letter = PATTERNS["letter in parentheses"].fullmatch(text)
    text, words, base = _number_in_base(_vector(letter[1] if letter else text), words)
    return Spelled(name.replace(" ", ""), _in_mathematics(text) or text, words, condition, parameter, base, claims)


def _number_in_base(text: str, words: Words) -> tuple[str, Words, int]:
    """Return the residue in a text such as 10 mod 7, or the digits and the base of one such as 101 in base two."""
    if residue := PATTERNS["residue"].fullmatch(text):
        value, modulus = map(int, residue.groups())
        return str(value % modulus if modulus else value), Words(((f"mod {modulus}", 1),)), 0
    number = PATTERNS["base"].fullmatch(text)
    if not number:
        return text, words, 0
    base = _BASES.index(number[2]) + 2 if number[2] in _BASES else int(number[2]) if number[2].isdigit() else 0
    is_base = 2 <= base <= 36 and all(int(digit, 36) < base for digit in number[1].strip("-"))
    return (number[1], words, base) if is_base else (text, words, 0)


def _in_mathematics(text: str) -> str:
    """Return a whole answer in words as mathematics, or an empty text."""
    return next((value for value, pattern in _WHOLE.items() if pattern.fullmatch(text)), "")


def respelled(text: str, stage: str) -> str:
    """Apply the patterns of a stage of `tables.toml`."""
    for pattern, replacement in _STAGES[stage]:
        if pattern.search(text):  # Without a match, a search takes a third of the time of a substitution.
            text = pattern.sub(replacement, text)
    return text


@lru_cache(maxsize=8192)
def without_wrappers(text: str) -> str:
    """Return an answer in LaTeX without the dollars, boxes and fonts around it."""
    if not text.isascii():
        text = "".join(map(_in_latex, text)).replace("\0^{", "").replace("\0_{", "").replace("\0", "}")
    return respelled(text.strip(), "wrappers")


def _in_latex(character: str) -> str:
    """Return a Unicode character in LaTeX. A null character ends a power or an index, to join it with the next one."""
    if character.isdecimal():
        return str(unicodedata.decimal(character))
    kind = unicodedata.decomposition(character).partition(" ")[0]
    if kind == "<circle>":  # A number in a circle is the mark of a list, and no number.
        return character
    text = unicodedata.normalize("NFKC", character.translate(_SYMBOLS)).translate(_SYMBOLS)
    if kind == "<fraction>" and not text.endswith("/"):
        return "\\frac{{{}}}{{{}}}".format(*text.split("/"))
    return f"{'^' if kind == '<super>' else '_'}{{{text}\0" if kind in ("<super>", "<sub>") else text


def _without_condition(text: str) -> tuple[str, str, str]:
    r"""Return a text without the condition at its end, the condition, and the parameter that it declares an integer."""
    condition = PATTERNS["condition"].search(text)
    head = text[: condition.start()].rstrip("\\ ") if condition else ""
    if not condition or not head:
        return text, "", ""
    if condition[2] and (PATTERNS["relation"].search(head) or ("=" in head and "\\ne" not in condition[0])):
        return text, "", ""
    declared = PATTERNS["declared"].search(condition[0])
    parameter = next(filter(None, declared.groups())) if declared else ""
    return head, condition[0].strip(), parameter


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
        if match := PATTERNS[f"unit {kind}"].search(text):
            words = words_of(match[1])
            if kind not in ("at number", "in symbols") or (words.dimensions and not words.unknown):
                return _times(text[: match.start()], words.factor), words
    return text, Words()


def _times(text: str, factor: Fraction) -> str:
    number = exact_number(text)
    product = f"({text})\\cdot\\frac{{{factor.numerator}}}{{{factor.denominator}}}"
    return text if factor == 1 else product if number is None else str(number * factor)


def _as_intervals(text: str) -> tuple[str, str]:
    r"""Return the name in inequalities joined by "or" and "and", and the union of their intervals, else nothing."""
    if not PATTERNS["relation"].search(text):
        return "", ""
    alternatives = text.split("\\lor")
    sets = [[_interval(clause.strip(" ,")) for clause in clauses.split("\\land")] for clauses in alternatives]
    names = {name for intervals in sets for name, _ in intervals}
    if len(names) > 1 or "" in names:
        return "", ""
    return names.pop(), "\\cup".join("\\cap".join(interval for _, interval in intervals) for intervals in sets)


def _interval(relation: str) -> tuple[str, str]:
    """Return the name in an inequality such as 2 < x <= 5, and the interval of its values, else nothing."""
    sides = [side.strip() for side in PATTERNS["relation"].split(relation)]
    if len(sides) == 1 and (equation := PATTERNS["named"].fullmatch(relation)):
        return equation[1], f"\\{{{equation[3].strip()}\\}}" if equation[2] == "=" else equation[3].strip()
    upwards = {sign.startswith(("<", "\\l")) for sign in sides[1::2]}
    if len(upwards) != 1 or len(sides) not in (3, 5):
        return "", ""
    sides = sides if upwards == {True} else sides[::-1]
    if len(sides) == 3:
        sides = ["-\\infty", "<", *sides] if PATTERNS["NAME"].fullmatch(sides[0]) else [*sides, "<", "\\infty"]
    low, left_sign, name, right_sign, high = sides
    bounds = f"{low} {high}"
    if not PATTERNS["NAME"].fullmatch(name) or re.search("[,=|]", bounds) or name in _names(bounds):
        return "", ""
    return name, f"{'[' if 'e' in left_sign else '('}{low},{high}{']' if 'e' in right_sign else ')'}"


def _end_of_chain(text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the end of a chain such as x = 4+3 = 7, with the name before it, and its parts that must be equal."""
    beginning, *middle, end = map(str.strip, text.split("=")) if "=" in text else ("", text)
    begins_with_name = bool(PATTERNS["NAME"].fullmatch(beginning))
    sides = middle if begins_with_name else [beginning, *middle]
    sides = [side for side in sides if not PATTERNS["letters"].search(side)]
    is_whole_chain = begins_with_name or (len(sides) > len(middle) and not PATTERNS["letters"].search(end))
    numbers = {exact_number(side) for side in (*sides, end)} - {None}
    chain = middle if begins_with_name else sides
    if not chain or not is_whole_chain or len(numbers) > 1 or PATTERNS["no chain"].search(text):
        return text, ()
    return f"{beginning} = {end}" if begins_with_name else end, tuple((side, end) for side in sides)


def _vector(text: str) -> str:
    """Return a sum such as 3i + 4j of unit vectors as a tuple."""
    terms = PATTERNS["vector"].findall(text)
    values = {unit: coefficient.replace(" ", "").removeprefix("+") for coefficient, unit in terms}
    if len(values) < 2 or len(values) < len(terms) or not text.endswith("}") or text.count("\\mathbf") != len(terms):
        return text
    full = {"": "1", "-": "-1"}
    names = "ijk" if "k" in values else "ij"
    return f"({','.join(full.get(values[name], values[name]) if name in values else '0' for name in names)})"


def in_same_unit(answer: Spelled, reference: Spelled) -> tuple[str, str] | None:
    """Return two values in the same unit, base and parameter. Return None if what they measure or name differs."""
    names = answer.name, reference.name
    if all(names) and names[0] != names[1] and not ("y" in names and any("(" in name for name in names)):
        return None
    if answer.base and reference.base:
        return str(int(answer.text, answer.base)), str(int(reference.text, reference.base))
    units = answer.words, reference.words
    if not units[0].dimensions or not units[1].dimensions or units[0] == units[1]:
        return _renamed(answer, reference), reference.text
    if units[0].dimensions != units[1].dimensions:
        return None
    return _times(answer.text, units[0].size / units[1].size), reference.text


def _names(text: str) -> set[str]:
    return set(PATTERNS["parameter"].findall(text))


def _renamed(answer: Spelled, reference: Spelled) -> str:
    """Return the value of the answer with the reference's name for a declared parameter, as in k in Z."""
    answer_names, reference_names = _names(answer.text), _names(reference.text)
    old_names, new_names = answer_names - reference_names, reference_names - answer_names
    if len(old_names) == len(new_names) == 1 and {answer.parameter, reference.parameter} & (old_names | new_names):
        return re.sub(rf"(?<![\\a-zA-Z]){old_names.pop()}(?![a-zA-Z])", new_names.pop(), answer.text)
    return answer.text


def doubt(answer: Spelled, reference: Spelled) -> str:
    """Return why answers with equal values may yet be different: "turned", "unknown words", or nothing."""
    answer_words, reference_words = answer.words.unknown, reference.words.unknown
    if answer_words != reference_words:
        return "turned" if TURNING & ({*answer_words} ^ {*reference_words}) else "unknown words"
    nouns = {*answer.words.harmless}, {*reference.words.harmless}
    if nouns[0] and nouns[1] and not nouns[0] & nouns[1]:
        return "unknown words"
    texts = [without_spaces(spelling.text) for spelling in (answer, reference)]
    conditions = {re.sub(r"\s|\\text|[{}(),.]", "", spelling.condition) for spelling in (answer, reference)} - {""}
    unread = texts[0] != texts[1] and any(map(PATTERNS["unread"].search, texts))
    unread = unread or any(PATTERNS["split digits"].search(spelling.text) for spelling in (answer, reference))
    dots = ("\\ldots" in texts[0]) != ("\\ldots" in texts[1])
    parameters = answer.parameter and reference.parameter
    return "unknown words" if unread or dots or (len(conditions) > 1 and not parameters) else ""


def without_spaces(text: str) -> str:
    """Remove the spaces of a spelled answer, and convert words to lower case."""
    text = text.lower() if is_word(text) else text
    return text.replace(" ", "")


def is_word(text: str) -> bool:
    """Return whether a text is a word or a name, not mathematics."""
    return bool(PATTERNS["word"].fullmatch(text)) and text.lower() not in _PLAIN_WORDS
