"""Search for answers with the LLM and the PRM side by side, for many questions at once.

In each round, one call extends all live prefixes, and one call scores them. The result of a question does not depend on
the other questions. Its random numbers follow from the seed, its own id, the step of the search and the position of the
prefix. So a question alone has the same result, provided that the models give the same outputs in any batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from prmcal.arrays import Floats
from prmcal.harness.jobs.context import Context, Output
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import SearchParameters
from prmcal.harness.jobs.plugin_calls import checked_rewards, plugin_guard
from prmcal.harness.jobs.stepping import next_steps
from prmcal.harness.storage.store import content_key, seed_from_key
from prmcal.registry.contracts.calibrator import Calibrator, ScoredPrefixes
from prmcal.registry.contracts.data import (
    Completion,
    GenerationRequest,
    HiddenStates,
    Prefix,
    Question,
    Sampling,
    ScoringRequest,
)
from prmcal.registry.contracts.models import LLM, PRM
from prmcal.registry.contracts.strategy import SearchStrategy
from prmcal.registry.grading.extraction import find_answer
from prmcal.registry.network import patiently
from prmcal.registry.plugins import strategies
from prmcal.steps import in_thought, join_steps, split_steps

Calibrate = Callable[[Any, Floats], tuple[Floats, Floats]]
"""Map prefixes and their logits to their median rewards and their rewards at the level beta. NaN: too long.

The first argument is a sequence of prefixes, or the hidden states of all prefixes that are not too long.
"""
_MEDIAN = 0.5


@dataclass(frozen=True)
class Beam:
    """A prefix of the search."""

    steps: tuple[str, ...] = ()
    drawn: int = 0
    """Steps that were sampled for it, empty ones too."""
    tokens: int = 0
    """Tokens that were generated for it, in all steps together."""
    finished: bool = False
    """True if it is complete, so that it is not continued."""
    ranked_by: float = float("nan")
    """The reward that ranks prefixes: the PRM's own, or the calibrated median, by the strategy's `rank`. NaN if the
    prefix is too long for the PRM."""
    reward: float = float("nan")
    """The reward that the strategy reads, also NaN if the prefix is too long."""
    logit: float = float("nan")
    """The PRM's own log-odds, which rank prefixes with equal rewards."""

    @property
    def rank(self) -> tuple[float, float]:
        """Sort key: the best prefix is first; prefixes that are too long are last."""
        reward, logit = (-np.inf if np.isnan(value) else value for value in (self.ranked_by, self.logit))
        return -reward, -logit


@dataclass
class Searched:
    """The search of one question."""

    question: Question
    beams: list[Beam] = field(default_factory=list)
    finished: list[Beam] = field(default_factory=list)
    """The prefixes that are kept, and all finished prefixes, also pruned ones. Both lists begin with the best."""
    generations: int = 0
    """Steps that were sampled."""
    rounds: int = 0
    """The number of times that the PRM scored candidates, not counting the bare question."""
    generated_tokens: int = 0
    prefill_tokens: int = 0
    scored_tokens: int = 0
    """Tokens that the LLM generated, tokens that the LLM read (a prefix once for all its continuations), and tokens
    that the PRM read."""

    @property
    def live(self) -> bool:
        """Tells whether one of the kept prefixes is unfinished."""
        return not all(beam.finished for beam in self.beams)

    @property
    def answer(self) -> Beam:
        """The best of the kept prefixes."""
        return self.beams[0]


