"""The mistakes that the nano policies imitate depend on the step."""

from __future__ import annotations

import random
import re

import pytest

from prmcal.registry.nano.problems import Operation, generate_split, solution_steps
from tools.nano_training.misconceptions import Habits, habitual_chain, misconceived

NEVER = Habits((0.0, 0.0, 0.0, 0.0), tripling=0.0, miscopied=0.0)
ALWAYS = Habits((1.0, 1.0, 1.0, 1.0), tripling=1.0, miscopied=0.0)


@pytest.mark.parametrize(
    ("value", "operation", "result"),
    [
        (28, Operation("+", 15), 33),
        (23, Operation("+", 15), 38),
        (43, Operation("-", 18), 15),
        (48, Operation("-", 18), 30),
        (21, Operation("*", 3), 42),
        (21, Operation("*", 2), 42),
    ],
)
def test_a_misconception_has_one_result(value: int, operation: Operation, result: int) -> None:
    assert misconceived(value, operation) == result
    assert ALWAYS.chance(value, operation) == (result != operation.apply(value))


def test_chains_are_wrong_where_a_step_offers_a_misconception() -> None:
    for problem in generate_split("nano-math", "train", 50):
        right = habitual_chain(problem, NEVER, random.Random(0))
        assert list(right.steps) == solution_steps(problem)
        assert not any(right.wrong)
        wrong = habitual_chain(problem, ALWAYS, random.Random(0))
        assert wrong.steps == habitual_chain(problem, ALWAYS, random.Random(1)).steps
        assert any(wrong.wrong) == (wrong.steps != right.steps)


def test_a_miscopied_number_is_followed_by_right_arithmetic() -> None:
    copied = Habits((0.0, 0.0, 0.0, 0.0), tripling=0.0, miscopied=1.0)
    (problem,) = generate_split("nano-math", "train", 1)
    chain = habitual_chain(problem, copied, random.Random(0))
    assert all(chain.wrong)
    for step in chain.steps:
        found = re.fullmatch(r"\w\) (\d\d)([-+*])(\d+)=(?:\\boxed{)?(\d\d)}?", step)
        assert found is not None
        assert Operation(found[2], int(found[3])).apply(int(found[1])) == int(found[4])
