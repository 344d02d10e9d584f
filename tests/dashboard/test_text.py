from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prmcal.dashboard.text.plain import amount, estimate, in_lines, number, plain


@given(st.text())
def test_no_punctuation_is_left_for_markdown_to_read(text: str) -> None:
    unescaped = re.sub(r"\\[!-/:-@\[-`{-~]", "", plain(text))
    assert re.search(r"[!-/:-@\[-`{-~\n\r\t]", unescaped) is None


@given(st.text())
def test_escaped_text_reads_as_it_was(text: str) -> None:
    assert re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", plain(text)) == re.sub(r"[ \t\r\n]+", " ", text)


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
def test_numbers_are_short_and_signed(value: float | None, shown: str) -> None:
    assert number(value) == shown


def test_an_estimate_names_its_interval() -> None:
    assert (
        estimate(0.5, -0.25, 0.75, digits=2).replace("\N{NO-BREAK SPACE}", " ")
        == "0.50 [\N{MINUS SIGN}0.25, 0.75]"
    )


def test_amounts_have_separators() -> None:
    assert (amount(1234567), amount(None)) == ("1,234,567", "\N{EN DASH}")


@given(st.text(), st.integers(1, 9))
def test_lines_end_only_after_so_many_words(text: str, words: int) -> None:
    shown = in_lines(text, words)
    assert shown.replace("\N{NO-BREAK SPACE}", " ") == text.replace("\N{NO-BREAK SPACE}", " ")
    assert shown.count(" ") == text.count(" ") // words