@dataclass(frozen=True)
class StepSearch:
    """A search. The same questions, plugins, sampling and seed give the same result.

    The LLM samples the steps, the PRM scores the prefixes, and `calibrate` maps its logits to rewards. The strategy
    decides how many prefixes are kept, and how many continuations each of them gets; `target` is its C, if it has one.
    `sampling` is for whole trajectories. A trajectory ends with the step in which it reaches `max_tokens`, or with a
    boxed answer.
    """

    llm: LLM
    prm: PRM
    strategy: SearchStrategy
    calibrate: Calibrate
    sampling: Sampling
    target: float | None
    seed: int
    from_states: bool = False
    """True if the calibrator reads hidden states. The scores then come from the same pass of the PRM."""

    def run(self, questions: Sequence[Question]) -> list[Searched]:
        """Search all questions."""
        searches = [Searched(question) for question in questions]
        live, candidates = searches, self._first_candidates(searches)
        while live:
            for step in range(self.strategy.every):
                self._lengthen(live, candidates, step)
            scored_beams = self._score(live, candidates)
            for search, beams in zip(live, scored_beams, strict=True):
                search.rounds += 1
                self._choose(search, beams)
            live = [search for search in live if search.live]
            candidates = self._candidates(live)
        return searches

    def _first_candidates(self, searches: Sequence[Searched]) -> list[list[Beam]]:
        """Return the candidates of the first round: copies of the bare question."""
        strategy = self.strategy
        if strategy.first == "full":
            return [[Beam()] * (strategy.width * strategy.expansions) for _ in searches]
        scored_beams = self._score(searches, [[Beam()] for _ in searches])
        for search, (bare_question,) in zip(searches, scored_beams, strict=True):
            copies = [bare_question] * strategy.width
            search.beams = copies[: self._number_kept(copies)]
        return self._candidates(searches)

    def _candidates(self, searches: Sequence[Searched]) -> list[list[Beam]]:
        """Return the candidates before their new step: each unfinished kept prefix, once for each continuation."""
        candidates = []
        for search in searches:
            rewards = np.array([beam.reward for beam in search.beams])
            times = int(np.clip(self.strategy.expand(rewards, self.target), 1, self.strategy.expansions))
            candidates.append([beam for beam in search.beams if not beam.finished for _ in range(times)])
        return candidates

    def _lengthen(self, searches: Sequence[Searched], candidates: list[list[Beam]], step: int) -> None:
        """Sample one more step of every unfinished candidate, in one call for all questions.

        `step` counts the steps of this round.
        """
        batches: list[tuple[int, list[int]]] = []
        requests = []
        for index, (search, beams) in enumerate(zip(searches, candidates, strict=True)):
            members_of: dict[tuple[str, ...], list[int]] = {}  # Equal prefixes are one request.
            for member, beam in enumerate(beams):
                if not beam.finished:
                    members_of.setdefault(beam.steps, []).append(member)
            for number, (steps, members) in enumerate(members_of.items()):
                search.generations += len(members)
                key = content_key([self.seed, search.question.text, search.rounds, step, number])
                prefix = Prefix(search.question.text, steps)
                requests.append(GenerationRequest(prefix, len(members), seed_from_key(key)))
                batches.append((index, members))
        sampling = replace(self.sampling, max_tokens=self.strategy.step_tokens or self.sampling.max_tokens)
        with plugin_guard("llm", self.llm.plugin_name, "generate"):
            completions_of = next_steps(self.llm, requests, sampling)
        context = self.strategy.context_tokens
        limits = context or self.sampling.max_tokens, self.strategy.most_steps, context is not None
        for (index, members), completions in zip(batches, completions_of, strict=True):
            search = searches[index]
            search.prefill_tokens += completions[0].prompt_tokens
            for member, completion in zip(members, completions, strict=True):
                search.generated_tokens += completion.tokens
                candidates[index][member] = lengthened(candidates[index][member], completion, *limits)

    def _score(self, searches: Sequence[Searched], candidates: Sequence[Sequence[Beam]]) -> list[list[Beam]]:
        """Score the candidates, in one call of the PRM and one call of the calibrator for all questions."""
        distinct = [tuple(dict.fromkeys(beam.steps for beam in beams)) for beams in candidates]
        requests = [
            ScoringRequest(search.question.text, steps, whole_only=True)
            for search, steps in zip(searches, distinct, strict=True)
        ]
        with plugin_guard("prm", self.prm.plugin_name, "score"):
            prefixes, logits, tokens = (self._read_states if self.from_states else self._read_scores)(requests)
        for search, count in zip(searches, tokens, strict=True):
            search.scored_tokens += count
        with plugin_guard("calibrator", "of the search", "predict"):  # It may use the model of the PRM.
            medians, rewards = self.calibrate(prefixes, logits)
        ranked_by = medians if self.strategy.rank == "calibrated" else expit(logits)
        # The rows are in the order of the distinct candidates.
        rows = iter(pd.DataFrame({"ranked_by": ranked_by, "reward": rewards, "logit": logits}).to_dict("records"))
        scores = [{steps: next(rows) for steps in of_question} for of_question in distinct]
        return [
            [replace(beam, **of_question[beam.steps]) for beam in beams]
            for beams, of_question in zip(candidates, scores, strict=True)
        ]

    def _read_scores(self, requests: Sequence[ScoringRequest]) -> tuple[list[Prefix], Floats, list[int]]:
        """Return all prefixes, their logits, and the tokens that the PRM read for each request."""
        scores = patiently(self.prm, lambda: self.prm.score_batch(requests))
        prefixes = [Prefix(request.question, steps) for request in requests for steps in request.trajectories]
        logits = np.array([score.logit[-1] for of_question in scores for score in of_question], dtype=np.float64)
        return prefixes, logits, [sum(score.tokens for score in of_question) for of_question in scores]

    def _read_states(self, requests: Sequence[ScoringRequest]) -> tuple[HiddenStates, Floats, list[int]]:
        """Do the same as `_read_scores` with states in place of prefixes. One pass gives states and scores."""
        # A forest has no row for a prefix that is too long, so each prefix is a request of its own.
        single = [replace(request, trajectories=(steps,)) for request in requests for steps in request.trajectories]
        forests = patiently(self.prm, lambda: self.prm.hidden_states(single))
        logits = np.array([forest.logit[-1] if len(forest) else np.nan for forest in forests], dtype=np.float64)
        ends = np.cumsum([len(request.trajectories) for request in requests])
        tokens = np.split([len(forest.states) for forest in forests], ends[:-1])
        states = HiddenStates.concatenate([forest[-1:] for forest in forests])
        return states, logits, [int(counts.sum()) for counts in tokens]

    def _choose(self, search: Searched, candidates: Sequence[Beam]) -> None:
        """Rank the new candidates together with finished prefixes, and keep the best."""
        finished = [old for old in search.beams if old.finished]
        competing = search.finished if self.strategy.finished == "kept" else finished
        # Python's sort is stable: among equal candidates the earlier one is first.
        ranked = sorted([*competing, *candidates], key=lambda beam: beam.rank)
        newly_finished = [beam for beam in candidates if beam.finished]
        search.finished = sorted([*search.finished, *newly_finished], key=lambda beam: beam.rank)
        search.beams = ranked[: self._number_kept(ranked)]

    def _number_kept(self, candidates: Sequence[Beam]) -> int:
        rewards = np.array([beam.reward for beam in candidates])
        highest = -np.sort(-rewards)[: self.strategy.width]  # NaN last
        return int(np.clip(self.strategy.keep(highest, self.target), 1, self.strategy.width))


