"""The generator of nano problems: disjoint splits, fixed order, right solutions."""

from __future__ import annotations

import random
import re

import pytest

from prmcal.registry.nano.problems import (
    AIME_LENGTHS,
    DATASETS,
    HARD_SHARES,
    LENGTHS,
    Problem,
    draw_problem,
    generate_split,
    solution_steps,
    split_of,
)

PAIRS = [(dataset, split) for dataset, splits in DATASETS.items() for split in splits]


def solve(text: str) -> list[int]:
    """All intermediate values, computed from the text of the question."""
    value = int(next(iter(re.findall(r"(?:Start with|Begin at) (\d\d)", text))))
    values = [value]
    for word, operand in re.findall(r"(add|subtract|multiply by) (\d+)", text):
        number = int(operand)
        value = {"add": value + number, "subtract": value - number, "multiply by": value * number}[word] % 100
        values.append(value)
    return values


@pytest.mark.parametrize(("dataset", "split"), PAIRS)
def test_solutions_are_right_by_an_independent_evaluator(dataset: str, split: str) -> None:
    for problem in generate_split(dataset, split, 100):
        values = solve(problem.text)
        steps = solution_steps(problem)
        assert problem.answer == f"{values[-1]:02d}"
        assert steps[-1].endswith(f"\\boxed{{{problem.answer}}}")
        assert len(steps) == len(problem.operations) == len(values) - 1
        for step, left, right in zip(steps, values, values[1:], strict=False):
            found = re.fullmatch(r"[a-z]\) (\d\d)[-+*]\d+=(?:\\boxed\{)?(\d\d)\}?", step)
            assert found is not None
            assert [int(group) for group in found.groups()] == [left, right]


def test_no_question_is_in_two_splits() -> None:
    texts = {pair: {problem.text for problem in generate_split(*pair, 2000)} for pair in PAIRS}
    assert all(len(found) == 2000 for found in texts.values())
    for pair, found in texts.items():
        for other, others in texts.items():
            assert pair == other or not found & others
        assert {split_of(text) for text in found} == {pair[1]}


@pytest.mark.parametrize(("dataset", "split"), PAIRS)
def test_the_first_of_more_are_the_same(dataset: str, split: str) -> None:
    assert generate_split(dataset, split, 40)[:15] == generate_split(dataset, split, 15)


def test_the_problems_have_not_changed() -> None:
    first = generate_split("nano-math", "test", 1)[0]
    assert first.text == "Start with 78 and keep two digits. a) add 2, b) subtract 3."
    assert first.id == "nano-math-0e4ea9c91fa5"


def test_levels_take_turns_and_grow_longer_and_harder() -> None:
    problems = generate_split("nano-math", "train", 1000)
    by_level: dict[int, list[Problem]] = {level: [] for level in LENGTHS}
    for index, problem in enumerate(problems):
        assert problem.level == index % 5 + 1
        by_level[problem.level].append(problem)
    for level, found in by_level.items():
        operations = [operation for problem in found for operation in problem.operations]
        assert len(operations) == LENGTHS[level] * len(found)
        share = sum(operation.hard for operation in operations) / len(operations)
        assert share == pytest.approx(HARD_SHARES[level], abs=0.07)


def test_nano_aime_is_longer_and_harder() -> None:
    problems = generate_split("nano-aime", "test", 200)
    assert {len(problem.operations) for problem in problems} == set(AIME_LENGTHS)
    operations = [operation for problem in problems for operation in problem.operations]
    assert sum(operation.hard for operation in operations) / len(operations) > 0.9
    assert {problem.level for problem in problems} == {5}


def test_ids_follow_the_text() -> None:
    problem = draw_problem(random.Random(0), "nano-math", 2)
    assert problem == draw_problem(random.Random(0), "nano-math", 2)
    assert problem.id.startswith("nano-math-")
    assert problem.subject in ("sums", "products")
    assert (problem.subject == "products") == ("multiply" in problem.text)
