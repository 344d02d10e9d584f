"""Chains with systematic mistakes. The policies imitate them, so that they fail the same question in the same way.

A misconception gives one wrong result that depends on the step: a carry is forgotten, a borrow is taken twice, or a
multiplication by 3 adds the number once too few. The other mistakes are rare: miscopied numbers. A chain continues from
its wrong number. Forgotten carries and double borrows both take 10 away, so that they seldom cancel in short chains.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from prmcal.registry.nano.problems import MODULUS, Operation, Problem, render_step
from tools.nano_training.chains import NoisyChain, other_digit, other_operand


@dataclass(frozen=True)
class Habits:
    """How often a policy makes each mistake, as probabilities of a step that offers it.

    Attributes
    ----------
    carrying : tuple of float
        Of a sum with a carry or a difference with a borrow, by the operand: 1 to 9, 11 to 13, 14 to 16, 17 to 19.
    tripling : float
        Of a multiplication by 3.
    miscopied : float
        Of any step: a digit of the value or the operand is miscopied.
    """

    carrying: tuple[float, float, float, float]
    tripling: float
    miscopied: float

    def chance(self, value: int, operation: Operation) -> float:
        """Return the probability of the misconception that a step offers, or 0 if it offers none."""
        if misconceived(value, operation) == operation.apply(value):
            return 0.0
        if operation.symbol == "*":
            return self.tripling
        return self.carrying[0 if operation.operand < 10 else 1 + (operation.operand - 11) // 3]


HABITS = {
    "weak": Habits((0.08, 0.15, 0.60, 0.99), tripling=0.80, miscopied=0.010),
    "middle": Habits((0.02, 0.04, 0.18, 0.95), tripling=0.40, miscopied=0.005),
    "strong": Habits((0.004, 0.01, 0.05, 0.45), tripling=0.08, miscopied=0.001),
}
"""The policies share their misconceptions, and differ in how often each of them decides a step.

A step that the weak policy nearly always gets wrong makes a question hopeless for it, and most of its wrong answers are
then equal.
"""


def misconceived(value: int, operation: Operation) -> int:
    """Return the result of a step under its misconception, which is the right result if it has none."""
    units, operand = value % 10, operation.operand % 10
    outcome = operation.apply(value)
    if (operation.symbol == "+" and units + operand > 9) or (operation.symbol == "-" and units < operand):
        return (outcome - 10) % MODULUS
    if operation.symbol == "*" and operation.operand == 3:
        return value * 2 % MODULUS
    return outcome


def habitual_chain(problem: Problem, habits: Habits, generator: random.Random) -> NoisyChain:
    """Return a solution with the mistakes of a policy."""
    steps: list[str] = []
    wrong: list[bool] = []
    value = problem.start
    last_index = len(problem.operations) - 1
    for index, operation in enumerate(problem.operations):
        read_value, read_operation = value, operation
        if generator.random() < habits.miscopied:
            if generator.random() < 0.75:
                read_value = other_digit(generator, value)
            else:
                read_operation = other_operand(generator, operation)
        outcome = read_operation.apply(read_value)
        slipped = generator.random() < habits.chance(read_value, read_operation)
        if slipped:
            outcome = misconceived(read_value, read_operation)
        steps.append(render_step(index, read_value, read_operation, outcome, index == last_index))
        wrong.append(slipped or read_value != value or read_operation != operation)
        value = outcome
    return NoisyChain(tuple(steps), tuple(wrong))