def lengthened(beam: Beam, completion: Completion, most_tokens: int, most_steps: int, with_prompt: bool) -> Beam:
    """Return a prefix with one more sampled step, without rewards. A prefix is finished at a boxed answer or a limit.

    The limit of tokens is for the steps, or with `with_prompt` also for the prompt.
    """
    added = split_steps(completion.text)
    steps, drawn, tokens = beam.steps + added, beam.drawn + 1, beam.tokens + completion.tokens
    answer = find_answer(join_steps(added), whole=False)
    answered = answer is not None and not in_thought(join_steps(steps))
    length = max(tokens, completion.prompt_tokens + completion.tokens) if with_prompt else tokens
    ended = completion.finish_reason != "stop" or length >= most_tokens or drawn >= most_steps
    return Beam(steps, drawn, tokens, answered or ended)


def compute_search(shard: Shard[SearchParameters], context: Context) -> Output:
    """Return the chosen solution of each question with its costs, and all solutions that were finished."""
    parameters = shard.parameters
    llm = context.llm(parameters.llm, beside=True)
    prm = context.prm(parameters.prm, beside=True)
    questions = context.questions(parameters.data)
    with plugin_guard("strategy", parameters.strategy.name, "search"):
        strategy = parameters.strategy.build(strategies)
        assert isinstance(strategy, SearchStrategy)
        calibrator = None if parameters.calibrator is None else context.fitted_calibrator(shard, parameters.calibrator)
        calibrate = calibrating(calibrator, prm, parameters.level)
        from_states = calibrator is not None and calibrator.reads == "hidden"
        # The seed does not depend on which questions are searched together.
        settings = {name: value for name, value in shard.identity.items() if name != "data"}
        seed = seed_from_key(content_key([settings, [ref.key for refs in shard.inputs.values() for ref in refs]]))
        sampling, target = parameters.sampling, parameters.target
        beam_search = StepSearch(llm, prm, strategy, calibrate, sampling, target, seed, from_states)
        searched = beam_search.run(questions)
    counts = dict.fromkeys(("steps", "finished", "rounds", "generations"), "int32")
    tokens = dict.fromkeys(("generated_tokens", "prefill_tokens", "scored_tokens"), "int64")
    rows = [
        {
            "question_id": search.question.id,
            "text": join_steps(search.answer.steps),
            "steps": len(search.answer.steps),
            "reward": search.answer.ranked_by,
            "finished": len(search.finished),
            "rounds": search.rounds,
            "generations": search.generations,
            **{name: getattr(search, name) for name in tokens},
        }
        for search in searched
    ]
    frame = pd.DataFrame(rows).astype({**counts, **tokens})
    finished = [(search.question.id, join_steps(beam.steps)) for search in searched for beam in search.finished]
    return Output(
        {"searched": frame, "finished": pd.DataFrame(finished, columns=["question_id", "text"], dtype="str")},
        samples=int(frame["generations"].sum()),
        generated_tokens=int(frame["generated_tokens"].sum()),
        scored_tokens=int(frame["scored_tokens"].sum()),
    )


def calibrating(calibrator: Calibrator | None, prm: PRM, level: float | None) -> Calibrate:
    """Return a map from logits to rewards: a fitted calibrator, or the logistic function without one.

    A strategy without a level beta reads the median.
    """
    if calibrator is None:
        return lambda prefixes, logits: (expit(logits), expit(logits))
    two_levels = (_MEDIAN, level or _MEDIAN)
    levels = sorted(set(two_levels))
    columns = [levels.index(beta) for beta in two_levels]

    def calibrate(prefixes: Sequence[Prefix] | HiddenStates, logits: Floats) -> tuple[Floats, Floats]:
        rewards = np.full((len(logits), 2), np.nan)
        readable = ~np.isnan(logits)
        if readable.any():
            features: Any = logits[readable]
            if isinstance(prefixes, HiddenStates):
                features = prefixes
            elif calibrator.reads == "prm":
                features = ScoredPrefixes(prm, tuple(compress(prefixes, readable)), logits[readable])
            elif calibrator.reads == "reward":
                features = expit(logits[readable])
            rewards[readable] = checked_rewards(calibrator, features, levels)[:, columns]
        return rewards[:, 0], rewards[:, 1]

    return calibrate
