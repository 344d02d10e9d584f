"""The graders that a data set may name: what each accepts, and what none of them may hide."""

from __future__ import annotations

from pathlib import Path

import pytest

from prmcal.errors import InvalidArgumentsError
from prmcal.registry.contracts.data import Question
from prmcal.registry.contracts.grader import GradingRequest
from prmcal.registry.plugins import graders

OPTIONS = ("7", "42", "a prime", "none of these")


def verdict(grader: str, answer: str | None, reference: str, options: tuple[str, ...] = (), **given: object) -> str:
    question = Question("q", "Which one?", reference, options=options)
    (graded,) = graders.create(grader, **given).grade([GradingRequest(question, answer, f"So {answer}")])
    return graded.verdict


@pytest.mark.parametrize(
    ("answer", "reference", "right"),
    [
        ("B", "B", True),
        ("(B)", "B", True),
        ("(B) 42", "B", True),
        ("Option B", "b", True),
        ("B. 42", "B", True),
        ("**B**", "B", True),
        (r"\text{B}", "B", True),
        ("42", "B", True),
        ("a  Prime", "C", True),
        ("B", "42", True),
        ("A and C", "A, C", True),
        ("C, A", "AC", True),
        ("A", "A, C", False),
        ("A, C", "A", False),
        ("C", "B", False),
        ("(B) a prime", "B", False),
        ("E", "B", False),
        ("Because", "B", False),
        ("43", "B", False),
    ],
)
def test_letters_and_options(answer: str, reference: str, right: bool) -> None:
    assert (verdict("letter", answer, reference, OPTIONS) == "correct") == right


def test_letters_without_options() -> None:
    assert verdict("letter", "(D) whatever", "D") == "correct"
    assert verdict("letter", "twelve", "D") == "unparsed"


def test_exact_and_symbolic() -> None:
    assert verdict("exact", " 1/2 ", "1/2") == "correct"
    assert verdict("exact", "0.5", "1/2") == "incorrect" != verdict("symbolic", "0.5", "1/2")
    assert verdict("exact", "Yes", "yes") == "incorrect" != verdict("exact", "Yes", "yes", ignore_case=True)
    assert verdict("exact", "half", '["1/2", "half"]') == "correct"
    assert verdict("symbolic", "070", "70", kind="integer") == "correct"
    assert all(verdict(name, None, "1") == "unparsed" for name in ("exact", "symbolic", "letter"))


def test_a_function_decides_and_its_errors_are_counted_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_rules.py").write_text(
        "def same(question, answer, reference):\n    return int(answer) == int(reference)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert verdict("function", "07", "7", function="my_rules:same") == "correct"
    assert verdict("function", "8", "7", function="my_rules:same") == "incorrect"
    assert verdict("function", "seven", "7", function="my_rules:same") == "failed"
    assert verdict("function", None, "7", function="my_rules:same") == "failed"
    for wrong in ("my_rules:other", "my_rules", "no_such_module:same"):
        with pytest.raises(InvalidArgumentsError, match="cannot be imported"):
            graders.create("function", function=wrong)


def test_a_judge_gives_probabilities_and_is_not_asked_without_an_answer() -> None:
    model = {"checkpoint": "nano:weak", "chat": False, "right": ["0"], "wrong": ["1"]}
    judge = graders.create("judge", model=model)
    question = Question("q", "Start with 35 and keep two digits. a) add 2.", "37")
    first, none, again = judge.grade([GradingRequest(question, text, "") for text in ("37", None, "38")])
    judge.close()
    assert none.verdict == "unparsed" and not none.tokens
    for graded in (first, again):
        assert 0 <= graded.probability <= 1 and graded.tokens
        assert (graded.verdict == "correct") == (graded.probability >= 0.5)
    assert judge.identity() != graders.create("judge", model=model, undecided_only=True).identity()
    with pytest.raises(InvalidArgumentsError):
        graders.create("judge", model={"base_url": "http://localhost:1/v1"})
