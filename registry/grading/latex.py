"""Answers in one notation of LaTeX: what keyboards, Unicode and habits write in other ways.

Units behind numbers say what they measure, so that 3 hours are 180 minutes, and 20 cm^2 are not 20 cm^5.
"""

import re
import unicodedata
from dataclasses import dataclass
from fractions import Fraction

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


_KNOWN = {
    name: (dimension, Fraction(size))
    for dimension, units in (line.split(": ") for line in _TABLE.strip().splitlines())
    for size, *names in map(str.split, units.split("|"))
    for name in names
}


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
            dimension, factor = _KNOWN[last]
            direction = 1 if powers[dimension] > 0 else -1
            powers[dimension] += direction * again
            size *= factor ** (direction * again)
        elif word in _POWERS:
            power = _POWERS[word]
        elif word in _KNOWN:
            dimension, factor = _KNOWN[word]
            powers[dimension] = powers.get(dimension, 0) + sign * power
            size *= factor ** (sign * power)
            sign, power, last = 1, 1, word
        else:
            return None
    known = tuple(sorted((name, power) for name, power in powers.items() if power))
    return Unit(known, size) if known else None


_SYMBOLS = str.maketrans(
    dict.fromkeys("\u00b0\u200b\u2060\ufeff\u2061\u2062", "")
    | dict.fromkeys("\u2212\u2013\u2010\ufe63\uff0d", "-")
    | {"\u2044": "/", "\u2236": ":", "\u2223": "|", "\u2032": "'", "\u00a0": " ", "\u223c": "\\approx "}
    | dict.fromkeys("\u00b7\u22c5\u2219\u2217\u2022", "\\cdot ")
    | {
        character: f"\\{name} "
        for pairs in (
            "\u221einfty \u222acup \u2229cap \u00d7times \u00f7div \u2264le \u2a7dle \u2265ge \u2a7ege \u2260ne",
            "\u00b1pm \u2213mp \u2248approx \u2208in \u2205emptyset \u2200forall \u2220angle \u25b3triangle",
        )
        for character, name in ((pair[0], pair[1:]) for pair in pairs.split())
    }
    | {"\u211d": "\\mathbb{R}", "\u2124": "\\mathbb{Z}", "\u211a": "\\mathbb{Q}", "\u2115": "\\mathbb{N}"}
)
_SCRIPTS = {
    "^": ("\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207a\u207b\u207f", "0123456789+-n"),
    "_": ("\u2080\u2081\u2082\u2083\u2084\u2085\u2086\u2087\u2088\u2089\u2099", "0123456789n"),
}
_FUNCTIONS = "arcsin|arccos|arctan|sinh|cosh|tanh|sin|cos|tan|cot|sec|csc|log|ln"
_GREEK = "alpha|beta|gamma|delta|theta|lambda|phi|omega|pi"
_NOT_IN_WORD = r"(?<![\\a-zA-Z])"
_TEXT = r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox|hbox|operatorname)\s*"
_POWER = r"\^\s*(?:\d|\{\s*\d\s*\})"
_MAGNITUDES = "hundred|thousand|million|billion"
_PLAIN_WORDS = frozenset({"and", "or", "pi", "sqrt", "infinity", *_MAGNITUDES.split("|")})
_NAME = r"[a-zA-Z](?:\([a-zA-Z]\))?(?:_\w)?"

