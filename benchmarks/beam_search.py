"""Beam search for all questions at once, against one question at a time, and one prefix at a time.

python -m benchmarks.beam_search [QUESTIONS [WIDTH [EXPANSIONS]]]

The middle nano policy in float32 and the nano PRM on nano-math. Public implementations take a question after the other,
each prefix of the beam with its M continuations a call of its own, and score every candidate in a pass of its own. All
ways but the last draw the same random numbers, so that they come to the same answers, but where a batch of another
shape rounds two all but equal tokens or scores the other way. The last samples by transformers' own method, as they do.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from benchmarks.generate_peer import TransformersGenerate
from prmcal.harness.jobs.beam_search import Searched, beam_search
from prmcal.registry.contracts.data import Completion, Prefix, PrefixScores, Sampling, join_steps
from prmcal.registry.contracts.llm import LLM
from prmcal.registry.contracts.prm import PRM
from prmcal.registry.plugins import datasets, llms, prms, strategies

SEED = 7


def own_rewards(
    prefixes: Sequence[Prefix], logits: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The PRM's own rewards, uncalibrated."""
    return expit(logits), expit(logits)


class OnePrefixAtATime(LLM):
    """An LLM that does not batch requests."""

    def __init__(self, llm: LLM) -> None:
        self.llm = llm

    def generate(
        self, prefixes: Sequence[Prefix], n: int, sampling: Sampling, seed: int
    ) -> list[list[Completion]]:
        """As the LLM itself does."""
        return self.llm.generate(prefixes, n, sampling, seed)


class OneCandidateAtATime(PRM):
    """A PRM that scores each candidate by itself."""

    def __init__(self, prm: PRM) -> None:
        self.prm = prm

    def score(self, question: str, trajectories: Sequence[Sequence[str]]) -> list[PrefixScores]:
        """One pass for each trajectory."""
        return [self.prm.score(question, [steps])[0] for steps in trajectories]


def main(count: int = 50, width: int = 8, expansions: int = 8) -> None:
    dataset = datasets.create("nano-math")
    questions = dataset.questions("test", count)
    llm = llms.create("transformers", checkpoint="nano:middle", dtype="float32")
    prm = prms.create("qwen", checkpoint="nano:prm", dtype="float32")
    strategy = strategies.create("beam search", width=width, expansions=expansions)
    models: tuple[Any, ...] = (llm, prm, strategy, own_rewards, Sampling(max_tokens=256), None, SEED)
    beam_search(questions[:1], *models)  # loads the models

    slow: tuple[Any, ...] = (OnePrefixAtATime(llm), OneCandidateAtATime(prm), *models[2:])
    together, batched = timed(lambda: beam_search(questions, *models))
    alone, single = timed(lambda: [found for each in questions for found in beam_search([each], *models)])
    naive, slowest = timed(lambda: [found for each in questions for found in beam_search([each], *slow)])

    peer: tuple[Any, ...] = (TransformersGenerate(llm), *slow[1:])
    library, usual = timed(lambda: [found for each in questions for found in beam_search([each], *peer)])

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
    """What it returns, and the seconds it took."""
    begun = time.perf_counter()
    return run(), time.perf_counter() - begun


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
