"""The last training of the solver before it becomes a policy: right chains only, with sums that it still gets wrong.

The solver fails on sums whose units add up to ten, because few problems contain one. For half of the problems, several
candidates are drawn and the one with the most results that end in 0 is kept.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from prmcal.registry.nano.problems import Problem, longest
from tools.nano_training.examples.chains import right_chain
from tools.nano_training.examples.token_trees import Encoder, Example, Judged
from tools.nano_training.stages.base import draw_train_problem

STEPS, LEARNING_RATE = 900, 5e-4
SEED = 5
"""Added to the pipeline's seed to draw the batches."""
BATCH_TOKENS = 3000
LONG_SHARE = 0.25
CANDIDATES = 6
"""The number of candidates for half of the problems. The candidate with the most round results is kept."""


def round_results(problem: Problem) -> int:
    """Count the results of a problem that end in 0."""
    return sum(value % 10 == 0 for value in problem.values()[1:])


def draw_batch(encoder: Encoder, seed: int, number: int) -> Sequence[Example]:
    """Draw one batch: problems of one length, each with its right chain to write."""
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
