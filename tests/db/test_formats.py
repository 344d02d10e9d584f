"""How numbers are written."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prmcal.db.text.formats import fixed, with_interval


@pytest.mark.parametrize("sign", [False, True])
@given(value=st.floats(-0.01, 0.01), digits=st.integers(0, 4))
def test_a_number_that_rounds_to_zero_has_no_sign(value: float, digits: int, sign: bool) -> None:
    text = fixed(value, digits, sign=sign)
    assert float(text) == round(value, digits)
    assert text.startswith(("+", "-")) == (float(text) != 0 and (value < 0 or sign))


def test_an_interval_is_written_only_if_both_ends_are_known() -> None:
    assert with_interval(-0.0001, -0.0002, 0.25) == "0.000 [0.000, 0.250]"
    assert with_interval(0.5, math.nan, math.nan) == with_interval(0.5, None, None) == "0.500"
    assert with_interval(0.5, 0.25, -0.0001, 2, sign=True) == "+0.50 [+0.25, 0.00]"
