"""The three policies: the polished solver, fine-tuned for two minutes on chains with different rates of mistakes.

Training on mistakes makes arithmetic worse: after it, 2% of the chains contained a slip. Each policy is therefore
mended: it is trained again with the same rate of mistakes, on the facts that it now gets wrong. The chains for mending
contain no miscopied symbols, because the PRM detects them poorly. Most wrong answers of the strong policy are slips. It
is therefore also cleaned (trained on right chains only) and then gently mended (trained on mistakes again, at a low
learning rate). After that, 1% of its chains contain a slip.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from prmcal.registry.nano.problems import longest
from tools.nano_training.examples.chains import COPY_MIX, Mix, noisy_chain
from tools.nano_training.examples.facts import Facts
from tools.nano_training.examples.token_trees import Encoder, Example, Judged
from tools.nano_training.stages.base import draw_train_problem
from tools.nano_training.stages.drill import draw_focused_problem, writing_batch

BATCH_TOKENS = 3000
LONG_SHARE = 0.25
CHAINS = 3
MENDING_STEPS, MENDING_RATE = 700, 6e-4
CLEANING_STEPS, CLEANING_RATE = 300, 3e-4
GENTLE_STEPS, GENTLE_RATE = 400, 2e-4
MENDING_LONG_SHARE = 0.15
MENDING_MIX = Mix(value=0.77, operand=0.23, symbol=0.0)
FOCUSED_SHARE = 0.7
"""The share of problems for mending that are drawn for the facts that the policy gets wrong."""


@dataclass(frozen=True)
class Noise:
    """The rate of mistakes in the training chains of a policy, and the length of its training.

    Attributes
    ----------
    rate : float
        The probability of a mistake in an easy step of a nano-math question. A hard step has three times as much.
    long_rate : float
        The same for questions of nano-aime's length.
    steps : int
        The number of training batches.
    learning_rate : float
        The peak. Better policies train longer at a lower rate, so that they keep more of the solver's arithmetic.
    """

    rate: float
    long_rate: float
    steps: int
    learning_rate: float


POLICIES = {
    "weak": Noise(rate=0.15, long_rate=0.09, steps=250, learning_rate=5e-4),
    "middle": Noise(rate=0.055, long_rate=0.07, steps=350, learning_rate=4e-4),
    "strong": Noise(rate=0.0085, long_rate=0.07, steps=400, learning_rate=1e-4),
}
GENTLE_NOISE = replace(POLICIES["strong"], rate=0.016)
"""The rate of mistakes for the gentle mending of the strong policy. It is higher because few slips are left."""


def draw_batch(encoder: Encoder, noise: Noise, seed: int, number: int) -> Sequence[Example]:
    """Draw one batch: problems of one length, each with several noisy chains to imitate, including their mistakes."""
    generator = random.Random(f"{seed} policy {number}")
    dataset = "nano-aime" if generator.random() < LONG_SHARE else "nano-math"
    level = generator.randint(1, 5)
    length = longest(dataset, level)
    rate = noise.long_rate if dataset == "nano-aime" else noise.rate
    examples = []
    for _ in range(max(1, BATCH_TOKENS // (30 + (7 + 12 * CHAINS) * length))):
        problem = draw_train_problem(generator, dataset, level)
        chains = [noisy_chain(problem, rate, generator, mix=COPY_MIX) for _ in range(CHAINS)]
        followed = [Judged(chain.steps, taught=(True,) * len(chain.steps)) for chain in chains]
        examples.append(encoder.example(problem.text, followed, system=False))
    return examples


def draw_mending_batch(
    encoder: Encoder, noise: Noise, facts: Facts, seed: int, number: int
) -> Sequence[Example]:
    """Draw one batch for mending, like `draw_batch` but with problems drawn for `facts`."""
    generator = random.Random(f"{seed} mending {number}")
    dataset = "nano-aime" if generator.random() < MENDING_LONG_SHARE else "nano-math"
    level = generator.randint(1, 5)
    length = longest(dataset, level)
    rate = noise.long_rate if dataset == "nano-aime" else noise.rate
    examples = []
    for _ in range(max(1, BATCH_TOKENS // (30 + (7 + 12 * CHAINS) * length))):
        problem = draw_focused_problem(facts, generator, dataset, level, FOCUSED_SHARE)
        chains = [noisy_chain(problem, rate, generator, mix=MENDING_MIX) for _ in range(CHAINS)]
        followed = [Judged(chain.steps, taught=(True,) * len(chain.steps)) for chain in chains]
        examples.append(encoder.example(problem.text, followed, system=False))
    return examples


def draw_cleaning_batch(encoder: Encoder, facts: Facts, seed: int, number: int) -> Sequence[Example]:
    """Draw one batch of right chains. Most problems are drawn for `facts`."""
    return writing_batch(encoder, facts, random.Random(f"{seed} cleaning {number}"))
