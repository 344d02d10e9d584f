"""The policies of the second edition: the strong policy of the first, fine-tuned on chains with systematic mistakes.

The three policies share their misconceptions and differ in how often each of them decides a step. A step that the weak
policy nearly always gets wrong makes a question hopeless for it, and most of its wrong answers are then equal.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from prmcal.registry.nano.problems import longest
from tools.nano_training.examples.misconceptions import Habits, habitual_chain
from tools.nano_training.examples.token_trees import Encoder, Example, Judged
from tools.nano_training.stages.base import draw_train_problem

STEPS, LEARNING_RATE = 650, 4e-4
BATCH_TOKENS = 3000
LONG_SHARE = 0.25
CHAINS = 3
HABITS = {
    "weak": Habits((0.08, 0.15, 0.60, 0.99), tripling=0.80, miscopied=0.010),
    "middle": Habits((0.02, 0.04, 0.18, 0.95), tripling=0.40, miscopied=0.005),
    "strong": Habits((0.004, 0.01, 0.05, 0.45), tripling=0.08, miscopied=0.001),
}


def draw_batch(encoder: Encoder, habits: Habits, seed: int, number: int) -> Sequence[Example]:
    """Draw one batch: problems of one length, each with several chains to imitate, including their mistakes."""
    generator = random.Random(f"{seed} habits {number}")
    dataset = "nano-aime" if generator.random() < LONG_SHARE else "nano-math"
    level = generator.randint(1, 5)
    examples = []
    for _ in range(max(1, BATCH_TOKENS // (30 + (7 + 12 * CHAINS) * longest(dataset, level)))):
        problem = draw_train_problem(generator, dataset, level)
        chains = [habitual_chain(problem, habits, generator) for _ in range(CHAINS)]
        followed = [Judged(chain.steps, taught=(True,) * len(chain.steps)) for chain in chains]
        examples.append(encoder.example(problem.text, followed, system=False))
    return examples
