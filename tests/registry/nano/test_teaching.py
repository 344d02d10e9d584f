"""The batches of the reward models: marks of slips, step labels, and chains to write."""

from __future__ import annotations

import random
from collections.abc import Callable

from prmcal.registry.nano.problems import split_of
from tools.nano_training.teaching import (
    TEACHINGS,
    Batch,
    draw_questions,
    slipped_chains,
    stepwise_chains,
)


def test_step_labels_fall_once_from_right_to_wrong() -> None:
    marks = [chain.scores for _, chains in drawn(stepwise_chains) for chain in chains]
    assert all(0 not in each for each in marks), "a bare question has no step"
    for each in marks:
        values = [each[count] for count in sorted(each)]
        assert values == sorted(values, reverse=True)
        assert set(values) <= {0.0, 1.0}
    assert {min(each.values()) for each in marks} == {0.0, 1.0}


def test_slips_are_marked_from_their_step_on() -> None:
    for _, (right, *wrong) in drawn(slipped_chains):
        assert set(right.scores.values()) == {1.0}
        for chain in wrong:
            first = min(chain.scores)
            assert chain.steps[: first - 1] == right.steps[: first - 1]
            assert chain.steps[first - 1] != right.steps[first - 1]
            assert set(chain.scores) == set(range(first, len(chain.steps) + 1))


def test_batches_are_train_questions_and_depend_on_their_number_and_seed() -> None:
    teaching = TEACHINGS["reasoneval"]
    batch = draw_questions(teaching, {}, 0, 5)
    assert {split_of(question) for question, _ in batch} == {"train"}
    assert batch == draw_questions(teaching, {}, 0, 5)
    assert batch != draw_questions(teaching, {}, 0, 6)
    assert batch != draw_questions(teaching, {}, 1, 5)


def drawn(draw: Callable[[random.Random], Batch]) -> Batch:
    generator = random.Random(0)
    return [each for _ in range(5) for each in draw(generator)]
