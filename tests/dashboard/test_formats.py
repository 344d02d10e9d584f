from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prmcal.dashboard.formats import escaped, estimate, integer, number


@given(st.text())
def test_all_punctuation_is_escaped(text: str) -> None:
    unescaped = re.sub(r"\\[!-/:-@\[-`{-~]", "", escaped(text))
    assert re.search(r"[!-/:-@\[-`{-~\n\r\t]", unescaped) is None


@given(st.text())
def test_escaped_text_is_unchanged_without_its_escapes(text: str) -> None:
    assert re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", escaped(text)) == re.sub(r"[ \t\r\n]+", " ", text)


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
    assert (
        estimate(0.5, -0.25, 0.75, digits=2).replace("\N{NO-BREAK SPACE}", " ")
        == "0.50 [\N{MINUS SIGN}0.25, 0.75]"
    )


def test_integers_have_thousands_separators() -> None:
    assert (integer(1234567), integer(None)) == ("1,234,567", "\N{EN DASH}")
