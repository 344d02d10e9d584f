"""The searches as the paper's authors ran them, against a short version of their loop, in trees with known chances.

Each step of a tree says the chance that its trajectory becomes right. The chance of a step is on average that of the
step before. Some steps are empty, and some trajectories end without a box.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cache
from hashlib import blake2b

import numpy as np
import pytest

from prmcal import LLM, PRM, Completion, Prefix, PrefixScores, Question, Sampling
from prmcal.harness.jobs.search import Searched, StepSearch
from prmcal.registry.contracts.strategy import SearchStrategy
from prmcal.registry.plugins import strategies
from prmcal.steps import STEP_SEPARATOR
from tests.registry.create import create_as

Steps = tuple[str, ...]
WIDTH, EXPANSIONS, MOST_STEPS, TARGET, TREES = 4, 4, 30, 0.99, 40
AS_PUBLISHED = {
    "width": WIDTH,
    "expansions": EXPANSIONS,
    "most_steps": MOST_STEPS,
    "first": "full",
    "rank": "calibrated",
    "finished": "pruned",
}
FIXED, IAS_OF_K, IAS_OF_M = "beam search", "beam search + IAS-of-K", "beam search + IAS-of-M"


def uniforms(*seed: object) -> list[float]:
    digest = blake2b(repr(seed).encode(), digest_size=32).digest()
    return [int.from_bytes(digest[i : i + 8]) / 2**64 for i in range(0, 32, 8)]


def chance(question: str, steps: Steps) -> float:
    """The chance of a prefix, which is the calibrated median."""
    return float(steps[-1].split("p=")[1].split()[0]) if steps else 0.02 + 0.96 * uniforms(question)[0] ** 2


def lower(question: str, steps: Steps) -> float:
    """The calibrated reward at the level beta, whose order is not that of the medians."""
    return chance(question, steps) * (0.5 + 0.5 * uniforms(question, steps, "lower")[0])


class Trees(LLM):
    """Each call for a prefix draws its next children."""

    def __init__(self) -> None:
        self.drawn: Counter[tuple[str, Steps]] = Counter()

    def child(self, question: str, steps: Steps) -> Completion:
        place = (question, steps)
        self.drawn[place] += 1
        kind, up, width, right = uniforms(place, self.drawn[place])
        if kind < 0.05:
            return Completion("", 1, "stop")
        before = chance(question, steps)
        apart = width * min(before, 1 - before) * (1 if up < 0.5 else -1)
        text = f"step {right} p={before + apart}"
        if kind < 0.08:
            return Completion(text, 5, "end")
        if len(steps) < 3 + int(9 * uniforms(question)[1]):
            return Completion(text, 5, "stop")
        return Completion(f"{text} so \\boxed{{{int(right < before)}}}", 9, "stop" if up < 0.3 else "end")

    def generate(self, prefixes: Sequence[Prefix], n: int, sampling: Sampling, seed: int) -> list[list[Completion]]:
        assert STEP_SEPARATOR in sampling.stop
        return [[self.child(each.question, each.steps) for _ in range(n)] for each in prefixes]


class Noise(PRM):
    """A PRM whose own scores say nothing, so that only a calibrated ranking finds the way."""

    def score(self, question: str, trajectories: Sequence[Sequence[str]]) -> list[PrefixScores]:
        logits = [np.array([uniforms(question, steps)[1]], dtype=np.float32) for steps in trajectories]
        return [PrefixScores(each, each.astype(np.float64), np.zeros(1, dtype=bool), 1) for each in logits]


def calibrate(prefixes: Sequence[Prefix], logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    both = [[chance(each.question, each.steps), lower(each.question, each.steps)] for each in prefixes]
    medians, lowers = np.array(both).T
    return medians, lowers


@cache
def searched(name: str, every: int, **changes: str) -> list[Searched]:
    strategy = create_as(SearchStrategy, strategies, name, every=every, **{**AS_PUBLISHED, **changes})
    questions = [Question(str(i), f"tree {i}", "1") for i in range(TREES)]
    target = TARGET if strategy.targeted else None
    return StepSearch(Trees(), Noise(), strategy, calibrate, Sampling(), target, seed=1).run(questions)


@cache
def published(name: str, every: int, question: str) -> tuple[int, Steps]:
    """The steps that the authors' loop samples for a question, and the trajectory that it chooses."""

    def needed(steps: Steps, share: int = 1) -> int:
        p = max(1e-4, min(lower(question, steps), 1 - 1e-4))
        return math.ceil(math.log(1 - TARGET) / math.log(1 - p) / share)

    tree, sampled, step = Trees(), 0, 0
    paths: list[tuple[Steps, bool]] = [((), False)]
    while step < MOST_STEPS and not all(done for _, done in paths):
        samples = 1
        if step == 0:
            samples = WIDTH * EXPANSIONS
        elif step % every == 0:
            kept, samples = WIDTH, EXPANSIONS
            if name == IAS_OF_K:
                best = sorted((steps for steps, _ in paths), key=lambda steps: -lower(question, steps))
                kept = 1
                while kept < min(WIDTH, len(best)) and needed(best[kept - 1]) > kept * EXPANSIONS:
                    kept += 1
            paths = sorted(paths, key=lambda path: -chance(question, path[0]))[:kept]
            if name == IAS_OF_M:
                worst = min((steps for steps, _ in paths), key=lambda steps: lower(question, steps))
                samples = min(needed(worst, share=WIDTH), EXPANSIONS)
        following: list[tuple[Steps, bool]] = []
        for steps, done in paths:
            drawn = [] if done else [tree.child(question, steps) for _ in range(samples)]
            sampled += len(drawn)
            following += [(steps, True)] if done else []
            for each in drawn:
                longer = (*steps, each.text) if each.text else steps
                following.append((longer, each.finish_reason != "stop" or "\\boxed" in each.text))
        paths, step = following, step + 1
    return sampled, max((steps for steps, _ in paths), key=lambda steps: chance(question, steps))


