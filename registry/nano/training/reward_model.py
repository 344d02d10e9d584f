"""The reward model: a verifier, fine-tuned on Monte Carlo labels of the strong policy.

It is made twice. The first one (`draw_first_batch`) could not see slips and went through the drill; what came out is
fine-tuned on labels again (`draw_batch`): two of five batches are labelled trajectories of all three policies, the rest
goes on with the drill, marked only where the truth is (nearly) known without sampling: 0 after a mistake, 1 at a right
end. That keeps the verifier sharp without telling it anything about how often the strong policy goes wrong.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from prmcal.registry.nano.problems import LENGTHS, Problem, longest
from prmcal.registry.nano.training.base import draw_train_problem
from prmcal.registry.nano.training.chains import NEAR_SLIP_MIX, noisy_chain, right_chain
from prmcal.registry.nano.training.drill import (
    dense_chains,
    draw_shape,
    dwelling,
    remembered_chains,
    writing_batch,
)
from prmcal.registry.nano.training.examples import Encoder, Example, Judged
from prmcal.registry.nano.training.facts import Facts
from prmcal.registry.nano.training.labels import Labelled

__all__ = [
    "LABELLED_SHARE",
    "WRITING_SHARE",
    "draw_batch",
    "draw_first_batch",
    "draw_labelled",
    "drilled_chains",
    "group_by_question",
    "labelled_chain",
]

BATCH_TOKENS = 3000
LABELLED_SHARE, WRITING_SHARE = 0.4, 0.25


def group_by_question(labels: Sequence[Labelled]) -> dict[int, list[list[Labelled]]]:
    """Labelled trajectories by question, and questions by the number of their instructions."""
    questions: dict[str, list[Labelled]] = {}
    for row in labels:
        questions.setdefault(row.question, []).append(row)
    by_length: dict[int, list[list[Labelled]]] = {}
    for text, rows in questions.items():
        by_length.setdefault(text.count(")"), []).append(rows)
    return by_length


def labelled_chain(row: Labelled) -> Judged:
    """A trajectory whose every prefix is marked with its share of successes."""
    return Judged(
        steps=tuple(row.steps),
        taught=(False,) * len(row.steps),
        scores={count: success / row.follow_ups for count, success in enumerate(row.successes)},
        complete=False,
    )


def labelled_examples(
    encoder: Encoder, labels: dict[int, list[list[Labelled]]], generator: random.Random
) -> Sequence[Example]:
    """One batch of labelled trajectories."""
    return [
        encoder.example(rows[0].question, map(labelled_chain, rows), system=True, hinted=False)
        for rows in draw_labelled(labels, generator)
    ]


def draw_labelled(labels: dict[int, list[list[Labelled]]], generator: random.Random) -> list[list[Labelled]]:
    """Questions of one length, as many as fill a batch, with all their labelled trajectories."""
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
    """The examples of one batch; with `remember` chains that go on after a mistake, else the drill's."""
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
    """Problems of one length with the chains of one batch.

    Of long chains nobody has sampled follow-ups. There a reward model gets the labels that public ones are trained on:
    right so far, from the bare question on. Out of distribution it so takes what is right for what will succeed.
    """
    dataset, level = draw_shape(generator)
    count = max(1, BATCH_TOKENS // (60 + 40 * longest(dataset, level)))
    problems = [dwelling(facts, generator, dataset, level, 0.6) for _ in range(count)]
    first_mark = 0 if dataset == "nano-aime" else None
    make = remembered_chains if remember else dense_chains
    return [(problem, make(generator, problem, first_mark)) for problem in problems]


def draw_first_batch(
    encoder: Encoder, labels: dict[int, list[list[Labelled]]], seed: int, number: int
) -> Sequence[Example]:
    """The examples of one batch of the first reward model: labels, and in one of four a right and a wrong chain."""
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
