"""Beam search for many questions at once. In each round all live prefixes are extended in one call and scored in one.

The result of a question does not depend on the other questions. Its random numbers follow from the seed, its own id,
the round and the position of the prefix. So a question that is searched alone has the same result, provided that the
models give the same outputs in any batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from prmcal.harness.storage.keys import content_key, seed_from_key
from prmcal.registry.contracts.data import GenerationRequest, Prefix, Question, Sampling, ScoringRequest
from prmcal.registry.contracts.llm import LLM
from prmcal.registry.contracts.prm import PRM
from prmcal.registry.contracts.search import SearchStrategy
from prmcal.registry.grading import extract_answer
from prmcal.steps import STEP_SEPARATOR, join_steps, split_steps

__all__ = ["Beam", "Searched", "beam_search"]

Calibrate = Callable[[Sequence[Prefix], NDArray[np.float64]], tuple[NDArray[np.float64], NDArray[np.float64]]]
"""Map prefixes and their logits to their median rewards and their rewards at the level beta. NaN: too long."""


@dataclass(frozen=True)
class Beam:
    """A prefix of the search.

    Attributes
    ----------
    steps : tuple of str
    tokens : int
        Tokens that were generated for it, in all steps together.
    finished : bool
        Whether it is complete, so that it is not continued.
    median, reward : float
        The median reward, which ranks prefixes, and the reward at the level beta, which IAS reads. NaN if the prefix is
        too long for the PRM.
    logit : float
        The PRM's own log-odds, which rank prefixes with equal medians.
    """

    steps: tuple[str, ...] = ()
    tokens: int = 0
    finished: bool = False
    median: float = float("nan")
    reward: float = float("nan")
    logit: float = float("nan")

    @property
    def rank(self) -> tuple[float, float]:
        """Sort key: the best prefix is first; prefixes that are too long are last."""
        median, logit = (-np.inf if np.isnan(each) else each for each in (self.median, self.logit))
        return -median, -logit


@dataclass
class Searched:
    """The search of one question.

    Attributes
    ----------
    live, finished : list of Beam
        The prefixes that are continued, and all finished ones. Both lists begin with the best.
    generations : int
        Steps that were sampled.
    rounds : int
        How often the PRM scored candidates, not counting the bare question.
    generated_tokens, prefill_tokens, scored_tokens : int
        Tokens that the LLM generated; tokens that it read, where a prefix counts once for all of its continuations;
        tokens that the PRM read.
    """

    question: Question
    live: list[Beam] = field(default_factory=list)
    finished: list[Beam] = field(default_factory=list)
    generations: int = 0
    rounds: int = 0
    generated_tokens: int = 0
    prefill_tokens: int = 0
    scored_tokens: int = 0

    @property
    def answer(self) -> Beam:
        """The best finished trajectory."""
        return self.finished[0]


@dataclass(frozen=True)
class _Search:
    llm: LLM
    prm: PRM
    strategy: SearchStrategy
    calibrate: Calibrate
    sampling: Sampling
    target: float | None
    seed: int


def beam_search(
    questions: Sequence[Question],
    llm: LLM,
    prm: PRM,
    strategy: SearchStrategy,
    calibrate: Calibrate,
    sampling: Sampling,
    target: float | None,
    seed: int,
) -> list[Searched]:
    """Search all questions.

    Parameters
    ----------
    questions : sequence of Question
    llm : LLM
        Samples the steps.
    prm : PRM
        Scores the prefixes.
    strategy : SearchStrategy
        Decides how many prefixes are kept, and how many continuations each of them gets.
    calibrate : callable
        Maps the PRM's logits to rewards.
    sampling : Sampling
        How whole trajectories are sampled. A trajectory ends with the step in which it reaches `max_tokens`.
    target : float or None
        Target probability C, if the strategy has one.
    seed : int
        The same questions, plugins, sampling and seed give the same result.

    Returns
    -------
    list of Searched
        One for each question.
    """
    stop = tuple(dict.fromkeys([*sampling.stop, STEP_SEPARATOR]))
    search = _Search(llm, prm, strategy, calibrate, replace(sampling, stop=stop), target, seed)
    found = [Searched(question) for question in questions]
    _begin(search, found)
    while going := [each for each in found if each.live]:
        candidates = _expanded(search, going)
        for _ in range(strategy.every):
            _lengthen(search, going, candidates)
        scored = _scored(search, going, candidates)
        for each, beams in zip(going, scored, strict=True):
            each.rounds += 1
            _choose(search, each, beams)
    return found


def _begin(search: _Search, found: Sequence[Searched]) -> None:
    """Start with K copies of the bare question, or with fewer if the strategy keeps fewer."""
    for each, (bare,) in zip(found, _scored(search, found, [[Beam()] for _ in found]), strict=True):
        copies = [bare] * search.strategy.width
        each.live = copies[: _kept(search, copies)]


def _expanded(search: _Search, going: Sequence[Searched]) -> list[list[Beam]]:
    """Return the candidates of each question before their new step: each live prefix, once for each continuation."""
    candidates = []
    for each in going:
        rewards = np.array([beam.reward for beam in each.live])
        times = int(np.clip(search.strategy.expand(rewards, search.target), 1, search.strategy.expansions))
        candidates.append([beam for beam in each.live for _ in range(times)])
    return candidates


def _lengthen(search: _Search, going: Sequence[Searched], candidates: list[list[Beam]]) -> None:
    """Sample one more step of every unfinished candidate, in one call for all questions."""
    places: list[tuple[int, list[int]]] = []
    requests = []
    for index, (each, beams) in enumerate(zip(going, candidates, strict=True)):
        for number, (steps, members) in enumerate(_by_steps(beams)):
            each.generations += len(members)
            step = len(steps)
            key = content_key([search.seed, each.question.id, each.rounds, step, number])
            prefix = Prefix(each.question.text, steps)
            requests.append(GenerationRequest(prefix, len(members), seed_from_key(key)))
            places.append((index, members))
    drawn = search.llm.generate_batch(requests, search.sampling) if requests else []
    for (index, members), completions in zip(places, drawn, strict=True):
        each = going[index]
        each.prefill_tokens += completions[0].prompt_tokens
        for member, completion in zip(members, completions, strict=True):
            each.generated_tokens += completion.tokens
            beam = candidates[index][member]
            added = split_steps(completion.text)
            tokens = beam.tokens + completion.tokens
            steps = beam.steps + added
            ended = (
                not added
                or completion.finish_reason == "length"
                or tokens >= search.sampling.max_tokens
                or len(steps) >= search.strategy.most_steps
                or extract_answer(join_steps(added)) is not None
            )
            candidates[index][member] = Beam(steps, tokens, ended)


def _by_steps(beams: Sequence[Beam]) -> Iterable[tuple[tuple[str, ...], list[int]]]:
    """Group the unfinished candidates by prefix: equal prefixes are one request."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for index, beam in enumerate(beams):
        if not beam.finished:
            groups.setdefault(beam.steps, []).append(index)
    return groups.items()


