"""How numbers are written."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prmcal.db.text.formats import interval, number


@pytest.mark.parametrize("signed", [False, True])
@given(value=st.floats(-0.01, 0.01), digits=st.integers(0, 4))
def test_a_number_that_rounds_to_zero_has_no_minus_sign(value: float, digits: int, signed: bool) -> None:
    text = number(value, digits, signed=signed)
    assert float(text) == round(value, digits)
    assert text.startswith("-") == (float(text) < 0)
    assert text.startswith("+") == (signed and not float(text) < 0)


def test_an_interval_is_written_only_if_both_ends_are_known() -> None:
    assert interval(-0.0002, 0.25) == "[0.000, 0.250]"
    assert interval(math.nan, math.nan) == ""
