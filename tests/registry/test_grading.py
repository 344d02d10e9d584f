r"""Final answers: found in the last box, and compared as text and as exact numbers."""

from __future__ import annotations

import json
import time
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry import Question
from registry.grading import extract_answer, grade_answer
from registry.plugins import datasets

DATA = Path(__file__).parents[2].parent / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"no recorded data in {DATA}")


@pytest.mark.parametrize(
    ("trajectory", "answer"),
    [
        ("so \\boxed{42}.", "42"),
        ("first \\boxed{1}, no: \\boxed{ 2 }", "2"),
        ("\\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
        ("\\boxed{}", ""),
        ("\\boxed{1", None),
        ("\\boxed{1}, or \\boxed{2", None),
        ("the answer is 42", None),
        ("", None),
    ],
)
def test_the_last_box_holds_the_answer(trajectory: str, answer: str | None) -> None:
    assert extract_answer(trajectory) == answer


@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        ("42", "42"),
        ("07", "7"),
        ("70.0", "70"),
        ("0.5", "\\frac{1}{2}"),
        ("\\dfrac{3}{6}", "\\frac{1}{2}"),
        (".5", "1/2"),
        ("1,000,000", "1000000"),
        ("10,\\!000", "10000"),
        ("$7$", "7."),
        ("(1, 2)", "(1,2)"),
    ],
)
def test_equal_answers(answer: str, reference: str) -> None:
    assert grade_answer(answer, reference)
    assert grade_answer(reference, answer)


@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        ("5", "500"),
        ("5", "0.05"),
        ("1/0", "0"),
        ("12", "1,2"),
        ("", "0"),
        ("-3", "3"),
        ("2^3", "8"),
        ("0.333", "1/3"),
    ],
)
def test_unequal_answers(answer: str, reference: str) -> None:
    assert not grade_answer(answer, reference)


@given(st.fractions(-(10**12), 10**12, max_denominator=10**6), st.integers(1, 50))
def test_a_fraction_equals_itself_in_other_terms(value: Fraction, factor: int) -> None:
    other = f"\\frac{{{value.numerator * factor}}}{{{value.denominator * factor}}}"
    assert grade_answer(f"{value.numerator}/{value.denominator}", other)
    assert not grade_answer(str(value + 1), other)


@given(st.text(max_size=200))
def test_any_text_is_graded_and_equals_itself(text: str) -> None:
    assert grade_answer(text, text)
    extract_answer(text)


def test_a_tower_of_powers_is_only_text() -> None:
    start = time.monotonic()
    assert not grade_answer("9^" * 10_000 + "9", "9" * 100_000)
    assert extract_answer("\\boxed{" * 10_000) is None
    assert time.monotonic() - start < 2


def test_verdicts_of_a_data_set() -> None:
    nano = datasets.create("nano-math")
    question = Question("q", "1+1?", "02")
    assert nano.grade(question, "a) 1+1=\\boxed{02}") == ("correct", "02")
    assert nano.grade(question, "a) 1+1=\\boxed{03}") == ("incorrect", "03")
    assert nano.grade(question, "a) 1+1=02") == ("unparsed", None)


@needs_data
def test_recorded_verdicts_are_met() -> None:
    agree = wrongly_correct = total = 0
    for line in (DATA / "math_cot_100_8samples.jsonl").read_text().splitlines():
        record = json.loads(line)
        for response, recorded in zip(record["response"], record["score"], strict=True):
            answer = extract_answer(response)
            verdict = answer is not None and grade_answer(answer, record["answer"])
            agree += verdict == recorded
            wrongly_correct += verdict and not recorded
            total += 1
    assert total == 800
    assert wrongly_correct == 0
    assert agree / total > 0.9
