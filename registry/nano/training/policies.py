"""The three policies: the polished solver, fine-tuned for two minutes on chains with more or fewer mistakes.

Imitating mistakes costs arithmetic: after it 2% of the chains held a slip. So each policy is mended afterwards, on the
same share of mistakes and on what it now gets wrong; no symbol is miscopied any more, for the PRM sees that badly. The
strong policy, of whose wrong answers slips are the largest part, is then cleaned (it writes right chains alone) and
imitates mistakes once more, gently: slips in 1% of its chains are left.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from prmcal.registry.nano.problems import longest
from prmcal.registry.nano.training.base import draw_train_problem
from prmcal.registry.nano.training.chains import COPY_MIX, Mix, noisy_chain
from prmcal.registry.nano.training.drill import dwelling, writing_batch
from prmcal.registry.nano.training.examples import Encoder, Example, Judged
from prmcal.registry.nano.training.facts import Facts

__all__ = [
    "CLEANING_RATE",
    "CLEANING_STEPS",
    "GENTLE_NOISE",
    "GENTLE_RATE",
    "GENTLE_STEPS",
    "MENDING_RATE",
    "MENDING_STEPS",
    "POLICIES",
    "Noise",
    "draw_batch",
    "draw_cleaning_batch",
    "draw_mending_batch",
]

BATCH_TOKENS = 3000
LONG_SHARE = 0.25
CHAINS = 3
MENDING_STEPS, MENDING_RATE = 700, 6e-4
CLEANING_STEPS, CLEANING_RATE = 300, 3e-4
GENTLE_STEPS, GENTLE_RATE = 400, 2e-4
MENDING_LONG_SHARE = 0.15
MENDING_MIX = Mix(value=0.77, operand=0.23, symbol=0.0)
DWELLING = 0.7
"""Share of the mending's problems that dwell on what the policy gets wrong."""


@dataclass(frozen=True)
class Noise:
    """How often a policy's training chains go wrong, and how long it learns from them.

    Attributes
    ----------
    rate : float
        Chance of a mistake in an easy step of a nano-math question; a hard step has three times as much.
    long_rate : float
        The same for questions as long as nano-aime's.
    steps : int
        Training batches.
    learning_rate : float
        Peak. The better policies learn longer and more slowly, to lose less of the solver's arithmetic.
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
"""Of the strong policy's last mending: more copy mistakes, since few slips are left."""


def draw_batch(encoder: Encoder, noise: Noise, seed: int, number: int) -> Sequence[Example]:
    """The examples of one batch: problems of one length, each with a few noisy chains to imitate, mistakes and all."""
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
    """The examples of one batch of the mending: as `draw_batch`, with problems that dwell on `facts`."""
    generator = random.Random(f"{seed} mending {number}")
    dataset = "nano-aime" if generator.random() < MENDING_LONG_SHARE else "nano-math"
    level = generator.randint(1, 5)
    length = longest(dataset, level)
    rate = noise.long_rate if dataset == "nano-aime" else noise.rate
    examples = []
    for _ in range(max(1, BATCH_TOKENS // (30 + (7 + 12 * CHAINS) * length))):
        problem = dwelling(facts, generator, dataset, level, DWELLING)
        chains = [noisy_chain(problem, rate, generator, mix=MENDING_MIX) for _ in range(CHAINS)]
        followed = [Judged(chain.steps, taught=(True,) * len(chain.steps)) for chain in chains]
        examples.append(encoder.example(problem.text, followed, system=False))
    return examples


def draw_cleaning_batch(encoder: Encoder, facts: Facts, seed: int, number: int) -> Sequence[Example]:
    """The examples of one batch of right chains, most of which dwell on `facts`."""
    return writing_batch(encoder, facts, random.Random(f"{seed} cleaning {number}"))
