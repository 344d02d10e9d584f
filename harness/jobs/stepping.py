"""Texts of LLMs in their stored form, and the single steps of a search.

A step of a search ends at a blank line.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from prmcal.registry.contracts.data import Completion, FinishReason, GenerationRequest, Prefix, Sampling
from prmcal.registry.contracts.models import LLM
from prmcal.registry.contracts.results import check_completions, require_length
from prmcal.registry.network import patiently
from prmcal.registry.splitting import StepSplitting, split_text
from prmcal.steps import STEP_SEPARATOR, THOUGHT_BEGINS, in_thought, stored_text, text_so_far, without_marks


def in_steps(llm: LLM, prefix: Prefix, completions: Sequence[Completion]) -> list[Completion]:
    """Return the completions of a prefix as they are stored.

    If the prompt of a bare question ends with the tag that begins a thought, the completion gets this tag. The finish
    reason of a thought that was cut off is ``thought``. A mark ends every step of the LLM's own rule, unless blank
    lines do. The rest of the text is unchanged.
    """
    splitting = StepSplitting.of(llm.splitting)
    thinking = in_thought(text_so_far(prefix.steps)) if prefix.steps else llm.opens_thought(prefix.question)
    converted = []
    for completion in completions:
        text = without_marks(completion.text)
        if thinking and not prefix.steps and not text.lstrip().startswith(THOUGHT_BEGINS):
            text = THOUGHT_BEGINS + "\n" + text.lstrip("\n")
        if splitting.changes_texts:
            text = stored_text(split_text(text, splitting, thinking, llm.count_tokens))
        cut_off = completion.finish_reason == "length" and in_thought(text_so_far(prefix.steps) + text)
        reason: FinishReason = "thought" if cut_off else completion.finish_reason
        converted.append(replace(completion, text=text, finish_reason=reason))
    return converted


def stored_completions(llm: LLM, requests: Sequence[GenerationRequest], completions_of: Any) -> list[list[Completion]]:
    """Return the completions of an LLM for some requests, in their stored form.

    Raises a FaultyPluginError unless the numbers are right and the completions can be stored.
    """
    require_length(completions_of, len(requests), "lists of completions")
    for request, completions in zip(requests, completions_of, strict=True):
        check_completions(completions, request.n)
    return [in_steps(llm, request.prefix, texts) for request, texts in zip(requests, completions_of, strict=True)]


def next_steps(llm: LLM, requests: Sequence[GenerationRequest], sampling: Sampling) -> list[list[Completion]]:
    """Continue several prefixes by one step each, in one call.

    `sampling` is for whole trajectories. Completions have their stored form. The finish reason is ``stop`` if the LLM
    may have had more to say.
    """
    if not requests:
        return []
    until = replace(sampling, stop=tuple(dict.fromkeys([*sampling.stop, STEP_SEPARATOR])))
    completions = patiently(llm, lambda: llm.generate_batch(requests, until))
    return stored_completions(llm, requests, completions)
