"""Chains of steps with random mistakes, which judges learn to detect.

Most mistakes are copy mistakes: a step miscopies a digit of the current value, the operand or (rarely) the symbol of
the instruction, and then computes correctly. The other mistakes are slips: a wrong result of the right numbers. The
chain continues from the wrong number. A model with half a million parameters learns within minutes to detect copy
mistakes, because a comparison with one earlier token is enough. Slips are hard to detect.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from prmcal.registry.nano.problems import MODULUS, Operation, Problem, render_step

HARD_FACTOR = 3.0
"""The probability of a mistake in a hard step, relative to an easy step."""


@dataclass(frozen=True)
class Mix:
    """The shares of miscopied values, operands and symbols among all mistakes. The rest are slips.

    `near` is the share of slips that are off by ten or by one, like a forgotten carry. The other slips have one random
    wrong digit.
    """

    value: float
    operand: float
    symbol: float
    near: float = 0.0


TAUGHT_MIX = Mix(value=0.55, operand=0.30, symbol=0.05)
"""The mistakes that the base models learn to detect. A tenth are slips."""
SLIP_MIX = Mix(value=0.30, operand=0.15, symbol=0.05)
"""The mistakes that the verifier learns to detect. Half are slips, the usual error of best-of-n."""
PRM_SLIP_MIX = Mix(value=0.1, operand=0.1, symbol=0.1, near=0.4)
"""The mistakes that a PRM learns to detect. Most are slips."""


@dataclass(frozen=True)
class NoisyChain:
    """A solution, right or wrong.

    Attributes
    ----------
    steps : tuple of str
        One step per instruction of the question, or fewer if the chain was cut.
    wrong : tuple of bool
        Whether each step contains a mistake of its own. A step that computes correctly from a wrong number is False.
    """

    steps: tuple[str, ...]
    wrong: tuple[bool, ...]

    def sound(self, steps: int) -> bool:
        """Return whether the first `steps` steps contain no mistake."""
        return not any(self.wrong[:steps])

    def cut(self, steps: int) -> NoisyChain:
        """Return the chain of the first `steps` steps."""
        return NoisyChain(self.steps[:steps], self.wrong[:steps])


def other_digit(generator: random.Random, number: int) -> int:
    """Replace one digit of a number with two digits."""
    unit = generator.choice((1, 10))
    digit = number // unit % 10
    return number + (generator.choice([other for other in range(10) if other != digit]) - digit) * unit


def other_operand(generator: random.Random, operation: Operation) -> Operation:
    """Replace the operand of an instruction with another one that has the same number of digits."""
    if operation.symbol == "*":
        choices = [2, 3, 4, 5]
    elif operation.operand > 9:
        choices = list(range(11, 20))
    else:
        choices = list(range(1, 10))
    return Operation(operation.symbol, generator.choice([number for number in choices if number != operation.operand]))


def wrong_step(
    generator: random.Random, value: int, operation: Operation, index: int, is_last: bool, mix: Mix
) -> tuple[str, int]:
    """Return a step with one mistake, and its result."""
    kind = generator.random()
    slip = False
    if kind < mix.value:
        value = other_digit(generator, value)
    elif kind < mix.value + mix.operand:
        operation = other_operand(generator, operation)
    elif kind < mix.value + mix.operand + mix.symbol and operation.symbol != "*":
        operation = Operation("-" if operation.symbol == "+" else "+", operation.operand)
    else:
        slip = True
    outcome = operation.apply(value)
    if slip:
        if mix.near > 0 and generator.random() < mix.near:
            outcome = (outcome + generator.choice((-10, -10, 10, 10, -1, 1))) % MODULUS
        else:
            outcome = other_digit(generator, outcome)
    return render_step(index, value, operation, outcome, is_last), outcome


def right_chain(problem: Problem) -> NoisyChain:
    """Return the chain without mistakes."""
    return noisy_chain(problem, 0.0, random.Random(0))


def noisy_chain(
    problem: Problem, rate: float, generator: random.Random, forced: int | None = None, mix: Mix = TAUGHT_MIX
) -> NoisyChain:
    """Return a solution with random mistakes.

    Parameters
    ----------
    problem : Problem
        The problem to solve.
    rate : float
        The probability of a mistake in an easy step. A hard step has `HARD_FACTOR` times this probability.
    generator : random.Random
        The source of randomness.
    forced : int, optional
        The index of a step that is always wrong. The steps before it are right.
    mix : Mix
        The shares of the kinds of mistakes.
    """
    steps: list[str] = []
    wrong: list[bool] = []
    value = problem.start
    last_index = len(problem.operations) - 1
    for index, operation in enumerate(problem.operations):
        chance = rate * (HARD_FACTOR if operation.hard else 1.0)
        if forced is not None and index <= forced:
            chance = float(index == forced)
        if chance > 0 and generator.random() < chance:
            text, value = wrong_step(generator, value, operation, index, index == last_index, mix)
            wrong.append(True)
        else:
            operand_value, value = value, operation.apply(value)
            text = render_step(index, operand_value, operation, value, index == last_index)
            wrong.append(False)
        steps.append(text)
    return NoisyChain(tuple(steps), tuple(wrong))