# Pairs of pattern and replacement, applied in this order. Each takes linear time, and the length of texts is limited.
_SPELLINGS = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\\[()]|\\?\$", ""),  # inline mathematics and dollar signs
        (r"[.\s]+$", ""),
        (r"\\(?:left|right|[bB]igg?[lr]?)(?![a-zA-Z])\.?", ""),
        (r"\\(?:displaystyle|limits)(?![a-zA-Z])", ""),
        (r"(?:\{,\}|,\s*\\!)\s*(?=\d{3})", ""),
        (r"(?<!\\)\\[!,;:> ]|\\q?quad(?![a-zA-Z])|~", " "),
        (r"\\[dtc]frac(?![a-zA-Z])", r"\\frac"),
        (r"\\frac\s*(\d)\s*(\d)", r"\\frac{\1}{\2}"),
        (r"\\frac\s*(\d)\s*\{", r"\\frac{\1}{"),
        (r"(\\frac\s*\{[^{}]*\})\s*(\d)", r"\1{\2}"),
        # keyboards
        (r"^\s*(?:\\approx|\\sim|\\equiv|=)(?![a-zA-Z])", ""),
        (r"(?<=[\d.])\s*[xX*]\s*(?=10\s*\^)", r"\\times "),
        (r"(?<![\w.}])(\d+\.?\d*|\.\d+)[eE]\+?(-?\d{1,3})(?![\w.])", r"\1\\times 10^{\2}"),
        (r"\*\*", "^"),
        (r"(?<!\^)\*", r"\\cdot "),
        (r"<=", r"\\le "),
        (r">=", r"\\ge "),
        (r"!=", r"\\ne "),
        (r"\+/-|\+-(?=\s*\d*\s*\\?sqrt)", r"\\pm "),
        (r"\+\s*-", "-"),
        (rf"{_NOT_IN_WORD}(?:infinity|inf)(?![a-zA-Z])|{_NOT_IN_WORD}oo(?![a-zA-Z])", r"\\infty "),
        (rf"{_NOT_IN_WORD}({_FUNCTIONS}|{_GREEK})(?=[^a-zA-Z]|$)(?!')", r"\\\1 "),
        (rf"{_NOT_IN_WORD}sqrt(?=\s*[({{\d])", r"\\sqrt"),
        (r"\\?(?<![a-zA-Z])exp\s*\(([^()]*)\)", r"e^{\1}"),
        (rf"{_NOT_IN_WORD}abs\s*\(([^()]*)\)", r"|\1|"),
        (r"\\sqrt\s*\(([^()]*)\)", r"\\sqrt{\1}"),
        (r"(?<![a-zA-Z])\(([^()]*)\)\s*/\s*\(([^()]*)\)", r"\\frac{\1}{\2}"),
        (r"\^\s*\(([^()]*)\)", r"^{\1}"),
        (r"\^\s*(-?\d{2,}|-\d)", r"^{\1}"),
        (r"\\sqrt\s*(\d+|\w)", r"\\sqrt{\1}"),
        (r"\\lbrace(?![a-zA-Z])", r"\\{"),
        (r"\\rbrace(?![a-zA-Z])", r"\\}"),
        (r"\\(?:leq|leqslant)(?![a-zA-Z])", r"\\le"),
        (r"\\(?:geq|geqslant)(?![a-zA-Z])", r"\\ge"),
        (r"\\neq(?![a-zA-Z])", r"\\ne"),
        (r"\\lt(?![a-zA-Z])", "<"),
        (r"\\gt(?![a-zA-Z])", ">"),
        (r"\\[lr]vert(?![a-zA-Z])|\\vert(?![a-zA-Z])", "|"),
        (r"\\varnothing(?![a-zA-Z])", r"\\emptyset"),
        (r"\\(?:mathbb|Bbb)\s*\{?\s*R\s*\}?|\\R(?![a-zA-Z])", r"\\mathbb{R}"),
        (r"\^\s*(?:\\circ|\{\s*\\circ\s*\})|\\degree(?![a-zA-Z])|\\?%", ""),
        (r";", ", "),
        (rf"{_TEXT}\{{\s*(?:and|or)\s*\}}|\s(?:and|or)\s", ", "),
    )
)
_LATER = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (rf"{_TEXT}\{{([^{{}}]*)\}}", r" \1 "),
        (r"_\{(\w)\}", r"_\1"),
        (
            r"^\s*\\\{\s*[a-zA-Z]\s*(?:\\in\s*\\mathbb\{R\}\s*)?(?::|\\mid(?![a-zA-Z])|\|)\s*(.+)\\\}\s*$",
            r"\1",
        ),
        (r"\s+", " "),
        (r",\s*,", ","),
    )
)
_WHOLE = {
    r"(?:the )?(?:set of )?(?:all )?real(?: numbers|s)|\\mathbb\{R\}|R": "(-\\infty,\\infty)",
    r"no (?:real )?(?:solutions?|values?)|(?:the )?empty set|\\\{ ?\\\}": "\\emptyset",
}
"""Whole answers in words, and what they are in mathematics."""

