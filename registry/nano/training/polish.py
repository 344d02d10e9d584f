"""The solver's last lessons, before it becomes a policy: right chains alone, and the sums that it still gets wrong.

What the solver misses are sums whose units add up to ten and carry: too few problems hold one. Half of the problems
here are those of several draws with the most results that end in 0.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from prmcal.registry.nano.problems import Problem, longest
from prmcal.registry.nano.training.base import draw_train_problem
from prmcal.registry.nano.training.chains import right_chain
from prmcal.registry.nano.training.examples import Encoder, Example, Judged

__all__ = ["LEARNING_RATE", "SEED", "STEPS", "draw_batch"]

STEPS, LEARNING_RATE = 900, 5e-4
SEED = 5
"""Added to the run's seed for the batches."""
BATCH_TOKENS = 3000
LONG_SHARE = 0.25
CANDIDATES = 6
"""Draws of which the problem with the most round results is kept, for half of the problems."""


def round_results(problem: Problem) -> int:
    """How many results along the way end in 0."""
    return sum(value % 10 == 0 for value in problem.values()[1:])


def draw_batch(encoder: Encoder, seed: int, number: int) -> Sequence[Example]:
    """The examples of one batch: problems of one length, each with its right chain to write."""
    generator = random.Random(f"{seed} polish {number}")
    dataset = "nano-aime" if generator.random() < LONG_SHARE else "nano-math"
    level = generator.randint(1, 5)
    examples = []
    for _ in range(max(1, BATCH_TOKENS // (30 + 19 * longest(dataset, level)))):
        draws = generator.choice((1, CANDIDATES))
        candidates = [draw_train_problem(generator, dataset, level) for _ in range(draws)]
        problem = max(candidates, key=round_results)
        steps = right_chain(problem).steps
        followed = Judged(steps, taught=(True,) * len(steps))
        examples.append(encoder.example(problem.text, [followed], system=False))
    return examples
