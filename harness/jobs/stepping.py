"""Texts of LLMs in the form in which they are stored, and the single steps of a search.

A step of a search ends where a step of the LLM ends by its own splitting. The LLM is stopped at a blank line, at the
end of a thought or before a marker, as its splitting asks. If the step is not complete there, because it is too short
or has only begun a thought, the LLM goes on from there.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from prmcal.harness.storage.store import content_key, seed_from_key
from prmcal.registry.contracts import data
from prmcal.registry.contracts.models import LLM
from prmcal.registry.contracts.results import check_completions, require_length
from prmcal.registry.network import patiently
from prmcal.registry.splitting import BY_LINE, StepSplitting, split_text
from prmcal.steps import (
    STEP_SEPARATOR,
    THOUGHT_BEGINS,
    THOUGHT_ENDS,
    Step,
    in_thought,
    split_steps,
    stored_text,
    text_so_far,
    without_marks,
)


def in_steps(llm: LLM, prefix: data.Prefix, completions: Sequence[data.Completion]) -> list[data.Completion]:
    """Return the completions of a prefix as they are stored.

    If the prompt of a bare question ends with the tag that begins a thought, the completion gets this tag. The finish
    reason of a thought that was cut off is ``thought``. A mark ends every step of the LLM's own rule, unless blank
    lines do. All else stays as it was sampled.
    """
    splitting = StepSplitting.of(llm.splitting)
    thinking = starts_in_thought(llm, prefix)
    stored = []
    for each in completions:
        text = without_marks(each.text)
        if thinking and not prefix.steps and not text.lstrip().startswith(THOUGHT_BEGINS):
            text = THOUGHT_BEGINS + "\n" + text.lstrip("\n")
        if splitting.changes_texts:
            text = stored_text(split_text(text, splitting, thinking, llm.count_tokens))
        cut_off = each.finish_reason == "length" and in_thought(text_so_far(prefix.steps) + text)
        reason: data.FinishReason = "thought" if cut_off else each.finish_reason
        stored.append(replace(each, text=text, finish_reason=reason))
    return stored


def starts_in_thought(llm: LLM, prefix: data.Prefix) -> bool:
    """Return whether the completions of a prefix begin inside a thought."""
    if prefix.steps:
        return in_thought(text_so_far(prefix.steps))
    return llm.opens_thought(prefix.question)


def stored(llm: LLM, asked: Sequence[tuple[data.Prefix, int]], found: Any) -> list[list[data.Completion]]:
    """Return what an LLM gave for prefixes with the number of completions asked of each, as it is stored.

    Raises a FaultyPluginError unless these are as many completions, which can be stored.
    """
    require_length(found, len(asked), "lists of completions")
    for (_, n), drawn in zip(asked, found, strict=True):
        check_completions(drawn, n)
    return [in_steps(llm, prefix, drawn) for (prefix, _), drawn in zip(asked, found, strict=True)]


def next_steps(
    llm: LLM, requests: Sequence[data.GenerationRequest], sampling: data.Sampling
) -> list[list[data.Completion]]:
    """Continue several prefixes by one step each, in as few calls as possible.

    `sampling` is that of whole trajectories. For each request, its completions have the form in which texts are stored.
    The finish reason is ``stop`` if the LLM may have had more to say. A text can have several steps: with markers, or
    if it had to be cut.
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


def _generated(
    llm: LLM, requests: Sequence[data.GenerationRequest], sampling: data.Sampling
) -> list[list[data.Completion]]:
    """Return the completions of requests up to their stop strings. Requests with the same ones share a call."""
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, each in enumerate(requests):
        groups[_stops(llm, each.prefix, sampling)].append(place)
    found: list[list[data.Completion]] = [[] for _ in requests]
    for stop, places in groups.items():
        own = [requests[place] for place in places]
        until = replace(sampling, stop=stop)
        completions = patiently(llm, partial(llm.generate_batch, own, until))
        require_length(completions, len(own), "lists of completions")
        for place, request, drawn in zip(places, own, completions, strict=True):
            check_completions(drawn, request.n)
            if stop[-1] != STEP_SEPARATOR:
                drawn = [_with_end(each, stop[-1]) for each in drawn]
            found[place] = in_steps(llm, request.prefix, drawn)
    return found


def _stops(llm: LLM, prefix: data.Prefix, sampling: data.Sampling) -> tuple[str, ...]:
    """Return where the LLM is stopped: the stop strings of the sampling, and those of its splitting behind them."""
    splitting = StepSplitting.of(llm.splitting)
    ends: tuple[str, ...] = ("\n",) if splitting.rule in BY_LINE else (STEP_SEPARATOR,)
    if splitting.rule == "after-think" and starts_in_thought(llm, prefix):
        ends = (THOUGHT_ENDS,)
    elif splitting.rule == "markers" and starts_in_thought(llm, prefix):
        ends = tuple(f"{before}{word}" for word in splitting.markers for before in (" ", "\n"))
    return tuple(dict.fromkeys([*sampling.stop, *ends]))


def _with_end(completion: data.Completion, end: str) -> data.Completion:
    """Put back the end of a thought or of a line, at which the LLM was stopped. Markers begin the next step."""
    if completion.finish_reason != "stop" or end not in (THOUGHT_ENDS, "\n"):
        return completion
    text = completion.text.rstrip("\n") + "\n" if end == THOUGHT_ENDS else completion.text
    return replace(completion, text=text + end)


def _goes_on(llm: LLM, prefix: data.Prefix, completion: data.Completion, sampling: data.Sampling) -> bool:
    """Return whether a step is not complete where the LLM was stopped."""
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
    if not steps:
        return splitting.least_tokens is not None or splitting.rule in BY_LINE
    return splitting.least_tokens is not None and llm.count_tokens(steps[-1]) < splitting.least_tokens


def _rest(request: data.GenerationRequest, number: int, begun: data.Completion) -> data.GenerationRequest:
    """Return the request of what comes after the beginning of a step."""
    added = split_steps(begun.text)
    steps = request.prefix.steps + added
    if steps and not added:  # White space alone belongs to the step before it.
        steps = (*steps[:-1], Step(text_so_far(steps[-1:]) + begun.text))
    seed = seed_from_key(content_key([request.seed, number, begun.tokens]))
    return data.GenerationRequest(data.Prefix(request.prefix.question, steps), 1, seed)


def _joined(llm: LLM, prefix: data.Prefix, begun: data.Completion, piece: data.Completion) -> data.Completion:
    """Return the beginning of a step with what came after it."""
    whole = replace(
        piece,
        text=(text_so_far(split_steps(begun.text)) or begun.text) + piece.text,
        tokens=begun.tokens + piece.tokens,
        prompt_tokens=begun.prompt_tokens,
    )
    return in_steps(llm, prefix, [whole])[0]
