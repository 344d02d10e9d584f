"""Prompts of chat models: the chat template applied to the question, then the steps so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prmcal.errors import PluginFailedError
from prmcal.registry.contracts.data import Prefix, Sampling
from prmcal.steps import text_so_far

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["chat_tokenizer", "prompt_ids", "room_for_completion"]


def chat_tokenizer(checkpoint: str) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a chat model.

    Raises
    ------
    PluginFailedError
        If the tokenizer has no chat template.
    """
    from prmcal.registry.models.pretrained import load_tokenizer

    tokenizer = load_tokenizer(checkpoint)
    if tokenizer.chat_template is None:
        raise PluginFailedError(
            f"{checkpoint} has no chat template, which defines the prompt. "
            "Use an instruction-tuned model, or put a chat_template.jinja beside its tokenizer."
        )
    return tokenizer


def prompt_ids(
    tokenizer: PreTrainedTokenizerBase, prefix: Prefix, system_prompt: str | None
) -> tuple[int, ...]:
    """Return the token ids of a prefix. Its steps begin the assistant's turn, each followed by a blank line."""
    messages = [{"role": "user", "content": prefix.question}]
    if system_prompt is not None:
        messages.insert(0, {"role": "system", "content": system_prompt})
    text = str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
    text += text_so_far(prefix.steps)
    # The template contains the special tokens.
    return tuple(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])


def room_for_completion(
    prefix: Prefix, prompt_tokens: int, sampling: Sampling, checkpoint: str, context: int
) -> int:
    """Return the maximum number of tokens of a completion, at least 1, given the model's context.

    Raises
    ------
    PluginFailedError
        If the prompt fills the context.
    """
    limit = min(sampling.max_tokens, context - prompt_tokens)
    if limit < 1:
        raise PluginFailedError(
            f"A prefix of {prompt_tokens} tokens leaves no room for a completion: the context of {checkpoint} is "
            f"{context} tokens. The prefix starts with {prefix.question[:60]!r}. Lower the grid's max_tokens, or use "
            "an LLM with a longer context."
        )
    return limit
