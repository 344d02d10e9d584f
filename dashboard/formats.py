"""Numbers, names, foreign text and formulas as Markdown.

KaTeX gets only formulas whose commands are known to be harmless. All other text is escaped, so that nothing in it
becomes HTML, a link, an emoji or another symbol.
"""

import re
import tomllib
from collections.abc import Iterable
from itertools import accumulate
from numbers import Integral
from pathlib import Path
from typing import Any

import pandas as pd

from prmcal.db.text import formats
from prmcal.db.text.formats import DIGITS

MISSING = "\N{EN DASH}"
"""The text for a value that is missing or does not apply."""

CAPTIONS: dict[str, str] = tomllib.loads(Path(__file__).with_name("captions.toml").read_text(encoding="utf-8"))
"""The texts below the charts and the tables of the pages, by their names."""

_NO_BREAK = "\N{NO-BREAK SPACE}"
_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
_SPACES = re.compile(r"[ \t\r\n]+")


# Streamlit rewrites these even if they are escaped: addresses become links, dashes and arrows become symbols.
_REWRITTEN = re.compile(r"//|www\.|@|--|->|<-|>=|<=|~=|:streamlit:")


def escaped(text: str) -> str:
    """Return Markdown that shows a text unchanged, on one line: without markup, formulas, HTML or links.

    Words that Streamlit would rewrite are code.
    """
    words = _SPACES.sub(" ", text).split(" ")
    return " ".join(_code(word) if _REWRITTEN.search(word) else _PUNCTUATION.sub(r"\\\1", word) for word in words)


def visible(text: str) -> str:
    """Escape the control characters of a text, such as a change of the direction of the following text. Tabs stay."""
    return "".join(
        char if char.isprintable() or char == "\t" else char.encode("unicode_escape").decode() for char in text
    )


def number(value: float | None, digits: int = DIGITS) -> str:
    """Format a number with a true minus sign. A missing value gives :data:`MISSING`."""
    if value is None or pd.isna(value):
        return MISSING
    return formats.number(value, digits).replace("-", "\N{MINUS SIGN}")


def integer(value: float | None) -> str:
    """Format a whole number with thousands separators. A missing value gives :data:`MISSING`."""
    return MISSING if value is None or pd.isna(value) else f"{int(value):,}"


def estimate(value: float, low: float | None, high: float | None, digits: int = DIGITS) -> str:
    """Format a value and its interval, if it has one. A line can break only before the interval."""
    if low is None or pd.isna(low):
        return number(value, digits)
    return f"{number(value, digits)} [{number(low, digits)},{_NO_BREAK}{number(high, digits)}]"


def texts(values: Iterable[Any]) -> list[str]:
    """Return the values in a column as Markdown: names, whole numbers, and others with decimal places."""
    return [
        escaped(value) if isinstance(value, str) else number(value, 0 if isinstance(value, Integral) else DIGITS)
        for value in values
    ]


def estimates(rows: pd.DataFrame, digits: int = DIGITS) -> list[str]:
    """Format rows of a value, the low and the high end of its interval as escaped Markdown."""
    return [escaped(estimate(value, low, high, digits)) for value, low, high in rows.itertuples(index=False)]


_LONGEST, _DEEPEST = 2000, 12
_BRACES = r"\{[^{}]*+\}"
for _ in range(3):
    _BRACES = rf"\{{(?:[^{{}}]++|{_BRACES})*+\}}"
# The rule for single dollars is that of Pandoc, so that "$5 and $6" is not a formula.
_FORMULA = re.compile(
    r"\$\$(?P<display>[^$]+)\$\$"
    r"|\$(?=\S)(?P<inline>[^$\n]*[^$\s\\])\$(?!\d)"
    r"|\\\((?P<round>.{1,2000}?)\\\)"
    r"|\\\[(?P<square>.{1,2000}?)\\\]"
    rf"|(?P<boxed>\\boxed{_BRACES})",
    re.DOTALL,
)
# The commands, and in the last line the environments.
_HARMLESS = Path(__file__).with_name("formulas.txt").read_text(encoding="utf-8").splitlines()
_COMMANDS, _ENVIRONMENTS = frozenset(" ".join(_HARMLESS[:-1]).split()), frozenset(_HARMLESS[-1].split())
_COMMAND = re.compile(r"\\(?:([A-Za-z]+)|(.))", re.DOTALL)
_LENGTH = re.compile(r"\\\\\s*\[")  # the space below a line of a matrix
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\s*\{([^{}]*)\}")
_SYMBOLS = frozenset(r"\{}$%&#_ ,;:!|")


def with_formulas(text: str) -> str:
    r"""Return Markdown that shows a text with its formulas typeset and its line breaks kept.

    A formula is enclosed in dollar signs, in ``\(`` and ``\)`` or in ``\[`` and ``\]``, or it is a bare
    ``\boxed{...}``. It is shown as text if it is too long or nested too deeply, if its braces do not match, or if it
    has a command that is not known to be harmless (links, colours, macros, lengths).
    """
    spans, end = [], 0
    for match in _FORMULA.finditer(text):
        formula = " ".join(match[str(match.lastgroup)].split())
        if _is_harmless(formula):
            style = "\\displaystyle " if match.lastgroup in ("display", "square") else ""
            spans += [_lines(text[end : match.start()]), f"${style}{formula}$"]
            end = match.end()
    return "".join([*spans, _lines(text[end:])])


def _is_harmless(formula: str) -> bool:
    if not formula or len(formula) > _LONGEST or not formula.isprintable():
        return False
    bare = formula.replace("\\\\", "  ").replace("\\{", "  ").replace("\\}", "  ")
    depths = list(accumulate((character == "{") - (character == "}") for character in bare))
    if min(depths) < 0 or max(depths) > _DEEPEST or depths[-1]:
        return False
    if _LENGTH.search(formula) or re.search(r"(?<!\\)[%#$~`]", bare):
        return False
    names = [word if word else symbol for word, symbol in _COMMAND.findall(formula)]
    environments = _ENVIRONMENT.findall(formula)
    return (
        not formula.rstrip().endswith("\\")
        and all(name in _COMMANDS or name in _SYMBOLS for name in names)
        and all(name in _ENVIRONMENTS for name in environments)
        and sum(name in ("begin", "end") for name in names) == len(environments)
    )


def _lines(text: str) -> str:
    return "  \n".join(escaped(visible(line)) for line in re.split(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]", text))


def _code(word: str) -> str:
    longest = max((len(run) for run in re.findall("`+", word)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {word} {fence}" if longest else f"`{word}`"