_NAMED = re.compile(rf"({_NAME})\s*(=|\\in(?![a-zA-Z]))([^=]+)")  # x = ..., x in ...
_NAMED_BEHIND = re.compile(rf"([^=]*[^=a-zA-Z(),\s][^=]*)=\s*({_NAME})")
_UNIT_IN_TEXT = re.compile(rf"(?<=[^\s,(\[{{=])\s*{_TEXT}\{{(?!\s*(?:{_MAGNITUDES}))([^{{}}]*)\}}\s*({_POWER})?\s*$")
_UNIT_IN_WORDS = re.compile(r"(?<=[\d}])\s+((?:[a-zA-Z]{2}|[ap]\.)[a-zA-Z./]*(?:\s+[a-zA-Z./]+)*)(\^\{?\d\}?)?$")
_UNIT_AT_NUMBER = re.compile(r"(?<=\d)([a-zA-Z]{2,})(\^\{?\d\}?)?$")
_TERM = re.compile(rf"\s*(?:,\s*)?([\d.]+)\s*(?:{_TEXT}\{{([^{{}}\d]*)\}}|([a-zA-Z]+))\s*")
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_LETTER_IN_PARENTHESES = re.compile(r"\(\s*([A-Za-z])\s*\)")
_WORD = re.compile(r"[A-Za-z]{3,}(?:[ '-]+[A-Za-z]+)*")
_NUMBER = re.compile(
    r"([-+]?)(?:(\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:/(\d{1,30}))?"
    r"|(\d{1,30})?\\frac\{([-+]?\d{1,30})\}\{([-+]?\d{1,30})\})"
)
_REPEATING = re.compile(r"([-+]?)(\d{0,30}\.\d{0,30})\\overline\{(\d{1,30})\}")
_SCIENTIFIC = re.compile(r"([-+]?)(?:(\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})\\(?:times|cdot))?10\^\{?([-+]?\d{1,3})\}?")


@dataclass(frozen=True)
class Spelled:
    """An answer in one spelling: the name that it is the value of, the value, and its unit if that is known."""

    name: str
    text: str
    unit: Unit | None

    @property
    def equation(self) -> str:
        """The value with its name, if it has one."""
        return f"{self.name}={self.text}" if self.name else self.text


def spelled(text: str) -> Spelled:
    """Return the normalized spelling of an answer, which the rules compare."""
    text = _ascii(text)
    for pattern, replacement in _SPELLINGS:
        text = pattern.sub(replacement, text)
    text, unit = _without_unit(text.strip())
    for pattern, replacement in _LATER:
        text = pattern.sub(replacement, text)
    text = text.strip()
    name = ""
    if named := _NAMED.fullmatch(text):
        name, text = named[1] if named[2] == "=" else "", named[3]
    elif named := _NAMED_BEHIND.fullmatch(text):
        text, name = named.groups()
    text = text.strip()
    letter = _LETTER_IN_PARENTHESES.fullmatch(text)
    text = letter[1] if letter else text
    whole = (value for words, value in _WHOLE.items() if re.fullmatch(words, text, re.IGNORECASE))
    return Spelled(name.replace(" ", ""), next(whole, text), unit)


