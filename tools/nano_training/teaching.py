"""The batches of the PRMs, which start from the verifier and learn the mistakes of the policies.

A public PRM comes from the same family as the policies that it judges. The trunk therefore learns to write the chains
of the strong policy, with its mistakes, while the head learns from labels. Two PRMs are taught success rates of the
strong policy. The third is taught step labels: 1 for as long as every step is right, 0 from the first mistake on. One
PRM is also taught to detect slips, the wrong results that are no misconceptions: best-of-n finds them when n is large.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from prmcal.registry.nano.problems import AIME_LEVEL, Operation, Problem, longest, render_step, solution_steps
from tools.nano_training.chains import PRM_SLIP_MIX, noisy_chain
from tools.nano_training.labels import LabelledSteps
from tools.nano_training.lessons import BATCH_TOKENS, LONG_SHARE, draw_train_problem
from tools.nano_training.misconceptions import HABITS, habitual_chain, misconceived
from tools.nano_training.token_trees import Judged, judged

Batch = list[tuple[str, list[Judged]]]
"""The questions of a batch, each with its chains."""


@dataclass(frozen=True)
class Teaching:
    """How one PRM is trained.

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
    "prm": Teaching(steps=900, learning_rate=4e-4, labelled=0.4, stepwise=0.0, slipped=0.3, seed=1),
    "shepherd": Teaching(steps=1200, learning_rate=6e-4, labelled=0.6, stepwise=0.0, slipped=0.0, seed=2),
    "reasoneval": Teaching(steps=1200, learning_rate=6e-4, labelled=0.0, stepwise=0.7, slipped=0.0, seed=3),
}
"""The heads of the last two are new, so that they train longer."""
SLIPPED_CHAINS = 6


def draw_questions(teaching: Teaching, labels: dict[int, list[list[LabelledSteps]]], seed: int, number: int) -> Batch:
    """Draw the questions and chains of one batch. `labels` is what `labels_by_length` returns."""
    generator = random.Random(f"{seed + teaching.seed} sharing {number}")
    kind = generator.random()
    if kind < teaching.labelled:
        return labelled_chains(labels, generator)
    kind -= teaching.labelled
    if kind < teaching.stepwise:
        return stepwise_chains(generator)
    slipped = kind < teaching.stepwise + teaching.slipped
    return slipped_chains(generator) if slipped else written_chains(generator)


def draw_shape(generator: random.Random) -> tuple[str, int]:
    """Draw the data set and the level of a batch. Harder levels are more likely, and some batches have long chains."""
    if generator.random() < LONG_SHARE:
        return "nano-aime", AIME_LEVEL
    return "nano-math", generator.choice((1, 2, 3, 4, 4, 5, 5))


def labelled_chains(labels: dict[int, list[list[LabelledSteps]]], generator: random.Random) -> Batch:
    """Draw questions of one length with all their trajectories, each prefix marked with its success rate."""
    length = generator.choice(sorted(labels))
    count = max(1, BATCH_TOKENS // (50 + 45 * length))
    batch = []
    for rows in generator.sample(labels[length], min(count, len(labels[length]))):
        chains = []
        for row in rows:
            scores = {steps: success / row.follow_ups for steps, success in enumerate(row.successes)}
            chains.append(Judged(tuple(row.steps), (False,) * len(row.steps), scores, complete=False))
        batch.append((rows[0].question, chains))
    return batch


def stepwise_chains(generator: random.Random) -> Batch:
    """Draw a chain of each policy for every question, with step labels. The bare question has no label."""
    dataset, level = draw_shape(generator)
    batch = []
    for _ in range(max(1, BATCH_TOKENS // (60 + 45 * longest(dataset, level)))):
        problem = draw_train_problem(generator, dataset, level)
        chains = [habitual_chain(problem, habits, generator) for habits in HABITS.values()]
        batch.append((problem.text, [judged(chain, complete=False) for chain in chains]))
    return batch


def slipped_chains(generator: random.Random) -> Batch:
    """Draw wrong chains for every question, marked 0 from their slip on, and the right chain, marked 1 at its end.

    The slips are random wrong results and miscopied numbers. None of them is a misconception.
    """
    dataset, level = draw_shape(generator)
    batch = []
    for _ in range(max(1, BATCH_TOKENS // (60 + 40 * longest(dataset, level)))):
        problem = draw_train_problem(generator, dataset, level)
        right_steps = tuple(solution_steps(problem))
        chains = [Judged(right_steps, (True,) * len(right_steps), {len(right_steps): 1.0})]
        values = problem.values()
        for _ in range(SLIPPED_CHAINS):
            slip = slip_step(generator, problem)
            chain = noisy_chain(problem, 0.0, generator, slip, PRM_SLIP_MIX)
            outcome = misconceived(values[slip], problem.operations[slip])
            usual = render_step(slip, values[slip], problem.operations[slip], outcome, slip == len(values) - 2)
            if chain.steps[slip] == usual or chain.steps[-1] == right_steps[-1]:
                continue
            marks = dict.fromkeys(range(slip + 1, len(chain.steps) + 1), 0.0)
            chains.append(Judged(chain.steps, (False,) * len(chain.steps), marks, complete=False))
        batch.append((problem.text, chains))
    return batch


def slip_step(generator: random.Random, problem: Problem) -> int:
    """Draw the step with the slip. Half of the time it is a multiplication by 3, if there is one."""
    triples = [index for index, operation in enumerate(problem.operations) if operation == Operation("*", 3)]
    if triples and generator.random() < 0.5:
        return generator.choice(triples)
    return generator.randrange(len(problem.operations))


def written_chains(generator: random.Random) -> Batch:
    """Draw a chain of the strong policy for every question, to write."""
    dataset, level = draw_shape(generator)
    batch = []
    for _ in range(max(1, BATCH_TOKENS // (50 + 11 * longest(dataset, level)))):
        problem = draw_train_problem(generator, dataset, level)
        steps = habitual_chain(problem, HABITS["strong"], generator).steps
        batch.append((problem.text, [Judged(steps, (True,) * len(steps))]))
    return batch
