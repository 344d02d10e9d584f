"""Draw the next steps of a search. Each ends where a step of the LLM ends by its own splitting.

The LLM is stopped at a blank line, at the end of a thought or before a marker, as its splitting asks. If the step is
not complete there, because it is too short or has only begun a thought, the LLM goes on from there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from prmcal.harness.jobs.context import require_length
from prmcal.harness.jobs.rollout import check_completions, in_steps, starts_in_thought
from prmcal.harness.storage.keys import content_key, seed_from_key
from prmcal.registry.contracts.data import Completion, GenerationRequest, Prefix, Sampling
from prmcal.registry.contracts.llm import LLM
from prmcal.registry.network import patiently
from prmcal.registry.splitting.argument import StepSplitting
from prmcal.steps import STEP_SEPARATOR, split_steps, text_so_far
from prmcal.thoughts import THOUGHT_ENDS, in_thought

__all__ = ["next_steps"]


def next_steps(llm: LLM, requests: Sequence[GenerationRequest], sampling: Sampling) -> list[list[Completion]]:
    """Continue several prefixes by one step each, in as few calls as possible.

    Parameters
    ----------
    llm : LLM
    requests : sequence of GenerationRequest
    sampling : Sampling
        How whole trajectories are sampled.

    Returns
    -------
    list of list of Completion
        For each request its completions, in the form in which texts are stored. The finish reason is ``stop`` if the
        LLM may have had more to say. A text can have several steps: with markers, or if it had to be cut.
    """
    drawn = _generated(llm, requests, sampling)
    for _ in range(sampling.max_tokens):  # Every further piece has at least one token.
        begun = [
            (place, number)
            for place, request in enumerate(requests)
            for number, each in enumerate(drawn[place])
            if _goes_on(llm, request.prefix, each, sampling)
        ]
        if not begun:
            break
        pieces = _generated(
            llm, [_rest(requests[place], number, drawn[place][number]) for place, number in begun], sampling
        )
        for (place, number), (piece,) in zip(begun, pieces, strict=True):
            drawn[place][number] = _joined(llm, requests[place].prefix, drawn[place][number], piece)
    return drawn


def _generated(llm: LLM, requests: Sequence[GenerationRequest], sampling: Sampling) -> list[list[Completion]]:
    """The completions of some requests up to their stop strings, in one call for all requests with the same ones."""
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, each in enumerate(requests):
        groups[_stops(llm, each.prefix, sampling)].append(place)
    found: list[list[Completion]] = [[] for _ in requests]
    for stop, places in groups.items():
        own = [requests[place] for place in places]
        until = replace(sampling, stop=stop)
        completions = patiently(llm, partial(llm.generate_batch, own, until))
        require_length(completions, len(own), "lists of completions")
        for place, request, drawn in zip(places, own, completions, strict=True):
            check_completions(drawn, request.n)
            if stop[-1] == THOUGHT_ENDS:
                drawn = [_with_end(each) for each in drawn]
            found[place] = in_steps(llm, request.prefix, drawn)
    return found


def _stops(llm: LLM, prefix: Prefix, sampling: Sampling) -> tuple[str, ...]:
    """Where the LLM is stopped: the stop strings of the sampling, and those of its splitting behind them."""
    splitting = StepSplitting.of(llm.splitting)
    ends: tuple[str, ...] = (STEP_SEPARATOR,)
    if splitting.rule == "after-think" and starts_in_thought(llm, prefix):
        ends = (THOUGHT_ENDS,)
    elif splitting.rule == "markers" and starts_in_thought(llm, prefix):
        ends = tuple(f"{before}{word}" for word in splitting.markers for before in (" ", "\n"))
    return tuple(dict.fromkeys([*sampling.stop, *ends]))


def _with_end(completion: Completion) -> Completion:
    """Put back the end of a thought, at which the LLM was stopped."""
    if completion.finish_reason != "stop":
        return completion
    return replace(completion, text=completion.text.rstrip("\n") + f"\n{THOUGHT_ENDS}")


def _goes_on(llm: LLM, prefix: Prefix, completion: Completion, sampling: Sampling) -> bool:
    """Whether a step is not complete where the LLM was stopped."""
    splitting = StepSplitting.of(llm.splitting)
    if (
        not splitting.changes_texts
        or completion.finish_reason != "stop"
        or completion.tokens >= sampling.max_tokens
    ):
        return False
    if splitting.rule == "after-think" and in_thought(text_so_far(prefix.steps) + completion.text):
        return True
    steps = split_steps(completion.text)
    return splitting.least_tokens is not None and (
        not steps or llm.count_tokens(steps[-1]) < splitting.least_tokens
    )


def _rest(request: GenerationRequest, number: int, begun: Completion) -> GenerationRequest:
    """The request of what comes after the beginning of a step."""
    steps = request.prefix.steps + split_steps(begun.text)
    seed = seed_from_key(content_key([request.seed, number, begun.tokens]))
    return GenerationRequest(Prefix(request.prefix.question, steps), 1, seed)


def _joined(llm: LLM, prefix: Prefix, begun: Completion, piece: Completion) -> Completion:
    """The beginning of a step with what came after it."""
    whole = replace(
        piece,
        text=text_so_far(split_steps(begun.text)) + piece.text,
        tokens=begun.tokens + piece.tokens,
        prompt_tokens=begun.prompt_tokens,
    )
    return in_steps(llm, prefix, [whole])[0]
