r"""Answers are read in boxes of many spellings, behind phrases and ####, or where an argument says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prmcal import Question
from prmcal.errors import InvalidArgumentsError
from prmcal.registry.grading import find_answer
from prmcal.registry.grading.extraction import MARKED
from prmcal.registry.plugins import datasets
from prmcal.steps import STEP_END

NUMBERS = st.integers(-(10**6), 10**6).map(str)
BOXES = st.sampled_from(["\\boxed{%s}", "\\boxed {%s}", "\\boxed %s", "\\fbox{%s}", "\\boxed{ %s }", "\\boxed\n{%s}"])
HARMLESS = st.sampled_from(
    ["", " (Answers go in \\boxed{}.)", " So \\boxed{", "</think>", " \\boxed{ }", " I use no <think> tag."]
)
PHRASES = st.sampled_from(
    [
        "The answer is %s.",
        "the answer is: %s",
        "**Answer:** %s",
        "Final answer: $%s$.",
        "The final answer is $%s$. I hope it is correct.",
        "The answer to this problem is %s, because it is.",
        "**Final Answer**\n\n%s",
        "the answer is \\(%s\\)",
        "So the answer is **%s**.\n\nThat was easy.",
        "The answer is\n\\[\n%s\n\\]",
    ]
)


@given(NUMBERS, BOXES, HARMLESS, st.text("ab .\n", max_size=20))
def test_a_box_is_read_whatever_its_spelling_and_what_follows(number: str, box: str, behind: str, before: str) -> None:
    assert find_answer(before + " " + box % number + behind) == (number, "boxed")
    assert find_answer(f"\\boxed{{7}} {before} {box % number}{behind}", MARKED) == (number, "boxed")


@given(NUMBERS, PHRASES, st.text("ab .\n", max_size=20))
def test_an_answer_behind_a_phrase_is_read(number: str, phrase: str, before: str) -> None:
    assert find_answer(f"{before}\n{phrase % number}", MARKED) == (number, "phrase")
    assert find_answer(f"{before}\n{phrase % number}") is None


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("It costs 5.\n#### 18", ("18", "hashes")),
        ("#### 1,000\n\nQuestion: what next?", ("1,000", "hashes")),
        ("#### Step 1: add\nx\n#### Step 2: stop\ny", None),
        ("#### yajo", ("yajo", "hashes")),
        ("The answer is yajo.", ("yajo", "phrase")),
        ("#### 3\nThe answer is 4.", ("3", "hashes")),
        ("The answer is (C).", ("(C)", "phrase")),
        ("The correct answer is option (B).", ("(B)", "phrase")),
        ("The answer is 3.5.", ("3.5", "phrase")),
        ("The answer is $x^2 + 1$.", ("x^2 + 1", "phrase")),
        ("I think about the answer.", None),
        ("The answer is not known.\nThe answer is 5", ("5", "phrase")),
        ("<think>\nthe answer is 4", None),
        ("<think>\nthe answer is 4\n</think>\n\nThe answer is 5.", ("5", "phrase")),
        ("<think> is a tag.\n\nThe answer is 5.", None),
        (f"The answer{STEP_END} is 5.", ("5", "phrase")),
    ],
)
def test_the_default_tries_the_box_then_hashes_then_the_phrase(text: str, answer: Any) -> None:
    assert find_answer(text, MARKED) == answer


@pytest.mark.parametrize(
    ("answers", "text", "answer"),
    [
        ("last number", "I have 3 of 1,250.5 things", ("1,250.5", "last number")),
        ("last number", "x = -\\frac{1}{2}.", ("-\\frac{1}{2}", "last number")),
        ("last number", "It costs $12.", ("12", "last number")),
        ("last number", "none", None),
        ("whole", " Paris\n", ("Paris", "whole")),
        ({"pattern": "RESULT: (.*)"}, "RESULT: 3\nRESULT: 4\n", ("4", "pattern")),
        ({"pattern": r"\d+"}, "1 and 2", ("2", "pattern")),
        (["hashes", "last number"], "so 4", ("4", "last number")),
        (["hashes", {"pattern": "=(.*)"}], "a=4\n#### 5", ("5", "hashes")),
    ],
)
def test_an_argument_says_where_answers_stand(answers: Any, text: str, answer: Any) -> None:
    assert find_answer(text, answers) == answer


def test_in_a_beginning_the_last_number_is_no_final_answer() -> None:
    for answers in ("last number", "whole"):
        assert find_answer("so 4", answers, whole=False) is None
    assert find_answer("The answer is 4.", MARKED, whole=False) == ("4", "phrase")


@given(st.text(max_size=300), st.sampled_from([*MARKED, "last number", "whole"]))
def test_any_text_is_searched(text: str, way: str) -> None:
    found = find_answer(text, way)
    assert found is None or (found.text.strip() and found.way == way)


def test_the_place_of_answers_is_part_of_keys_unless_it_is_the_box() -> None:
    versions = [
        datasets.create("jsonl", path="own.jsonl", answers=each).grader_version
        for each in ("boxed", ["boxed", "phrase"], "whole", {"pattern": "=(.*)"})
    ]
    assert len(set(versions)) == len(versions)
    assert "answers" not in versions[0]
    own = datasets.create("jsonl", path="own.jsonl", answers="last number")
    assert own.grade(Question("q", "1+1?", "2"), "That is 2.") == ("correct", "2")


@pytest.mark.parametrize("answers", ["box", [], {"pattern": "("}, {"regex": "x"}, ["boxed", "?"]])
def test_an_unknown_place_is_refused(answers: Any) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"'answers' parameter .* must be boxed, phrase, hashes"):
        datasets.create("jsonl", path="own.jsonl", answers=answers)
