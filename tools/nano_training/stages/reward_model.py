"""The reward model: a verifier, fine-tuned on Monte Carlo labels of the strong policy.

The reward model is trained twice. The first reward model (`draw_first_batch`) did not detect slips. It goes through the
drill and is then fine-tuned on labels again (`draw_batch`). Two of five batches are labelled trajectories of all three
policies, and the other batches continue the drill. The drill marks only prefixes whose success is (nearly) known
without sampling: 0 after a mistake and 1 at a right end. It preserves the ability to detect mistakes, and contains no
information on how often the strong policy fails.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from prmcal.registry.nano.problems import LENGTHS, Problem, longest
from tools.nano_training.examples.chains import NEAR_SLIP_MIX, noisy_chain, right_chain
from tools.nano_training.examples.facts import Facts
from tools.nano_training.examples.labels import Labelled
from tools.nano_training.examples.token_trees import Encoder, Example, Judged
from tools.nano_training.stages.base import draw_train_problem
from tools.nano_training.stages.drill import (
    dense_chains,
    draw_focused_problem,
    draw_shape,
    remembered_chains,
    writing_batch,
)

BATCH_TOKENS = 3000
LABELLED_SHARE, WRITING_SHARE = 0.4, 0.25


def group_by_question(labels: Sequence[Labelled]) -> dict[int, list[list[Labelled]]]:
    """Group trajectories by question, and questions by their number of instructions."""
    questions: dict[str, list[Labelled]] = {}
    for row in labels:
        questions.setdefault(row.question, []).append(row)
    by_length: dict[int, list[list[Labelled]]] = {}
    for text, rows in questions.items():
        by_length.setdefault(text.count(")"), []).append(rows)
    return by_length


def labelled_chain(row: Labelled) -> Judged:
    """Mark each prefix of a trajectory with its success rate."""
    return Judged(
        steps=tuple(row.steps),
        taught=(False,) * len(row.steps),
        scores={count: success / row.follow_ups for count, success in enumerate(row.successes)},
        complete=False,
    )


def labelled_examples(
    encoder: Encoder, labels: dict[int, list[list[Labelled]]], generator: random.Random
) -> Sequence[Example]:
    """Draw one batch of labelled trajectories."""
    return [
        encoder.example(rows[0].question, map(labelled_chain, rows), system=True, hinted=False)
        for rows in draw_labelled(labels, generator)
    ]


def draw_labelled(labels: dict[int, list[list[Labelled]]], generator: random.Random) -> list[list[Labelled]]:
    """Draw questions of one length for a full batch, with all their labelled trajectories."""
    length = generator.choice(sorted(labels))
    count = max(1, BATCH_TOKENS // (50 + 45 * length))
    return generator.sample(labels[length], min(count, len(labels[length])))


def draw_batch(
    encoder: Encoder,
    labels: dict[int, list[list[Labelled]]],
    facts: Facts,
    seed: int,
    number: int,
    remember: bool,
) -> Sequence[Example]:
    """Draw one batch. With `remember`, drilled chains continue after their mistake (see `remembered_chains`)."""
    generator = random.Random(f"{seed} reward model {number} {remember}")
    labelled, writing = (0.3, 0.15) if remember else (LABELLED_SHARE, WRITING_SHARE)
    kind = generator.random()
    if kind < labelled:
        return labelled_examples(encoder, labels, generator)
    if kind < labelled + writing:
        return writing_batch(encoder, facts, generator)
    return [
        encoder.example(problem.text, chains, system=True, first_only=True)
        for problem, chains in drilled_chains(generator, facts, remember)
    ]


def drilled_chains(
    generator: random.Random, facts: Facts, remember: bool
) -> list[tuple[Problem, list[Judged]]]:
    """Draw the problems of one batch, all of one length, with their chains.

    Long chains have no Monte Carlo labels. They are marked like the training data of many public PRMs: 1 for as long as
    no step is wrong, from the bare question on. The PRM therefore overestimates right prefixes out of distribution.
    """
    dataset, level = draw_shape(generator)
    count = max(1, BATCH_TOKENS // (60 + 40 * longest(dataset, level)))
    problems = [draw_focused_problem(facts, generator, dataset, level, 0.6) for _ in range(count)]
    first_mark = 0 if dataset == "nano-aime" else None
    make = remembered_chains if remember else dense_chains
    return [(problem, make(generator, problem, first_mark)) for problem in problems]


def draw_first_batch(
    encoder: Encoder, labels: dict[int, list[list[Labelled]]], seed: int, number: int
) -> Sequence[Example]:
    """Draw one batch for the first reward model: labels, or in one of four batches right and wrong chains."""
    generator = random.Random(f"{seed} reward model {number}")
    if number % 4:
        return labelled_examples(encoder, labels, generator)
    level = generator.randint(1, 5)
    examples = []
    for _ in range(max(1, BATCH_TOKENS // (50 + 45 * LENGTHS[level]))):
        problem = draw_train_problem(generator, "nano-math", level)
        forced = generator.randrange(LENGTHS[level])
        chains = [right_chain(problem), noisy_chain(problem, 0.0, generator, forced, NEAR_SLIP_MIX)]
        marked = []
        for chain in chains:
            last = len(chain.steps)
            right = chain.steps[-1].endswith(f"\\boxed{{{problem.answer}}}")
            scores = {count: 0.0 for count in range(1, last) if not chain.sound(count)} if not right else {}
            marked.append(Judged(chain.steps, (True,) * last, scores | {last: float(right)}, complete=False))
        examples.append(encoder.example(problem.text, marked, system=True, first_only=True))
    return examples
