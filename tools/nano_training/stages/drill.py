"""The drill: the verifier learns arithmetic and near misses, on the steps that it gets wrong, until it detects slips.

A verifier can detect a wrong result only if it knows the right one. The language model on the trunk of the first
reward model got 3.6% of the single steps wrong, so that it could not distinguish slips of a policy from right steps. In
the drill the model learns to write right chains, most of them with steps that it still gets wrong. It also learns to
judge: each step of a right chain has several wrong variants, and each variant is a short branch of the same tree. At
the start most batches are for writing, at the end most are for judging.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from prmcal.registry.nano.problems import (
    AIME_LEVEL,
    MODULUS,
    Operation,
    Problem,
    longest,
    render_step,
    solution_steps,
)
from tools.nano_training.examples.chains import Mix, noisy_chain, other_digit, other_operand
from tools.nano_training.examples.facts import Facts
from tools.nano_training.examples.token_trees import Encoder, Example, Judged
from tools.nano_training.stages.base import draw_train_problem

STEPS, LEARNING_RATE = 1500, 8e-4
BATCH_TOKENS = 3000
LONG_SHARE = 0.2
"""The share of batches with problems of nano-aime's length. Without them the model gets worse on long chains."""
SLIPS = 4
"""The number of wrong results to draw for each step. A draw that equals the right result is dropped."""
REMEMBERED_CHAINS = 7
REMEMBERED_MIX = Mix(value=0.15, operand=0.1, symbol=0.1, near=0.5)
WHOLE_CHAINS = 3
WHOLE_MIX = Mix(value=0.3, operand=0.2, symbol=0.15, near=0.5)
"""The mistakes of the complete wrong chains. About a third are slips."""


def wrong_results(generator: random.Random, value: int, operation: Operation) -> list[int]:
    """Draw wrong results of a step: close to the right one, with a wrong digit, or of another operation."""
    right = operation.apply(value)
    found = []
    for _ in range(SLIPS):
        kind = generator.random()
        if kind < 0.55:
            found.append((right + generator.choice((-10, 10, 10, 10, -1, 1, -2, 2, -20))) % MODULUS)
        elif kind < 0.8:
            found.append(other_digit(generator, right))
        else:
            found.append(swapped(operation).apply(value))
    return [result for result in found if result != right]


def swapped(operation: Operation) -> Operation:
    """Swap + and -, or the factors 2 and 3."""
    if operation.symbol == "*":
        return Operation("*", 5 - operation.operand)
    return Operation("-" if operation.symbol == "+" else "+", operation.operand)


def wrong_steps(generator: random.Random, problem: Problem, index: int) -> list[str]:
    """Return wrong variants of one step of the right chain: slips, and at random copy mistakes of each kind."""
    value, operation = problem.values()[index], problem.operations[index]
    last = index == len(problem.operations) - 1
    made = {
        render_step(index, value, operation, result, last)
        for result in wrong_results(generator, value, operation)
    }
    twins = [(value, swapped(operation))] if operation.symbol != "*" else []
    if generator.random() < 0.4:
        twins.append((value, other_operand(generator, operation)))
    if generator.random() < 0.4:
        twins.append((other_digit(generator, value), operation))
    made |= {render_step(index, left, other, other.apply(left), last) for left, other in twins}
    return sorted(made)


def marked_right(problem: Problem, first: int | None) -> Judged:
    """Return the right chain, marked 1 after each step from the `first`-th on. None marks only the end."""
    right = tuple(solution_steps(problem))
    begin = len(right) if first is None else first
    return Judged(right, (True,) * len(right), dict.fromkeys(range(begin, len(right) + 1), 1.0))


