"""Texts of LLMs in the form in which they are stored, and the single steps of a search.

A step of a search ends at a blank line.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from prmcal.registry.contracts import data
from prmcal.registry.contracts.models import LLM
from prmcal.registry.contracts.results import check_completions, require_length
from prmcal.registry.network import patiently
from prmcal.registry.splitting import StepSplitting, split_text
from prmcal.steps import STEP_SEPARATOR, THOUGHT_BEGINS, in_thought, stored_text, text_so_far, without_marks


def in_steps(llm: LLM, prefix: data.Prefix, completions: Sequence[data.Completion]) -> list[data.Completion]:
    """Return the completions of a prefix as they are stored.

    If the prompt of a bare question ends with the tag that begins a thought, the completion gets this tag. The finish
    reason of a thought that was cut off is ``thought``. A mark ends every step of the LLM's own rule, unless blank
    lines do. The rest of the text is unchanged.
    """
    splitting = StepSplitting.of(llm.splitting)
    thinking = starts_in_thought(llm, prefix)
    converted = []
    for completion in completions:
        text = without_marks(completion.text)
        if thinking and not prefix.steps and not text.lstrip().startswith(THOUGHT_BEGINS):
            text = THOUGHT_BEGINS + "\n" + text.lstrip("\n")
        if splitting.changes_texts:
            text = stored_text(split_text(text, splitting, thinking, llm.count_tokens))
        cut_off = completion.finish_reason == "length" and in_thought(text_so_far(prefix.steps) + text)
        reason: data.FinishReason = "thought" if cut_off else completion.finish_reason
        converted.append(replace(completion, text=text, finish_reason=reason))
    return converted


def starts_in_thought(llm: LLM, prefix: data.Prefix) -> bool:
    """Return whether the completions of a prefix begin inside a thought."""
    if prefix.steps:
        return in_thought(text_so_far(prefix.steps))
    return llm.opens_thought(prefix.question)


def stored_completions(
    llm: LLM, requests: Sequence[tuple[data.Prefix, int]], completions_of: Any
) -> list[list[data.Completion]]:
    """Return the completions of an LLM for prefixes, each with a number of completions, in their stored form.

    Raises a FaultyPluginError unless the numbers are right and the completions can be stored.
    """
    require_length(completions_of, len(requests), "lists of completions")
    for (_, count), completions in zip(requests, completions_of, strict=True):
        check_completions(completions, count)
    return [in_steps(llm, prefix, texts) for (prefix, _), texts in zip(requests, completions_of, strict=True)]


def next_steps(
    llm: LLM, requests: Sequence[data.GenerationRequest], sampling: data.Sampling
) -> list[list[data.Completion]]:
    """Continue several prefixes by one step each, in one call.

    `sampling` is for whole trajectories. Completions have their stored form. The finish reason is ``stop`` if the LLM
    may have had more to say.
    """
    if not requests:
        return []
    until = replace(sampling, stop=tuple(dict.fromkeys([*sampling.stop, STEP_SEPARATOR])))
    completions = patiently(llm, lambda: llm.generate_batch(requests, until))
    return stored_completions(llm, [(request.prefix, request.n) for request in requests], completions)
