r"""The nano problems: chains of two-digit arithmetic, with step-by-step solutions.

A question gives a start number and lettered instructions. Its solution has one step per instruction, labelled with
the same letter. The last step has the answer in a box:

    Start with 37 and keep two digits. a) add 15, b) subtract 8, c) multiply by 3.

    a) 37+15=52

    b) 52-8=44

    c) 44*3=\boxed{32}

All intermediate values are computed modulo 100 and written with two digits (07, not 7). Two data sets have this form:

- nano-math has 2, 3, 5, 7 and 9 instructions at levels 1 to 5. Higher levels have more hard instructions.
- nano-aime has 11 to 13 instructions. Nearly all are hard, and all questions have level 5.

An easy instruction adds or subtracts one digit. A hard instruction adds or subtracts a number from 11 to 19, or
multiplies by 2 or 3. A hash of the question's text determines its split, so the splits are disjoint for all seeds and
counts.
"""

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from prmcal.errors import DataError
from prmcal.registry.contracts.data import Question
from prmcal.registry.contracts.dataset import Dataset
from prmcal.registry.datasets.jsonl import first_questions
from prmcal.registry.grading import Grading

MODULUS = 100
LABELS = "abcdefghijklmnopqrstuvwxyz"
LENGTHS = {1: 2, 2: 3, 3: 5, 4: 7, 5: 9}
"""The number of instructions of a nano-math question, by level."""
HARD_SHARES = {1: 0.1, 2: 0.2, 3: 0.35, 4: 0.5, 5: 0.6}
"""The probability that an instruction of a nano-math question is hard, by level."""
AIME_LENGTHS = (11, 12, 13)
AIME_HARD_SHARE = 0.95
AIME_LEVEL = 5
MULTIPLICATION_SHARE = 0.25
"""The share of multiplications among hard instructions."""
DATASETS = {"nano-math": ("train", "calibration", "test"), "nano-aime": ("train", "test")}
"""The splits of each data set. The train split of nano-aime has no Monte Carlo labels."""
SPLITS = {"train": range(0, 6), "calibration": range(6, 8), "test": range(8, 10)}
"""The values of the hash modulo 10 that belong to each split."""
OPENINGS = ("Start with {start} and keep two digits.", "Begin at {start}, keeping two digits.")
WORDS = {"+": "add", "-": "subtract", "*": "multiply by"}


@dataclass(frozen=True)
class Operation:
    """One instruction: a symbol (`+`, `-` or `*`) and its operand."""

    symbol: str
    operand: int

    @property
    def hard(self) -> bool:
        """True if the instruction multiplies or has an operand with two digits."""
        return self.symbol == "*" or self.operand > 9

    def apply(self, value: int) -> int:
        """Return the result modulo 100."""
        if self.symbol == "+":
            return (value + self.operand) % MODULUS
        if self.symbol == "-":
            return (value - self.operand) % MODULUS
        return value * self.operand % MODULUS


@dataclass(frozen=True)
class Problem:
    """A question with its answer."""

    id: str
    """The data set and a hash of the text. The same text always has the same id."""
    text: str
    """The question."""
    answer: str
    """Two digits, as written in the box."""
    level: int
    """1 to 5. It is always 5 in nano-aime."""
    subject: str
    """`"products"` if an instruction multiplies, else `"sums"`."""
    start: int
    """The start number, 0 to 99."""
    operations: tuple[Operation, ...]
    """One per instruction."""

    def values(self) -> list[int]:
        """Return the start and the result of each operation (one more value than operations)."""
        values = [self.start]
        for operation in self.operations:
            values.append(operation.apply(values[-1]))
        return values


def render_step(index: int, value_before: int, operation: Operation, value_after: int, is_last: bool) -> str:
    """Format one step of a solution, right or wrong: `b) 52-8=44`. The last step has its result in a box."""
    result_text = f"\\boxed{{{value_after:02d}}}" if is_last else f"{value_after:02d}"
    return f"{LABELS[index]}) {value_before:02d}{operation.symbol}{operation.operand}={result_text}"


def longest(dataset: str, level: int) -> int:
    """Return the largest number of instructions of a question at a level."""
    return LENGTHS[level] if dataset == "nano-math" else max(AIME_LENGTHS)