@pytest.mark.parametrize("every", [5, 1])
@pytest.mark.parametrize("name", [FIXED, IAS_OF_K, IAS_OF_M])
def test_a_search_spends_and_answers_what_the_authors_do(name: str, every: int) -> None:
    ours, fixed = searched(name, every), searched(FIXED, every)
    theirs = [published(name, every, each.question.text) for each in ours]
    assert [(each.generations, each.answer.steps) for each in ours] == theirs
    ratio = sum(each.generations for each in ours) / sum(each.generations for each in fixed)
    expected = sum(spent for spent, _ in theirs) / sum(published(FIXED, every, each.question.text)[0] for each in fixed)
    assert ratio == pytest.approx(expected)
    assert ratio == 1 if name == FIXED else ratio < 0.95


def test_only_a_calibrated_ranking_follows_the_calibrated_rewards() -> None:
    """The PRM's own scores say nothing here."""
    led, misled = (searched(FIXED, 5, rank=rank) for rank in ("calibrated", "original"))
    assert right(led) > right(misled) + 0.3


def test_an_adaptive_first_round_saves_on_easy_questions() -> None:
    for name in (IAS_OF_K, IAS_OF_M):
        full, adaptive = (searched(name, 5, first=first) for first in ("full", "adaptive"))
        easy = [chance(each.question.text, ()) > 0.8 for each in full]
        spent = [
            sum(each.generations for each, is_easy in zip(found, easy, strict=True) if is_easy)
            for found in (adaptive, full)
        ]
        assert spent[0] < 0.5 * spent[1]


def test_a_search_of_fixed_width_begins_with_all_trajectories_in_both_ways() -> None:
    full, adaptive = (searched(FIXED, 5, first=first) for first in ("full", "adaptive"))
    assert [each.answer for each in full] == [each.answer for each in adaptive]
    assert all(a.scored_tokens == b.scored_tokens + 1 for a, b in zip(adaptive, full, strict=True))


def right(found: Sequence[Searched]) -> float:
    return float(np.mean(["boxed{1}" in each.answer.steps[-1] for each in found]))
