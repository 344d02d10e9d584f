"""Beam search for all questions at once, against one question at a time, as public implementations work.

python -m benchmarks.beam_search [QUESTIONS [WIDTH [EXPANSIONS]]]

The middle nano policy in float32 and the nano PRM on nano-math. Both ways draw the same random numbers, so that they
come to the same answers, but where a batch of another shape rounds two all but equal tokens or scores the other way.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from harness.search import Searched, beam_search
from registry.contracts.data import Prefix, Sampling, join_steps
from registry.plugins import datasets, llms, prms, strategies

SEED = 7


def own_rewards(
    prefixes: Sequence[Prefix], logits: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The PRM's own rewards, uncalibrated."""
    return expit(logits), expit(logits)


def main(count: int = 50, width: int = 8, expansions: int = 8) -> None:
    dataset = datasets.create("nano-math")
    questions = dataset.questions("test", count)
    llm = llms.create("transformers", checkpoint="nano:middle", dtype="float32")
    prm = prms.create("qwen", checkpoint="nano:prm", dtype="float32")
    strategy = strategies.create("beam search", width=width, expansions=expansions)
    models: tuple[Any, ...] = (llm, prm, strategy, own_rewards, Sampling(max_tokens=256), None, SEED)
    beam_search(questions[:1], *models)  # loads the models

    begun = time.perf_counter()
    together = beam_search(questions, *models)
    batched = time.perf_counter() - begun
    begun = time.perf_counter()
    alone: list[Searched] = [found for each in questions for found in beam_search([each], *models)]
    single = time.perf_counter() - begun

    steps = sum(each.generations for each in together)
    right = [dataset.grade(each.question, join_steps(each.answer.steps))[0] == "correct" for each in together]
    same = sum(a.answer.steps == b.answer.steps for a, b in zip(together, alone, strict=True))
    print(
        f"{count} questions, K = {width}, M = {expansions}: {steps:,} steps drawn, {np.mean(right):.2f} right"
    )
    print(f"all at once          {batched:8.1f} s {steps / batched:10,.0f} steps/s")
    print(
        f"one at a time        {single:8.1f} s {sum(each.generations for each in alone) / single:10,.0f} steps/s"
    )
    print(
        f"{single / batched:.1f} times as fast; the same answer, word for word, to {same} of {count} questions"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