def dense_chains(generator: random.Random, problem: Problem, first_mark: int | None) -> list[Judged]:
    """Return the right chain, chains that end with a wrong variant of each step, and complete wrong chains.

    Wrong chains are marked 0 from their mistake on. The right chain has the marks of `marked_right`.
    """
    chains = [marked_right(problem, first_mark)]
    right = chains[0].steps
    for index in range(len(right)):
        for wrong in wrong_steps(generator, problem, index):
            steps = (*right[:index], wrong)
            chains.append(Judged(steps, (False,) * len(steps), {len(steps): 0.0}, complete=False))
    for _ in range(WHOLE_CHAINS):
        noisy = noisy_chain(problem, 0.02, generator, generator.randrange(len(right)), WHOLE_MIX)
        first = noisy.wrong.index(True)
        marks = dict.fromkeys(range(first + 1, len(right) + 1), 0.0)
        if noisy.steps[-1].endswith(f"\\boxed{{{problem.answer}}}"):
            del marks[len(right)]  # Two mistakes cancel each other, so that no mark is right.
        chains.append(Judged(noisy.steps, (False,) * len(right), marks, complete=False))
    return chains


def remembered_chains(generator: random.Random, problem: Problem, first_mark: int | None) -> list[Judged]:
    """Return the right chain (see `marked_right`), and chains with one mistake, marked 0 from the mistake to the end.

    A verifier trained only on chains that end at their mistake forgets the mistake two steps later.
    """
    chains = [marked_right(problem, first_mark)]
    right = chains[0].steps
    for _ in range(REMEMBERED_CHAINS):
        first = generator.randrange(len(right))
        wrong = noisy_chain(problem, 0.0, generator, first, REMEMBERED_MIX)
        marks = dict.fromkeys(range(first + 1, len(right) + 1), 0.0)
        if wrong.steps[-1].endswith(f"\\boxed{{{problem.answer}}}"):
            del marks[len(right)]
        chains.append(Judged(wrong.steps, (False,) * len(right), marks, complete=False))
    return chains


def writing_batch(encoder: Encoder, facts: Facts, generator: random.Random) -> Sequence[Example]:
    """Draw right chains to write. Three of four problems are drawn for the facts that the model gets wrong."""
    dataset, level = draw_shape(generator)
    examples = []
    for _ in range(max(1, BATCH_TOKENS // (50 + 11 * longest(dataset, level)))):
        problem = draw_focused_problem(facts, generator, dataset, level, 0.75)
        steps = tuple(solution_steps(problem))
        chain = Judged(steps, taught=(True,) * len(steps))
        examples.append(encoder.example(problem.text, [chain], system=generator.random() < 0.8, hinted=False))
    return examples


def draw_shape(generator: random.Random) -> tuple[str, int]:
    """Draw the data set and the level of a batch. Harder levels are more likely, and some batches have long chains."""
    if generator.random() < LONG_SHARE:
        return "nano-aime", AIME_LEVEL
    return "nano-math", generator.choice((1, 2, 3, 4, 4, 5, 5))


def draw_focused_problem(
    facts: Facts, generator: random.Random, dataset: str, level: int, share: float
) -> Problem:
    """Draw a train problem. With probability `share` it has many facts that the model gets wrong."""
    if generator.random() < share:
        return facts.draw(generator, dataset, level)
    return draw_train_problem(generator, dataset, level)


def draw_batch(encoder: Encoder, facts: Facts, seed: int, number: int, steps: int) -> Sequence[Example]:
    """Draw one batch of `steps`: right chains to write, or chains to judge."""
    generator = random.Random(f"{seed} drill {number}")
    if generator.random() < 0.8 - 0.6 * number / steps:
        return writing_batch(encoder, facts, generator)
    dataset, level = draw_shape(generator)
    examples = []
    for _ in range(max(1, BATCH_TOKENS // (60 + 40 * longest(dataset, level)))):
        problem = draw_focused_problem(facts, generator, dataset, level, 0.6)
        examples.append(
            encoder.example(
                problem.text, dense_chains(generator, problem, first_mark=1), system=True, first_only=True
            )
        )
    return examples
