"""Beam search for all questions at once, against one question or one prefix at a time.

python -m benchmarks.models.beam_search [QUESTIONS [WIDTH [EXPANSIONS]]]

It uses the middle nano policy in float32 and the nano PRM on nano-math. Public implementations search one question
after the other, call the LLM once per prefix of the beam, and score each candidate in a separate pass. All ways except
the last draw the same random numbers. Their answers are therefore equal, unless rounding in a batch of another shape
changes the order of two nearly equal tokens or scores. The last way samples with transformers' `generate`, like public
implementations.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from benchmarks.models.generate_peer import TransformersGenerate
from prmcal.harness.jobs.search import BeamSearch, Searched
from prmcal.registry.contracts.data import Completion, Prefix, PrefixScores, Sampling
from prmcal.registry.contracts.models import LLM, PRM
from prmcal.registry.llms.transformers import TransformersLLM
from prmcal.registry.plugins import datasets, prms, strategies
from prmcal.steps import join_steps

SEED = 7


def own_rewards(
    prefixes: Sequence[Prefix], logits: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the uncalibrated rewards of the PRM."""
    return expit(logits), expit(logits)


class OnePrefixAtATime(LLM):
    """An LLM that does not batch its requests."""

    def __init__(self, llm: LLM) -> None:
        self.llm = llm

    def generate(
        self, prefixes: Sequence[Prefix], n: int, sampling: Sampling, seed: int
    ) -> list[list[Completion]]:
        """Generate like the wrapped LLM."""
        return self.llm.generate(prefixes, n, sampling, seed)


class OneCandidateAtATime(PRM):
    """A PRM that scores each candidate separately."""

    def __init__(self, prm: PRM) -> None:
        self.prm = prm

    def score(self, question: str, trajectories: Sequence[Sequence[str]]) -> list[PrefixScores]:
        """Score each trajectory in its own pass."""
        return [self.prm.score(question, [steps])[0] for steps in trajectories]


def main(count: int = 50, width: int = 8, expansions: int = 8) -> None:
    dataset = datasets.create("nano-math")
    questions = dataset.questions("test", count)
    llm = TransformersLLM("nano:middle", dtype="float32")
    prm = prms.create("qwen", checkpoint="nano:prm", dtype="float32")
    strategy = strategies.create("beam search", width=width, expansions=expansions)
    models: tuple[Any, ...] = (llm, prm, strategy, own_rewards, Sampling(max_tokens=256), None, SEED)
    BeamSearch(*models).run(questions[:1])  # Loads the models.

    slow: tuple[Any, ...] = (OnePrefixAtATime(llm), OneCandidateAtATime(prm), *models[2:])
    together, batched = timed(lambda: BeamSearch(*models).run(questions))
    alone, single = timed(lambda: [found for each in questions for found in BeamSearch(*models).run([each])])
    naive, slowest = timed(lambda: [found for each in questions for found in BeamSearch(*slow).run([each])])

    peer: tuple[Any, ...] = (TransformersGenerate(llm), *slow[1:])
    library, usual = timed(lambda: [found for each in questions for found in BeamSearch(*peer).run([each])])

    steps = sum(each.generations for each in together)
    right = [dataset.grade(each.question, join_steps(each.answer.steps))[0] == "correct" for each in together]
    print(
        f"{count} questions, K = {width}, M = {expansions}: {steps:,} steps drawn, {np.mean(right):.2f} right"
    )
    print(f"all questions at once     {batched:8.1f} s {steps / batched:10,.0f} steps/s")
    for name, found, seconds in (("question", alone, single), ("prefix", naive, slowest)):
        same = sum(a.answer.steps == b.answer.steps for a, b in zip(together, found, strict=True))
        drawn = sum(each.generations for each in found)
        print(
            f"one {name + ' at a time':<21} {seconds:8.1f} s {drawn / seconds:10,.0f} steps/s; all at once is "
            f"{seconds / batched:.1f} times as fast, with the same answer to {same} of {count} questions"
        )
    drawn = sum(each.generations for each in library)
    print(
        f"one prefix at a time, by transformers' generate {usual:8.1f} s {drawn / usual:10,.0f} steps/s; all at once "
        f"draws {(steps / batched) / (drawn / usual):.1f} times as many a second"
    )


def timed(run: Callable[[], list[Searched]]) -> tuple[list[Searched], float]:
    """Return the result of a call, and its time in seconds."""
    begun = time.perf_counter()
    return run(), time.perf_counter() - begun


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