def _ascii(text: str) -> str:
    """Replace Unicode mathematics, such as fractions, roots, powers and Greek letters, by LaTeX."""
    if text.isascii():
        return text
    for sign, (characters, meanings) in _SCRIPTS.items():
        table = str.maketrans(characters, meanings)
        text = re.sub(f"[{characters}]+", lambda run: f"{sign}{{{run[0].translate(table)}}}", text)  # noqa: B023
    found = []
    for character in text:
        name, other = unicodedata.name(character, ""), unicodedata.normalize("NFKC", character)
        if name.startswith("VULGAR FRACTION") and "\u2044" in other:
            found.append("\\frac{{{}}}{{{}}}".format(*other.split("\u2044")))
        elif name.startswith("GREEK ") and "LETTER" in name and len(name.split()) == 4:
            letter = name.split()[-1].lower().replace("lamda", "lambda")
            found.append(f"\\{letter.capitalize() if 'CAPITAL' in name else letter} ")
        else:
            known = character.translate(_SYMBOLS)
            found.append(known if known != character else other.translate(_SYMBOLS))
    text = "".join(found)
    text = re.sub(r"\u221a\s*(?:\(([^()]*)\)|(\d+|\w))", lambda root: f"\\sqrt{{{root[1] or root[2]}}}", text)
    return re.sub(r"\u221b\s*(?:\(([^()]*)\)|(\d+|\w))", lambda root: f"\\sqrt[3]{{{root[1] or root[2]}}}", text)


def _without_unit(text: str) -> tuple[str, Unit | None]:
    """Return a text without the unit at its end. A sum such as 3 hours 15 minutes is in its last unit."""
    terms = list(_TERM.finditer(text))
    if len(terms) > 1 and "".join(term[0] for term in terms) == text:
        units = [unit_of(term[2] or term[3]) for term in terms]
        numbers = [exact_number(term[1]) for term in terms]
        last = units[-1]
        if last and all(unit and unit.dimensions == last.dimensions for unit in units) and None not in numbers:
            total = sum(number * unit.size for number, unit in zip(numbers, units, strict=True) if unit and number)
            return str(total / last.size), last
    if found := _UNIT_IN_TEXT.search(text):
        return text[: found.start()], unit_of(found[1] + (found[2] or ""))
    if found := _UNIT_IN_WORDS.search(text):
        if found[1].split()[0].lower() not in _PLAIN_WORDS:
            return text[: found.start()], unit_of(found[1] + (found[2] or ""))
    elif found := _UNIT_AT_NUMBER.search(text):
        unit = unit_of(found[1] + (found[2] or ""))
        return (text[: found.start()], unit) if unit else (text, None)
    return text, None


def in_same_unit(given: Spelled, expected: Spelled) -> tuple[str, str] | None:
    """Return the values of two answers in the same unit, or None if what they measure or name differs."""
    names = given.name, expected.name
    if all(names) and names[0] != names[1] and not ("y" in names and any("(" in name for name in names)):
        return None
    if not given.unit or not expected.unit or given.unit == expected.unit:
        return given.text, expected.text
    if given.unit.dimensions != expected.unit.dimensions:
        return None
    factor = given.unit.size / expected.unit.size
    number = exact_number(given.text)
    scaled = f"({given.text})\\cdot\\frac{{{factor.numerator}}}{{{factor.denominator}}}"
    return scaled if number is None else str(number * factor), expected.text


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
    if power := _SCIENTIFIC.fullmatch(text):
        return Fraction(power[1] + (power[2] or "1")) * Fraction(10) ** int(power[3])
    if repeating := _REPEATING.fullmatch(text):
        sign, start, period = repeating.groups()
        places = len(start.partition(".")[2])
        value = Fraction(f"0{start}0") + Fraction(int(period), (10 ** len(period) - 1) * 10**places)
        return -value if sign == "-" else value
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    sign, decimal, divisor, whole, numerator, denominator = match.groups()
    if decimal is not None:
        below = int(divisor or 1)
        ratio = Fraction(decimal) / below if below else None
    else:
        below = int(denominator)
        ratio = Fraction(int(numerator), below) + int(whole or 0) if below else None
    return -ratio if sign == "-" and ratio is not None else ratio


_FRACTION = re.compile(r"\\[dt]?frac\{(-?\d+)\}\{(\d+)\}")
_PLAIN_NUMBER = re.compile(r"[-+]?(\d{1,30}(\.\d{1,30})?|\.\d{1,30})(/\d{1,30})?")


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