def solution_steps(problem: Problem) -> list[str]:
    """Return the right solution, one string per step. A policy writes the steps with blank lines between them."""
    values = problem.values()
    last_index = len(problem.operations) - 1
    return [
        render_step(index, values[index], operation, values[index + 1], index == last_index)
        for index, operation in enumerate(problem.operations)
    ]


def split_of(text: str) -> str:
    """Return the split of a question. Only the hash of its text determines the split."""
    tenth = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % 10
    return next(split for split, tenths in SPLITS.items() if tenth in tenths)


def draw_operation(generator: random.Random, hard_share: float) -> Operation:
    """Draw a random instruction, which is hard with probability `hard_share`."""
    if generator.random() >= hard_share:
        return Operation(generator.choice("+-"), generator.randint(1, 9))
    if generator.random() < MULTIPLICATION_SHARE:
        return Operation("*", generator.randint(2, 3))
    return Operation(generator.choice("+-"), generator.randint(11, 19))


def make_problem(dataset: str, level: int, start: int, operations: tuple[Operation, ...], opening: int) -> Problem:
    """Build the problem with the given instructions, and compute its text, answer and id."""
    labelled = zip(LABELS, operations, strict=False)
    instructions = ", ".join(f"{label}) {WORDS[step.symbol]} {step.operand}" for label, step in labelled)
    text = f"{OPENINGS[opening].format(start=f'{start:02d}')} {instructions}."
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
    """Draw a random problem of `"nano-math"` or `"nano-aime"`. The problem can be in any split.

    The level is from 1 to 5. nano-aime ignores it.
    """
    if dataset == "nano-math":
        length, hard_share = LENGTHS[level], HARD_SHARES[level]
    else:
        length, hard_share, level = generator.choice(AIME_LENGTHS), AIME_HARD_SHARE, AIME_LEVEL
    start = generator.randrange(MODULUS)
    operations = tuple(draw_operation(generator, hard_share) for _ in range(length))
    return make_problem(dataset, level, start, operations, generator.randrange(len(OPENINGS)))


def stream_split(dataset: str, split: str) -> Iterator[Problem]:
    """Yield the problems of a split in a fixed order, without repeats and without an end. Levels alternate."""
    generator = random.Random(f"prmcal {dataset} {split}")
    texts: set[str] = set()
    level = 0
    while True:
        problem = draw_problem(generator, dataset, level % 5 + 1)
        if problem.text in texts or split_of(problem.text) != split:
            continue
        texts.add(problem.text)
        level += 1
        yield problem


def generate_split(dataset: str, split: str, count: int) -> list[Problem]:
    """Return the first problems of a split. A smaller count returns a prefix of the list for a larger count.

    The data set is `"nano-math"` or `"nano-aime"`, and the split `"train"`, `"calibration"` or `"test"`. nano-aime has
    no calibration split. Levels 1 to 5 alternate in nano-math.
    """
    stream = stream_split(dataset, split)
    return [next(stream) for _ in range(count)]


class _NanoDataset(Dataset):
    """Generated problems. A hash of each question's text determines its split, so the splits are disjoint."""

    generator_name: ClassVar[str]
    sizes: ClassVar[dict[str, int]]
    """The number of questions per split. The generator itself has no limit."""
    grading: Grading = "plain"

    def questions(self, split: str, count: int | None = None) -> list[Question]:
        """Generate the first `count` questions of a split; see :meth:`prmcal.Dataset.questions`."""
        if split not in self.sizes:
            raise DataError(f"{self.generator_name} has no split '{split}'. It has: {', '.join(self.splits)}.")
        size = self.sizes[split]
        questions = [
            Question(problem.id, problem.text, problem.answer, problem.level, problem.subject)
            for problem in generate_split(self.generator_name, split, min(count or size, size))
        ]
        return first_questions(questions, count, f"The {split} split of {self.generator_name}")


class NanoMath(_NanoDataset):
    """Chains of 2 to 9 operations at levels 1 to 5: the problems that the nano models are trained for."""

    generator_name = "nano-math"
    sizes: ClassVar[dict[str, int]] = {"train": 20_000, "calibration": 2_000, "test": 1_000}
    splits = tuple(sizes)


class NanoAIME(_NanoDataset):
    """Chains of 11 to 13 mostly hard operations, all of level 5. The nano PRMs never saw labels of these."""

    generator_name = "nano-aime"
    sizes: ClassVar[dict[str, int]] = {"train": 5_000, "test": 1_000}
    splits = tuple(sizes)
