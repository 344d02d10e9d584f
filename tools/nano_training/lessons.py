"""The batches of the base models and of the policies.

The base models learn to solve problems and to judge chains with injected mistakes at the same time, before any Monte
Carlo labels exist. The policies then imitate chains with systematic mistakes.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from prmcal.registry.nano.problems import Problem, draw_problem, longest, split_of
from tools.nano_training.chains import SLIP_MIX, TAUGHT_MIX, Mix, noisy_chain, right_chain
from tools.nano_training.misconceptions import Habits, habitual_chain
from tools.nano_training.token_trees import Encoder, Example, Judged, judged

BATCH_TOKENS = 3000
LONG_SHARE, LONG_SHARE_OF_POLICIES = 0.2, 0.25
"""The shares of batches with problems of nano-aime's length."""
POLICY_STEPS, POLICY_RATE, POLICY_CHAINS = 650, 4e-4, 3


@dataclass(frozen=True)
class Cycle:
    """One training run of a base model, with a warm-up and a cosine decay of the learning rate.

    Attributes
    ----------
    name : str
        The name of the trained model.
    source : str or None
        The cycle whose model is the start. None means random weights.
    seed : int
        Added to the pipeline's seed to draw the batches.
    steps : int
        The number of batches.
    learning_rate : float
        The peak. Later cycles have a lower peak, because at the rate of the first one the model forgets.
    hint_weight : float
        The weight of the judge's loss at tokens with hints.
    new_layers : int
        The number of layers to add on top.
    mix : Mix
        The shares of the kinds of mistakes in the wrong chains.
    first_mistakes : bool
        Whether only the first wrong token of a chain has a hint, right and wrong hints have the same total weight, and
        the language model also learns to write steps with mistakes.
    """

    name: str
    source: str | None
    seed: int
    steps: int
    learning_rate: float
    hint_weight: float = 0.0
    new_layers: int = 0
    mix: Mix = TAUGHT_MIX
    first_mistakes: bool = False


CYCLES = (
    Cycle("base", None, 0, 3000, 2e-3),
    Cycle("base-again", "base", 1, 2000, 1e-3, hint_weight=0.5),
    Cycle("solver", "base-again", 3, 1200, 6e-4),
    Cycle("verifier", "base-again", 2, 1500, 8e-4, hint_weight=1.0, new_layers=2, mix=SLIP_MIX),
    Cycle("verifier-again", "verifier", 4, 1200, 8e-4, hint_weight=1.0, mix=SLIP_MIX, first_mistakes=True),
)


def draw_train_problem(generator: random.Random, dataset: str, level: int) -> Problem:
    """Draw a random problem from the train split of a data set."""
    while True:
        problem = draw_problem(generator, dataset, level)
        if split_of(problem.text) == "train":
            return problem


def draw_batch(encoder: Encoder, cycle: Cycle, seed: int, number: int) -> Sequence[Example]:
    """Draw one batch of a cycle: problems of one length, each with its right chain and two wrong chains."""
    generator = random.Random(f"{seed + cycle.seed} base {number}")
    dataset = "nano-aime" if generator.random() < LONG_SHARE else "nano-math"
    level = generator.randint(1, 5)
    examples = []
    for _ in range(max(1, BATCH_TOKENS // (50 + 32 * longest(dataset, level)))):
        problem = draw_train_problem(generator, dataset, level)
        chains = [judged(right_chain(problem), complete=True)]
        for _ in range(2):
            forced = generator.randrange(len(problem.operations))
            chain = noisy_chain(problem, 0.02, generator, forced, cycle.mix)
            stop = len(chain.steps) if generator.random() < 0.4 else forced + generator.randint(1, 3)
            complete = stop >= len(chain.steps)
            chains.append(judged(chain.cut(stop), complete, teach_wrong=cycle.first_mistakes))
        system = generator.random() < 0.5
        examples.append(encoder.example(problem.text, chains, system, first_only=cycle.first_mistakes))
    return examples


def draw_habits(encoder: Encoder, habits: Habits, seed: int, number: int) -> Sequence[Example]:
    """Draw one batch of a policy: problems of one length, each with chains to imitate, including their mistakes."""
    generator = random.Random(f"{seed} habits {number}")
    dataset = "nano-aime" if generator.random() < LONG_SHARE_OF_POLICIES else "nano-math"
    level = generator.randint(1, 5)
    examples = []
    for _ in range(max(1, BATCH_TOKENS // (30 + (7 + 12 * POLICY_CHAINS) * longest(dataset, level)))):
        problem = draw_train_problem(generator, dataset, level)
        chains = [habitual_chain(problem, habits, generator) for _ in range(POLICY_CHAINS)]
        imitated = [Judged(chain.steps, taught=(True,) * len(chain.steps)) for chain in chains]
        examples.append(encoder.example(problem.text, imitated, system=False))
    return examples
