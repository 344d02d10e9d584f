r"""The nano world's problems: chains of two-digit arithmetic, with step-by-step solutions.

A question starts from a number and gives lettered instructions; its solution has one step per instruction, headed by
the same letter, and the last step holds the answer in a box:

    Start with 37 and keep two digits. a) add 15, b) subtract 8, c) multiply by 3.

    a) 37+15=52

    b) 52-8=44

    c) 44*3=\boxed{32}

Every number along the way is written with two digits (07, not 7), modulo 100. Two data sets share this form:

- nano-math, levels 1 to 5: 2, 3, 5, 7 and 9 instructions, with more of the hard ones at the higher levels;
- nano-aime: 11 to 13 instructions, nearly all hard, all of level 5.

An easy instruction adds or subtracts one digit; a hard one adds or subtracts a number from 11 to 19 or multiplies by 2
or 3. A hash of the question's text decides its split, so that no question can be in two, whichever seeds and counts
are asked for.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = [
    "AIME_LENGTHS",
    "DATASETS",
    "LENGTHS",
    "MODULUS",
    "SPLITS",
    "Operation",
    "Problem",
    "draw_problem",
    "generate_split",
    "longest",
    "solution_steps",
    "split_of",
]

MODULUS = 100
LABELS = "abcdefghijklmnopqrstuvwxyz"
LENGTHS = {1: 2, 2: 3, 3: 5, 4: 7, 5: 9}
"""Number of instructions of a nano-math question by level."""
HARD_SHARES = {1: 0.1, 2: 0.2, 3: 0.35, 4: 0.5, 5: 0.6}
"""Chance that an instruction of a nano-math question is hard, by level."""
AIME_LENGTHS = (11, 12, 13)
AIME_HARD_SHARE = 0.95
AIME_LEVEL = 5
MULTIPLICATION_SHARE = 0.25
"""Share of multiplications among the hard instructions."""
DATASETS = {"nano-math": ("train", "calibration", "test"), "nano-aime": ("train", "test")}
"""The splits of each data set. The train split of nano-aime teaches long chains; it bears no Monte Carlo labels."""
SPLITS = {"train": range(0, 6), "calibration": range(6, 8), "test": range(8, 10)}
"""Which tenths of the hash belong to which split."""
OPENINGS = ("Start with {start} and keep two digits.", "Begin at {start}, keeping two digits.")
WORDS = {"+": "add", "-": "subtract", "*": "multiply by"}


@dataclass(frozen=True)
class Operation:
    """One instruction: a symbol out of `+`, `-`, `*` and its operand."""

    symbol: str
    operand: int

    @property
    def hard(self) -> bool:
        """Whether it multiplies or has an operand of two digits."""
        return self.symbol == "*" or self.operand > 9

    def apply(self, value: int) -> int:
        """The last two digits of the result."""
        if self.symbol == "+":
            return (value + self.operand) % MODULUS
        if self.symbol == "-":
            return (value - self.operand) % MODULUS
        return value * self.operand % MODULUS


@dataclass(frozen=True)
class Problem:
    """A question with its answer.

    Attributes
    ----------
    id : str
        Data set and hash of the text: the same text has the same id, ever.
    text : str
        The question.
    answer : str
        Two digits, as in the box.
    level : int
        1 to 5; 5 throughout nano-aime.
    subject : str
        `"sums"` if nothing is multiplied, else `"products"`.
    start : int
        The number to start from, 0 to 99.
    operations : tuple of Operation
        One per instruction.
    """

    id: str
    text: str
    answer: str
    level: int
    subject: str
    start: int
    operations: tuple[Operation, ...]

    def values(self) -> list[int]:
        """The numbers along the way: the start and every result, one more than operations."""
        values = [self.start]
        for operation in self.operations:
            values.append(operation.apply(values[-1]))
        return values


def render_step(index: int, left: int, operation: Operation, result: int, last: bool) -> str:
    """One step of a solution, right or wrong: `b) 52-8=44`, or with the result in a box if it is the last."""
    shown = f"\\boxed{{{result:02d}}}" if last else f"{result:02d}"
    return f"{LABELS[index]}) {left:02d}{operation.symbol}{operation.operand}={shown}"


def longest(dataset: str, level: int) -> int:
    """The most instructions that a question of a level has."""
    return LENGTHS[level] if dataset == "nano-math" else max(AIME_LENGTHS)


def solution_steps(problem: Problem) -> list[str]:
    """The right solution, one string per step. Joined by blank lines it is what a policy writes."""
    values = problem.values()
    last = len(problem.operations) - 1
    return [
        render_step(index, values[index], operation, values[index + 1], index == last)
        for index, operation in enumerate(problem.operations)
    ]


def question_text(start: int, operations: tuple[Operation, ...], opening: str) -> str:
    """The question in words."""
    instructions = ", ".join(
        f"{label}) {WORDS[operation.symbol]} {operation.operand}"
        for label, operation in zip(LABELS, operations, strict=False)
    )
    return f"{opening.format(start=f'{start:02d}')} {instructions}."


def split_of(text: str) -> str:
    """The split a question belongs to, by the hash of its text alone."""
    tenth = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % 10
    return next(split for split, tenths in SPLITS.items() if tenth in tenths)


def draw_operation(generator: random.Random, hard_share: float) -> Operation:
    """A random instruction that is hard with the given chance."""
    if generator.random() >= hard_share:
        return Operation(generator.choice("+-"), generator.randint(1, 9))
    if generator.random() < MULTIPLICATION_SHARE:
        return Operation("*", generator.randint(2, 3))
    return Operation(generator.choice("+-"), generator.randint(11, 19))


def make_problem(
    dataset: str, level: int, start: int, operations: tuple[Operation, ...], opening: int
) -> Problem:
    """The problem of given instructions, with its text, its answer and its id."""
    text = question_text(start, operations, OPENINGS[opening])
    value = start
    for operation in operations:
        value = operation.apply(value)
    return Problem(
        id=f"{dataset}-{hashlib.sha256(text.encode()).hexdigest()[:12]}",
        text=text,
        answer=f"{value:02d}",
        level=level,
        subject="products" if any(operation.symbol == "*" for operation in operations) else "sums",
        start=start,
        operations=operations,
    )


def draw_problem(generator: random.Random, dataset: str, level: int) -> Problem:
    """A random problem of a data set, of whichever split.

    Parameters
    ----------
    generator : random.Random
        The source of randomness.
    dataset : str
        `"nano-math"` or `"nano-aime"`.
    level : int
        1 to 5; ignored for nano-aime.
    """
    if dataset == "nano-math":
        length, hard_share = LENGTHS[level], HARD_SHARES[level]
    else:
        length, hard_share, level = generator.choice(AIME_LENGTHS), AIME_HARD_SHARE, AIME_LEVEL
    start = generator.randrange(MODULUS)
    operations = tuple(draw_operation(generator, hard_share) for _ in range(length))
    return make_problem(dataset, level, start, operations, generator.randrange(len(OPENINGS)))


def stream_split(dataset: str, split: str) -> Iterator[Problem]:
    """The problems of a split in their fixed order, without end and without repeats. Levels take turns."""
    generator = random.Random(f"prmcal {dataset} {split}")
    seen: set[str] = set()
    level = 0
    while True:
        problem = draw_problem(generator, dataset, level % 5 + 1)
        if problem.text in seen or split_of(problem.text) != split:
            continue
        seen.add(problem.text)
        level += 1
        yield problem


def generate_split(dataset: str, split: str, count: int) -> list[Problem]:
    """The first problems of a split.

    Parameters
    ----------
    dataset : str
        `"nano-math"` or `"nano-aime"`.
    split : str
        `"train"`, `"calibration"` or `"test"`; nano-aime has no calibration split.
    count : int
        How many. The first n of a larger count are the same.

    Returns
    -------
    list of Problem
        Levels 1 to 5 take turns in nano-math.
    """
    if dataset not in DATASETS:
        raise ValueError(
            f"The 'dataset' parameter must be one of {sorted(DATASETS)}. Got {dataset!r} instead."
        )
    if split not in DATASETS[dataset]:
        raise ValueError(
            f"The 'split' of {dataset} must be one of {DATASETS[dataset]}. Got {split!r} instead."
        )
    if count < 0:
        raise ValueError(f"The 'count' parameter must be an int in [0, inf). Got {count} instead.")
    stream = stream_split(dataset, split)
    return [next(stream) for _ in range(count)]
