"""Chains of steps with mistakes in them: what the weaker policies write and what a judge learns to see.

Almost every mistake is a miscopied number followed by right arithmetic: a digit of the running value at the start of a
step, or the operand, or (seldom) the instruction's symbol; a few are slips in the result. The chain then goes on from
its wrong number. Mistakes of this kind can be seen by looking up one earlier token, which a model of half a million
parameters learns within minutes; wrong sums alone stay hard to see.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from prmcal.registry.nano.problems import MODULUS, Operation, Problem, render_step

__all__ = [
    "COPY_MIX",
    "HARD_FACTOR",
    "NEAR_SLIP_MIX",
    "SLIP_MIX",
    "TAUGHT_MIX",
    "Chain",
    "Mix",
    "noisy_chain",
    "right_chain",
]

HARD_FACTOR = 3.0
"""How much likelier a mistake is in a hard step than in an easy one."""


@dataclass(frozen=True)
class Mix:
    """Shares of the kinds of mistakes: miscopied value, operand or symbol. The rest are slips in the result.

    Of the slips, the share `near` is off by ten or by one, as if a carry was forgotten; the others have a random digit.
    """

    value: float
    operand: float
    symbol: float
    near: float = 0.0


TAUGHT_MIX = Mix(value=0.55, operand=0.30, symbol=0.05)
"""What the judge sees: a tenth are slips."""
SLIP_MIX = Mix(value=0.30, operand=0.15, symbol=0.05)
"""What the verifier sees: half are slips, the hardest to see and what the best of many samples is wrong by."""
NEAR_SLIP_MIX = Mix(value=0.20, operand=0.12, symbol=0.08, near=0.8)
"""What the reward model sees at last: slips of the kind that the policies make."""
COPY_MIX = Mix(value=0.72, operand=0.22, symbol=0.06)
"""What the policies imitate: copy mistakes alone. Slips come from the models themselves."""


@dataclass(frozen=True)
class Chain:
    """A solution, right or wrong.

    Attributes
    ----------
    steps : tuple of str
        One per instruction of the question, or fewer if it was cut.
    wrong : tuple of bool
        Which steps hold a mistake of their own. A right step after a wrong one isn't wrong, but its result may be.
    """

    steps: tuple[str, ...]
    wrong: tuple[bool, ...]

    def sound(self, steps: int) -> bool:
        """Whether the first so many steps hold no mistake."""
        return not any(self.wrong[:steps])

    def cut(self, steps: int) -> Chain:
        """The first steps alone."""
        return Chain(self.steps[:steps], self.wrong[:steps])


def other_digit(generator: random.Random, number: int) -> int:
    """A number of two digits with one of its digits replaced."""
    place = generator.choice((1, 10))
    digit = number // place % 10
    return number + (generator.choice([other for other in range(10) if other != digit]) - digit) * place


def other_operand(generator: random.Random, operation: Operation) -> Operation:
    """The instruction with a misread operand of the same kind, so that its number of digits stays."""
    if operation.symbol == "*":
        choices = [2, 3, 4, 5]
    elif operation.operand > 9:
        choices = list(range(11, 20))
    else:
        choices = list(range(1, 10))
    return Operation(
        operation.symbol, generator.choice([other for other in choices if other != operation.operand])
    )


def wrong_step(
    generator: random.Random, value: int, operation: Operation, index: int, last: bool, mix: Mix
) -> tuple[str, int]:
    """A step with one mistake, and the number it ends with."""
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
    result = operation.apply(value)
    if slip:
        if mix.near > 0 and generator.random() < mix.near:
            result = (result + generator.choice((-10, -10, 10, 10, -1, 1))) % MODULUS
        else:
            result = other_digit(generator, result)
    return render_step(index, value, operation, result, last), result


def right_chain(problem: Problem) -> Chain:
    """The right solution."""
    return noisy_chain(problem, 0.0, random.Random(0))


def noisy_chain(
    problem: Problem, rate: float, generator: random.Random, forced: int | None = None, mix: Mix = TAUGHT_MIX
) -> Chain:
    """A solution with random mistakes.

    Parameters
    ----------
    problem : Problem
        What is to be solved.
    rate : float
        Chance of a mistake in an easy step; in a hard one it is `HARD_FACTOR` times as large.
    generator : random.Random
        The source of randomness.
    forced : int, optional
        The index of a step that is wrong in any case, and none before it.
    mix : Mix
        Which kinds of mistakes.
    """
    steps: list[str] = []
    wrong: list[bool] = []
    value = problem.start
    last = len(problem.operations) - 1
    for index, operation in enumerate(problem.operations):
        chance = rate * (HARD_FACTOR if operation.hard else 1.0)
        if forced is not None and index <= forced:
            chance = float(index == forced)
        if chance > 0 and generator.random() < chance:
            text, value = wrong_step(generator, value, operation, index, index == last, mix)
            wrong.append(True)
        else:
            left, value = value, operation.apply(value)
            text = render_step(index, left, operation, value, index == last)
            wrong.append(False)
        steps.append(text)
    return Chain(tuple(steps), tuple(wrong))
