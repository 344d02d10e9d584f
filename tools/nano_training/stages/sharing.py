"""The reward models of the second edition: those of the first, which learn the mistakes of the new policies.

A public PRM comes from the same family as the policies that it judges. The trunk therefore learns to write the chains
of the strong policy, with its mistakes, while the head learns from labels. Two PRMs are taught success rates of the
strong policy. The third is taught step labels: 1 for as long as every step is right, 0 from the first mistake on. One
PRM is also taught to detect slips, the wrong results that are no misconceptions: best-of-n finds them when n is large.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from prmcal.registry.nano.problems import Operation, Problem, longest, render_step
from tools.nano_training.examples.chains import Mix, noisy_chain
from tools.nano_training.examples.labels import Labelled
from tools.nano_training.examples.misconceptions import habitual_chain, misconceived
from tools.nano_training.examples.token_trees import Judged, judged
from tools.nano_training.stages.base import draw_train_problem
from tools.nano_training.stages.drill import draw_shape, marked_right
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
    labelled, stepwise, slipped : float
        The shares of batches with success rates, with step labels, and with slips. The others have chains to write.
    seed : int
        Added to the pipeline's seed to draw the batches.
    """

    steps: int
    learning_rate: float
    labelled: float
    stepwise: float
    slipped: float
    seed: int


TEACHINGS = {
    "prm": Teaching(steps=300, learning_rate=4e-4, labelled=0.4, stepwise=0.0, slipped=0.3, seed=1),
    "shepherd": Teaching(steps=250, learning_rate=4e-4, labelled=0.6, stepwise=0.0, slipped=0.0, seed=2),
    "reasoneval": Teaching(steps=250, learning_rate=4e-4, labelled=0.0, stepwise=0.7, slipped=0.0, seed=3),
}
QUESTIONS = 320
"""The number of questions with success rates."""
SLIP_MIX = Mix(value=0.1, operand=0.1, symbol=0.1, near=0.4)
SLIPPED_CHAINS = 6


def draw_questions(
    teaching: Teaching, labels: dict[int, list[list[Labelled]]], seed: int, number: int
) -> Asked:
    """Draw the questions and chains of one batch."""
    generator = random.Random(f"{seed + teaching.seed} sharing {number}")
    kind = generator.random()
    if kind < teaching.labelled:
        return [
            (rows[0].question, [labelled_chain(row) for row in rows])
            for rows in draw_labelled(labels, generator)
        ]
    kind -= teaching.labelled
    if kind < teaching.stepwise:
        return stepwise_chains(generator)
    slipped = kind < teaching.stepwise + teaching.slipped
    return slipped_chains(generator) if slipped else written_chains(generator)


def stepwise_chains(generator: random.Random) -> Asked:
    """Draw a chain of each policy for every question, with step labels. The bare question has no label."""
    dataset, level = draw_shape(generator)
    found = []
    for _ in range(max(1, BATCH_TOKENS // (60 + 45 * longest(dataset, level)))):
        problem = draw_train_problem(generator, dataset, level)
        chains = [habitual_chain(problem, habits, generator) for habits in HABITS.values()]
        found.append((problem.text, [judged(chain, complete=False) for chain in chains]))
    return found


def slipped_chains(generator: random.Random) -> Asked:
    """Draw wrong chains for every question, marked 0 from their slip on, and the right chain, marked 1 at its end.

    The slips are random wrong results and miscopied numbers. None of them is a misconception.
    """
    dataset, level = draw_shape(generator)
    found = []
    for _ in range(max(1, BATCH_TOKENS // (60 + 40 * longest(dataset, level)))):
        problem = draw_train_problem(generator, dataset, level)
        chains = [marked_right(problem, None)]
        values = problem.values()
        for _ in range(SLIPPED_CHAINS):
            place = slip_place(generator, problem)
            chain = noisy_chain(problem, 0.0, generator, place, SLIP_MIX)
            result = misconceived(values[place], problem.operations[place])
            usual = render_step(
                place, values[place], problem.operations[place], result, place == len(values) - 2
            )
            if chain.steps[place] == usual or chain.steps[-1] == chains[0].steps[-1]:
                continue
            marks = dict.fromkeys(range(place + 1, len(chain.steps) + 1), 0.0)
            chains.append(Judged(chain.steps, (False,) * len(chain.steps), marks, complete=False))
        found.append((problem.text, chains))
    return found


def slip_place(generator: random.Random, problem: Problem) -> int:
    """Draw the step with the slip. Half of the time it is a multiplication by 3, if there is one."""
    triples = [index for index, each in enumerate(problem.operations) if each == Operation("*", 3)]
    if triples and generator.random() < 0.5:
        return generator.choice(triples)
    return generator.randrange(len(problem.operations))


def written_chains(generator: random.Random) -> Asked:
    """Draw a chain of the strong policy for every question, to write."""
    dataset, level = draw_shape(generator)
    found = []
    for _ in range(max(1, BATCH_TOKENS // (50 + 11 * longest(dataset, level)))):
        problem = draw_train_problem(generator, dataset, level)
        steps = habitual_chain(problem, HABITS["strong"], generator).steps
        found.append((problem.text, [Judged(steps, (True,) * len(steps))]))
    return found
