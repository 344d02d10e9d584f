from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prmcal.dashboard.formats import escaped, estimate, integer, number

# An escaped character, or a word as code.
READ = re.compile(r"\\([!-/:-@\[-`{-~])|(`+)(?!`) ?(.*?) ?(?<!`)\2(?!`)", re.DOTALL)
TEXTS = st.text() | st.text(alphabet=st.sampled_from("a:/.w@-><=~`\\ \n"))


@given(TEXTS)
def test_all_punctuation_is_escaped_or_in_code(text: str) -> None:
    assert re.search(r"[!-/:-@\[-`{-~\n\r\t]", READ.sub("", escaped(text))) is None


@given(TEXTS)
def test_escaped_text_is_unchanged_without_its_escapes(text: str) -> None:
    read = READ.sub(lambda found: found[1] or found[3], escaped(text))
    assert read == re.sub(r"[ \t\r\n]+", " ", text)


@pytest.mark.parametrize(
    "word", ["http://a.b", "www.a.b", "a@b.c", "a--b", "->", "<-", ">=", "<=", "~=", ":streamlit:"]
)
def test_what_streamlit_would_rewrite_is_code(word: str) -> None:
    assert escaped(f"a* {word} b") == f"a\\* `{word}` b"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.12345, "0.123"),
        (-0.5, "\N{MINUS SIGN}0.500"),
        (math.nan, "\N{EN DASH}"),
        (None, "\N{EN DASH}"),
        (1.0, "1.000"),
    ],
)
def test_numbers_have_three_digits_and_a_true_minus_sign(value: float | None, shown: str) -> None:
    assert number(value) == shown


def test_an_estimate_has_its_interval() -> None:
    assert estimate(0.5, -0.25, 0.75, digits=2).replace("\N{NO-BREAK SPACE}", " ") == "0.50 [\N{MINUS SIGN}0.25, 0.75]"


def test_integers_have_thousands_separators() -> None:
    assert (integer(1234567), integer(None)) == ("1,234,567", "\N{EN DASH}")
