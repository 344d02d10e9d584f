"""What a chat model is asked: its own chat template over the question, then the steps so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prmcal.errors import PluginFailedError
from prmcal.registry.contracts.data import STEP_SEPARATOR, Prefix, Sampling, join_steps

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["chat_tokenizer", "prompt_ids", "room_for_completion"]


def chat_tokenizer(checkpoint: str) -> PreTrainedTokenizerBase:
    """The tokenizer of a chat model.

    Raises
    ------
    PluginFailedError
        If it has no chat template.
    """
    from prmcal.registry.models.pretrained import load_tokenizer

    tokenizer = load_tokenizer(checkpoint)
    if tokenizer.chat_template is None:
        raise PluginFailedError(
            f"{checkpoint} has no chat template, so there is no telling how it wants to be asked. "
            "Take an instruction-tuned model, or put a chat_template.jinja beside its tokenizer."
        )
    return tokenizer


def prompt_ids(
    tokenizer: PreTrainedTokenizerBase, prefix: Prefix, system_prompt: str | None
) -> tuple[int, ...]:
    """Token ids of a prefix: its steps begin the assistant's turn, each followed by a blank line."""
    messages = [{"role": "user", "content": prefix.question}]
    if system_prompt is not None:
        messages.insert(0, {"role": "system", "content": system_prompt})
    text = str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
    if prefix.steps:
        text += join_steps(prefix.steps) + STEP_SEPARATOR
    # The template writes the special tokens of the model's format itself.
    return tuple(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])


def room_for_completion(
    prefix: Prefix, prompt_tokens: int, sampling: Sampling, checkpoint: str, context: int
) -> int:
    """Tokens that a completion of a prefix may have in a model's context, at least 1.

    Raises
    ------
    PluginFailedError
        If there is no room.
    """
    limit = min(sampling.max_tokens, context - prompt_tokens)
    if limit < 1:
        raise PluginFailedError(
            f"A prefix of {prompt_tokens} tokens leaves no room for a completion: {checkpoint} reads {context} tokens "
            f"here. It starts {prefix.question[:60]!r}. Lower the grid's max_tokens, or take an LLM with a longer "
            "context."
        )
    return limit
