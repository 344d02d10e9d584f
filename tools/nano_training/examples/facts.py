"""The single steps that a model gets wrong, and training problems that contain them.

A model of this size gets most of the 3,800 single steps of nano-math right and a few systematically wrong (44+5=59).
A random problem contains such a step too rarely for the model to correct it. Training therefore draws problems with
the steps that the model often gets wrong.
"""

from __future__ import annotations

import random
from itertools import accumulate
from typing import Any

import torch
from torch.nn import functional

from prmcal.registry.nano.problems import (
    AIME_HARD_SHARE,
    AIME_LENGTHS,
    HARD_SHARES,
    LENGTHS,
    MODULUS,
    OPENINGS,
    Operation,
    Problem,
    draw_operation,
    make_problem,
    render_step,
    split_of,
)
from tools.nano_training.examples.token_trees import Encoder

OPERATIONS = (
    *(Operation(symbol, operand) for symbol in "+-" for operand in (*range(1, 10), *range(11, 20))),
    *(Operation("*", operand) for operand in (2, 3)),
)
FACTS = tuple((value, operation) for value in range(MODULUS) for operation in OPERATIONS)
"""All single steps of nano-math: a number and an operation."""
FLOOR = 0.002
"""Added to the error probability of each fact, so that the known facts are drawn too and are not forgotten."""
FOCUS = 0.5
"""The probability that a step is drawn in proportion to the model's error probability."""


@torch.no_grad()
def wrong_shares(
    model: Any, encoder: Encoder, batch: int = 256, every: int = 1
) -> dict[tuple[int, Operation], float]:
    """Return the probability that a language model writes a wrong result, for each fact.

    Each fact is the first of two steps. Only every `every`-th fact is measured, and the others get probability 0. Tests
    of the training code set `every` above 1.
    """
    model.eval()
    shares: dict[tuple[int, Operation], float] = dict.fromkeys(FACTS, 0.0)
    looked_at = FACTS[::every]
    for first in range(0, len(looked_at), batch):
        facts = looked_at[first : first + batch]
        rows, spans = [], []
        for value, operation in facts:
            problem = make_problem("nano-math", 1, value, (operation, Operation("+", 1)), 0)
            step = render_step(0, value, operation, operation.apply(value), last=False)
            head = encoder.ids(encoder.prompt(problem.text, system=False)) + encoder.ids(step[:-2])
            rows.append(head + encoder.ids(step[-2:]))
            spans.append(len(head))
        longest = max(map(len, rows))
        ids = torch.tensor([row + [encoder.pad] * (longest - len(row)) for row in rows])
        hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state
        logs = functional.log_softmax(model.lm_head(hidden).float(), dim=-1)
        for index, (fact, row, span) in enumerate(zip(facts, rows, spans, strict=True)):
            right = sum(float(logs[index, place - 1, row[place]]) for place in range(span, len(row)))
            shares[fact] = -torch.expm1(torch.tensor(right)).item()
    model.train()
    return shares


class Facts:
    """Draws train problems that contain many of the steps that a model gets wrong.

    Parameters
    ----------
    shares : dict
        The return value of `wrong_shares`.
    """

    def __init__(self, shares: dict[tuple[int, Operation], float]) -> None:
        self.cumulative = {
            value: list(accumulate(shares[value, operation] + FLOOR for operation in OPERATIONS))
            for value in range(MODULUS)
        }
        self.by_value = list(accumulate(self.cumulative[value][-1] for value in range(MODULUS)))

    def draw(self, generator: random.Random, dataset: str, level: int) -> Problem:
        """Draw a problem from the train split of a data set, with the length of a level."""
        hard_share = HARD_SHARES[level] if dataset == "nano-math" else AIME_HARD_SHARE
        while True:
            length = LENGTHS[level] if dataset == "nano-math" else generator.choice(AIME_LENGTHS)
            start = generator.choices(range(MODULUS), cum_weights=self.by_value)[0]
            value, operations = start, []
            for _ in range(length):
                if generator.random() < FOCUS:
                    operation = generator.choices(OPERATIONS, cum_weights=self.cumulative[value])[0]
                else:
                    operation = draw_operation(generator, hard_share)
                value = operation.apply(value)
                operations.append(operation)
            opening = generator.randrange(len(OPENINGS))
            problem = make_problem(dataset, level, start, tuple(operations), opening)
            if split_of(problem.text) == "train":
                return problem
