"""The base model, which learns to solve problems and to judge chains with injected mistakes at the same time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from prmcal.registry.nano.problems import Problem, draw_problem, longest, split_of
from tools.nano_training.examples.chains import TAUGHT_MIX, Mix, noisy_chain, right_chain
from tools.nano_training.examples.token_trees import Encoder, Example, judged

LONG_SHARE = 0.2
"""The share of batches with problems of nano-aime's length."""
BATCH_TOKENS = 3000


def draw_train_problem(generator: random.Random, dataset: str, level: int) -> Problem:
    """Draw a random problem from the train split of a data set."""
    while True:
        problem = draw_problem(generator, dataset, level)
        if split_of(problem.text) == "train":
            return problem


@dataclass(frozen=True)
class Lesson:
    """The settings for the batches of one cycle.

    Attributes
    ----------
    mix : Mix
        The shares of the kinds of mistakes in the wrong chains.
    teach_wrong : bool
        Whether the language model also learns to write steps with mistakes.
    first_only : bool
        Whether only the first wrong token of a chain has a hint, and the tokens after it have none.
    """

    mix: Mix = TAUGHT_MIX
    teach_wrong: bool = False
    first_only: bool = False


def draw_batch(
    encoder: Encoder,
    seed: int,
    number: int,
    lesson: Lesson = Lesson(),
) -> Sequence[Example]:
    """Draw one batch: problems of one length, each with its right chain and two wrong chains."""
    generator = random.Random(f"{seed} base {number}")
    dataset = "nano-aime" if generator.random() < LONG_SHARE else "nano-math"
    level = generator.randint(1, 5)
    tokens_per_example = 50 + 32 * longest(dataset, level)
    examples = []
    for _ in range(max(1, BATCH_TOKENS // tokens_per_example)):
        problem = draw_train_problem(generator, dataset, level)
        chains = [judged(right_chain(problem), complete=True)]
        for _ in range(2):
            forced = generator.randrange(len(problem.operations))
            chain = noisy_chain(problem, 0.02, generator, forced, lesson.mix)
            stop = len(chain.steps) if generator.random() < 0.4 else forced + generator.randint(1, 3)
            chains.append(
                judged(chain.cut(stop), complete=stop >= len(chain.steps), teach_wrong=lesson.teach_wrong)
            )
        examples.append(
            encoder.example(
                problem.text, chains, system=generator.random() < 0.5, first_only=lesson.first_only
            )
        )
    return examples