def _scored(
    search: _Search, going: Sequence[Searched], candidates: Sequence[Sequence[Beam]]
) -> list[list[Beam]]:
    """Score the candidates, in one call of the PRM and one call of the calibrator for all questions."""
    distinct = [tuple(dict.fromkeys(beam.steps for beam in beams)) for beams in candidates]
    requests = [
        ScoringRequest(each.question.text, steps, whole_only=True)
        for each, steps in zip(going, distinct, strict=True)
    ]
    scores = search.prm.score_batch(requests)
    for each, of_question in zip(going, scores, strict=True):
        each.scored_tokens += sum(score.tokens for score in of_question)
    prefixes = [Prefix(request.question, steps) for request in requests for steps in request.trajectories]
    logits = np.array([score.logit[-1] for of_question in scores for score in of_question], dtype=np.float64)
    medians, rewards = search.calibrate(prefixes, logits)
    values = iter(zip(medians, rewards, logits, strict=True))
    known = [{steps: next(values) for steps in of_question} for of_question in distinct]
    return [
        [
            replace(beam, median=float(m), reward=float(r), logit=float(s))
            for beam in beams
            for m, r, s in [of_question[beam.steps]]
        ]
        for beams, of_question in zip(candidates, known, strict=True)
    ]


def _choose(search: _Search, each: Searched, scored: Sequence[Beam]) -> None:
    """Rank the new candidates together with the finished ones, and keep the unfinished ones among the best."""
    # Python's sort is stable: among equal candidates the earlier one is first.
    ranked = sorted([*each.finished, *scored], key=lambda beam: beam.rank)
    each.finished = [beam for beam in ranked if beam.finished]
    best = ranked[: search.strategy.width]
    each.live = [beam for beam in best[: _kept(search, best)] if not beam.finished]


def _kept(search: _Search, best: Sequence[Beam]) -> int:
    rewards = np.array([beam.reward for beam in best])
    descending = -np.sort(-rewards)  # NaN last
    return int(np.clip(search.strategy.keep(descending, search.target), 1, search.strategy.width))
