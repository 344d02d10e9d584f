"""The reward models of the second edition: those of the first, which learn the mistakes of the new policies.

A public PRM comes from the same family as the policies that it judges. The trunk therefore learns to write the chains
of the strong policy, with its mistakes, while the head learns from labels. Two PRMs are taught success rates of the
strong policy. The third is taught step labels: 1 for as long as every step is right, 0 from the first mistake on.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prmcal.registry.nano.problems import longest
from tools.nano_training.examples.labels import Labelled
from tools.nano_training.examples.misconceptions import habitual_chain
from tools.nano_training.examples.token_trees import Judged, judged
from tools.nano_training.stages.base import draw_train_problem
from tools.nano_training.stages.drill import draw_shape
from tools.nano_training.stages.habitual import HABITS
from tools.nano_training.stages.reward_model import draw_labelled, labelled_chain

BATCH_TOKENS = 3000
Asked = list[tuple[str, list[Judged]]]
"""The questions of a batch, each with its chains."""


@dataclass(frozen=True)
class Teaching:
    """How one PRM is fine-tuned.

    Attributes
    ----------
    steps : int
        The number of batches.
    learning_rate : float
        The peak.
    labelled, stepwise : float
        The shares of batches with success rates and with step labels. The other batches have chains to write.
    questions : int
        The number of questions with success rates.
    seed : int
        Added to the pipeline's seed to draw the batches.
    """

    steps: int
    learning_rate: float
    labelled: float
    stepwise: float
    questions: int
    seed: int


TEACHINGS: Mapping[str, Teaching] = {}


def first_questions(labels: Sequence[Labelled], count: int) -> list[Labelled]:
    """Return the labels of the first `count` questions."""
    kept = set(list(dict.fromkeys(row.question for row in labels))[:count])
    return [row for row in labels if row.question in kept]


def draw_questions(
    teaching: Teaching, labels: Mapping[int, list[list[Labelled]]], seed: int, number: int
) -> Asked:
    """Draw the questions and chains of one batch."""
    generator = random.Random(f"{seed + teaching.seed} sharing {number}")
    kind = generator.random()
    if kind < teaching.labelled:
        return [
            (rows[0].question, [labelled_chain(row) for row in rows])
            for rows in draw_labelled(labels, generator)
        ]
    return (
        stepwise_chains(generator)
        if kind < teaching.labelled + teaching.stepwise
        else written_chains(generator)
    )


def stepwise_chains(generator: random.Random) -> Asked:
    """Draw a chain of each policy for every question, with step labels. The bare question has no label."""
    dataset, level = draw_shape(generator)
    found = []
    for _ in range(max(1, BATCH_TOKENS // (60 + 45 * longest(dataset, level)))):
        problem = draw_train_problem(generator, dataset, level)
        chains = [habitual_chain(problem, habits, generator) for habits in HABITS.values()]
        found.append((problem.text, [judged(chain, complete=False) for chain in chains]))
    return found


def written_chains(generator: random.Random) -> Asked:
    """Draw a chain of the strong policy for every question, to write."""
    dataset, level = draw_shape(generator)
    found = []
    for _ in range(max(1, BATCH_TOKENS // (50 + 11 * longest(dataset, level)))):
        problem = draw_train_problem(generator, dataset, level)
        steps = habitual_chain(problem, HABITS["strong"], generator).steps
        found.append((problem.text, [Judged(steps, (True,) * len(steps))]))
    return found
