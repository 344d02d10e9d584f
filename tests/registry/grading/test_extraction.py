r"""Answers are read in boxes of many spellings, behind phrases and ####, or where an argument says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prmcal import Question
from prmcal.errors import DataError, InvalidArgumentsError
from prmcal.registry.grading import extraction, find_answer
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
        ("It is $x=\\boxed{6}$ or $x=\\boxed{-2}$.", ("6, -2", "boxed")),
        ("$a=\\boxed{6}$ and $b=\\boxed{-2}$", ("a = 6, b = -2", "boxed")),
        ("We get \\boxed{6}. So the result is \\boxed{7}.", ("7", "boxed")),
        ("So $x = -\\boxed{7}$.", ("-7", "boxed")),
        ("$-\\boxed{x+1}$", ("-(x+1)", "boxed")),
        ("- \\boxed{7}", ("7", "boxed")),
        ("$5 - \\boxed{7}$", ("7", "boxed")),
        ("$\\boxed{7}\\text{ million}$", ("7 million", "boxed")),
        ("\\boxed{7}, and not \\boxed{your answer}.", ("7", "boxed")),
        ("$\\boxed{a < b}$\n\n**Answer: D**", ("D", "phrase")),
        ("$\\boxed{C}$\n\n**Answer: D**", ("C", "boxed")),
        ("The answer is <answer> 70 </answer>.", ("70", "phrase")),
        ("<answer>$\\boxed{7}$</answer>", ("7", "boxed")),
        ("\u7b54\u6848\uff1a7", ("7", "phrase")),
        ("Die Antwort lautet 7,5.", ("7,5", "phrase")),
        ("**Respuesta final:** 7", ("7", "phrase")),
        ("La r\u00e9ponse est $x^2$.", ("x^2", "phrase")),
        ("The correct choice is (C).", ("(C)", "phrase")),
        ("Option C is correct.", ("C", "phrase")),
        ("Final result: 7", ("7", "phrase")),
        ("The solution is to add them.", None),
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
        ("last number", "Es sind 2,75 Euro.", ("2,75", "last number")),
        ("last number", "at (3,4)", ("4", "last number")),
        ({"phrase": "Svaret er"}, "Svaret er **7**.", ("7", "phrase")),
        (["boxed", {"phrase": "svar"}], "Svar: 7", ("7", "phrase")),
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


@pytest.mark.parametrize(
    "answers", ["box", [], {"pattern": "("}, {"regex": "x"}, {"phrase": "a", "pattern": "b"}, ["boxed", "?"]]
)
def test_an_unknown_place_is_refused(answers: Any) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"'answers' parameter .* must be boxed, phrase, hashes"):
        datasets.create("jsonl", path="own.jsonl", answers=answers)


def test_a_pattern_that_never_ends_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extraction, "_PATTERN_SECONDS", 0.05)
    with pytest.raises(DataError, match=r"The pattern '\(a\|aa\)\+\[bc\]\$' of 'answers' took more than 0.05 s"):
        find_answer("a" * 60, {"pattern": "(a|aa)+[bc]$"})
