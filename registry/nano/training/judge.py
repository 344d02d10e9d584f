"""The judge: two more layers on the base model that learn to see mistakes in chains."""

from __future__ import annotations

import random
from collections.abc import Sequence

from registry.nano.problems import AIME_LENGTHS, LENGTHS
from registry.nano.training.base import draw_train_problem
from registry.nano.training.chains import noisy_chain, right_chain
from registry.nano.training.examples import Encoder, Example, judged

__all__ = ["draw_batch"]

BATCH_TOKENS = 3000
LONG_SHARE = 0.15
WRONG_CHAINS = 3


def draw_batch(encoder: Encoder, seed: int, number: int) -> Sequence[Example]:
    """The examples of one batch: problems of one length, each with its right chain and three wrong ones."""
    generator = random.Random(f"{seed} judge {number}")
    dataset = "nano-aime" if generator.random() < LONG_SHARE else "nano-math"
    level = generator.randint(1, 5)
    length = max(AIME_LENGTHS) if dataset == "nano-aime" else LENGTHS[level]
    examples = []
    for _ in range(max(1, BATCH_TOKENS // (50 + 40 * length))):
        problem = draw_train_problem(generator, dataset, level)
        chains = [judged(right_chain(problem), complete=False)]
        for _ in range(WRONG_CHAINS):
            forced = generator.randrange(len(problem.operations))
            chain = noisy_chain(problem, 0.04, generator, forced)
            stop = len(chain.steps) if generator.random() < 0.5 else forced + generator.randint(1, 3)
            chains.append(judged(chain.cut(stop), complete=False))
        examples.append(encoder.example(problem.text, chains, system=True))
    return examples
