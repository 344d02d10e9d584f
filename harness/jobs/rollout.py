"""The work of an LLM: trajectories, and the follow-ups of their prefixes (Definition 1).

Both are texts. No job here grades: see :mod:`prmcal.harness.jobs.grading`. The random numbers of a text follow from the
LLM, the sampling, the seed of the grid, the question, the prefix and the index of its block. So equal requests have
equal texts in any shard, and a shard takes over texts from another shard with the same requests.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pandas as pd

from prmcal.errors import DataError
from prmcal.harness.jobs.context import Context, Output
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import FollowUpParameters, RolloutParameters, SuccessParameters
from prmcal.harness.jobs.plugin_calls import plugin_guard
from prmcal.harness.jobs.stepping import stored_completions
from prmcal.harness.storage.store import content_key, seed_from_key
from prmcal.registry.contracts.data import Completion, FinishReason, GenerationRequest, Prefix
from prmcal.registry.grading.extraction import BOXED, Ways, find_answer
from prmcal.registry.network import patiently
from prmcal.steps import join_steps, split_steps

REQUEST = "request"
"""The column with the hash of everything that decides a text."""
TEXT_TABLES = {"rollout": "texts", "follow_ups": "follow_ups"}
"""The table with the texts, in the artifacts of each kind of job whose texts can be taken over."""
_DECIDING = ("llm", "sampling", "seed", "prefer_answered")
_TYPES = {"text": "str", "tokens": "int32", "prompt_tokens": "int32", "finish_reason": "str"}
_TYPES |= {"correct": "boolean", REQUEST: "str"}


@dataclass(frozen=True)
class PrefixOfTrajectory:
    """A prefix whose success rate is measured."""

    question_id: str
    trajectory: int
    step: int
    """The number of steps, t."""
    steps: tuple[str, ...]
    whole: bool
    """Whether it is the whole trajectory."""
    finish_reason: FinishReason
    """The finish reason of the trajectory."""
    correct: bool | None
    """The verdict on the trajectory, if the LLM knows it."""

    @property
    def key(self) -> str:
        """The key of a prefix. Prefixes of a question with equal keys share their follow-ups.

        The bare question gets separate follow-ups for every trajectory, since IAS depends on its success rate. A prefix
        also gets them if the verdict of its trajectory may hold for it.
        """
        is_unshared = not self.step or self.correct is not None
        return content_key([list(self.steps), self.trajectory if is_unshared else None])

    def outcome(self, follow_ups: int) -> bool | None:
        """Return the verdict on all follow-ups if the LLM knows it; None if they must be sampled.

        It knows the verdict of the whole trajectory. With one follow-up, this is the verdict of all prefixes.
        """
        return self.correct if self.whole or follow_ups == 1 else None

    def finished(self, answers: Ways = BOXED) -> bool:
        """Return whether it needs no follow-ups: it has its final answer, or the LLM ended the text here."""
        ended = self.whole and self.finish_reason == "end"
        return ended or find_answer(join_steps(self.steps), answers, self.whole) is not None


def compute_rollout(shard: Shard[RolloutParameters], context: Context) -> Output:
    """Return the trajectories of a slice of questions."""
    trajectories = shard.parameters.trajectories
    questions = context.questions(shard.parameters.data)
    drawing = Drawing(shard, context, trajectories)
    drawn = drawing.draw([(Prefix(question.text), None) for question in questions])
    rows = [
        {
            "question_id": question.id,
            "trajectory": number,
            "steps": len(split_steps(completion.text)),
            **_columns_of(completion),
            REQUEST: request,
        }
        for question, (request, completions) in zip(questions, drawn, strict=True)
        for number, completion in zip(trajectories, completions, strict=True)
    ]
    types = {"trajectory": "int32", "steps": "int32"}
    return drawing.output("texts", pd.DataFrame(rows).astype({**types, **_TYPES}))


def compute_follow_ups(shard: Shard[FollowUpParameters], context: Context) -> Output:
    """Return the follow-ups of the prefixes that are not finished, each distinct prefix once."""
    parameters, block = shard.parameters, shard.parameters.follow_ups
    questions = {question.id: question.text for question in context.questions(parameters.data)}
    prefixes = {
        (prefix.question_id, prefix.key): prefix
        for prefix in measured_prefixes(context.table(shard, "rollout", "texts"), parameters)
        if prefix.outcome(block.stop) is None and _is_followed_up(prefix, parameters.answers)
    }
    ordered = dict(sorted(prefixes.items()))
    drawing = Drawing(shard, context, block)
    texts = [Prefix(questions[prefix.question_id], prefix.steps) for prefix in ordered.values()]
    owners = [None if prefix.step else prefix.trajectory for prefix in ordered.values()]
    drawn = drawing.draw(list(zip(texts, owners, strict=True)))
    rows = [
        {"question_id": question_id, "prefix": key, "number": number, **_columns_of(text), REQUEST: request}
        for (question_id, key), (request, completions) in zip(ordered, drawn, strict=True)
        for number, text in zip(block, completions, strict=True)
    ]
    columns = ["question_id", "prefix", "number", *_TYPES]
    table = pd.DataFrame(rows, columns=columns).astype({"number": "int32", **_TYPES})
    return drawing.output("follow_ups", table.astype({"question_id": "str", "prefix": "str"}))


def _is_followed_up(prefix: PrefixOfTrajectory, answers: Ways | None) -> bool:
    if answers is None:
        return not prefix.finished()
    return prefix.finished() and not prefix.finished(answers)


def measured_prefixes(
    texts: pd.DataFrame, parameters: FollowUpParameters | SuccessParameters
) -> Iterator[PrefixOfTrajectory]:
    """Yield the prefixes whose success rates are measured. Their trajectories are those that the parameters name."""
    for row in texts[texts["trajectory"] < parameters.trajectories.stop].itertuples():
        steps: tuple[str, ...] = split_steps(row.text)
        correct = None if pd.isna(row.correct) else bool(row.correct)
        for step in chosen_prefixes(len(steps), parameters.most_prefixes, parameters.first_prefixes):
            yield PrefixOfTrajectory(
                row.question_id, row.trajectory, step, steps[:step], step == len(steps), row.finish_reason, correct
            )


def chosen_prefixes(steps: int, most_prefixes: int | None, first_prefixes: int | None = None) -> list[int]:
    """Return which prefixes of a trajectory of T steps are followed up, by their numbers of steps t.

    There are at most `most_prefixes`, at least 2: the bare question, the whole trajectory, and prefixes at equal
    distances between them, rounded to whole steps. With None, all T+1 are followed up. If `first_prefixes` is set,
    these are t = 0 to `first_prefixes` - 1 without the whole trajectory, as in the authors' code.
    """
    if first_prefixes is not None:
        return list(range(max(1, min(first_prefixes, steps))))
    if most_prefixes is None or most_prefixes > steps:
        return list(range(steps + 1))
    gaps = most_prefixes - 1
    return [(2 * number * steps + gaps) // (2 * gaps) for number in range(most_prefixes)]


class Drawing:
    """The completions of a shard: taken over from other shards with the same request, or else sampled.

    `block` has the indices of the completions of each prefix.
    """

    def __init__(self, shard: Shard[RolloutParameters | FollowUpParameters], context: Context, block: range) -> None:
        self._shard, self._context, self._block = shard, context, block
        self._draws = math.ceil(len(block) * (shard.parameters.prefer_answered or 1))
        self._samples = self._tokens = 0

    def draw(self, prefixes: Sequence[tuple[Prefix, int | None]]) -> list[tuple[str, list[Completion]]]:
        """Return the request and the completions of each prefix.

        A request has its trajectory if equal prefixes of other trajectories must have other texts. If more completions
        are sampled than kept, those with a boxed answer are kept first.
        """
        kind, identity = self._shard.ref.kind, self._shard.identity
        requests = [request_key(kind, identity, self._block, *prefix) for prefix in prefixes]
        completions_of = self._reused(set(requests))
        prefix_of = {request: prefix for request, (prefix, _) in zip(requests, prefixes, strict=True)}
        missing = {request: prefix for request, prefix in prefix_of.items() if request not in completions_of}
        for request, completions in zip(missing, self._sampled(missing), strict=True):
            if self._draws > len(self._block):
                completions = sorted(completions, key=lambda completion: find_answer(completion.text) is None)
            completions_of[request] = completions
            self._samples += len(completions)
            self._tokens += sum(completion.tokens for completion in completions)
        return [(request, completions_of[request][: len(self._block)]) for request in requests]

    def output(self, name: str, table: pd.DataFrame) -> Output:
        """Return the output of the shard with the sampled completions, without those that were taken over."""
        return Output({name: table}, samples=self._samples, generated_tokens=self._tokens)

    def _reused(self, requests: set[str]) -> dict[str, list[Completion]]:
        """Return the completions that other shards have for some requests."""
        completions_of: dict[str, list[Completion]] = {}
        for ref in self._shard.reuses:
            with suppress(DataError):  # It failed, or is damaged.
                table = self._context.store.table([ref], TEXT_TABLES[ref.kind])
                for row in table[table[REQUEST].isin(requests - completions_of.keys())].to_dict("records"):
                    completions_of.setdefault(row[REQUEST], []).append(completion_of(row))
        return completions_of

    def _sampled(self, prefixes: Mapping[str, Prefix]) -> list[list[Completion]]:
        """Sample completions for requests. Their steps follow the LLM's own splitting."""
        if not prefixes:
            return []
        parameters = self._shard.parameters
        requests = [GenerationRequest(prefix, self._draws, seed_from_key(key)) for key, prefix in prefixes.items()]
        with plugin_guard("llm", parameters.llm.name, "generate"):
            llm = self._context.llm(parameters.llm)
            completions = patiently(llm, lambda: llm.generate_batch(requests, parameters.sampling))
            return stored_completions(llm, requests, completions)


def request_key(
    kind: str, identity: Mapping[str, Any], block: range, prefix: Prefix, trajectory: int | None = None
) -> str:
    """Return the hash of everything that decides the completions of a prefix. Their seed follows from this hash.

    `identity` is the shard's; only some of its parameters count. `trajectory` is as in :meth:`Drawing.draw`.
    """
    deciding = {name: identity[name] for name in _DECIDING}
    return content_key([kind, deciding, [block.start, block.stop], prefix.question, list(prefix.steps), trajectory])


def _columns_of(completion: Completion) -> dict[str, Any]:
    """Return a completion as columns of a row. `asdict` would copy the values, which takes longer than a table."""
    return {name: getattr(completion, name) for name in Completion.__slots__}


def completion_of(row: Mapping[str, Any]) -> Completion:
    """Return a completion from the columns of a row."""
    correct = None if pd.isna(row["correct"]) else bool(row["correct"])
    return Completion(row["text"], row["tokens"], row["finish_reason"], row["prompt_tokens"], correct)
