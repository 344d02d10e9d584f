"""Prompts of chat models: a chat template applied to the question, then the steps so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prmcal.errors import PluginFailedError
from prmcal.registry.contracts.data import Prefix, Sampling
from prmcal.registry.llms.chat_templates import NATIVE, check_prompt, messages_of, render
from prmcal.registry.models.chats import chat_text
from prmcal.steps import text_so_far
from prmcal.thoughts import THOUGHT_BEGINS, opens_thought

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["chat_tokenizer", "prompt_ids", "prompt_text", "room_for_completion", "token_count"]


def chat_tokenizer(checkpoint: str, chat_template: str) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a chat model.

    Raises
    ------
    PluginFailedError
        If `chat_template` is the tokenizer's own and it has none.
    """
    from prmcal.registry.models.pretrained import load_tokenizer

    tokenizer = load_tokenizer(checkpoint)
    if chat_template == NATIVE and tokenizer.chat_template is None:
        raise PluginFailedError(
            f"{checkpoint} has no chat template of its own, which would define the prompt. Use an instruction-tuned "
            "model, or set 'chat_template' to a shipped template or a file."
        )
    return tokenizer


def prompt_text(
    tokenizer: PreTrainedTokenizerBase | None, prefix: Prefix, chat_template: str, system_prompt: str | None
) -> str:
    """Return the prompt of a prefix. Its steps begin the assistant's turn, each followed by a blank line.

    Parameters
    ----------
    tokenizer : PreTrainedTokenizerBase or None
        Its special tokens are those of the template. The model's own template needs one.
    prefix : Prefix
    chat_template, system_prompt
        As in the LLM `transformers`.

    Raises
    ------
    PluginFailedError, InvalidArgumentsError
        If the template cannot write the prompt, or leaves out the question or the system prompt.
    """
    if chat_template != NATIVE:
        special_tokens = {} if tokenizer is None else tokenizer.special_tokens_map
        return _continued(render(chat_template, prefix.question, system_prompt, special_tokens), prefix)
    assert tokenizer is not None
    text = chat_text(tokenizer, messages_of(prefix.question, system_prompt))
    check_prompt(text, f"The chat template of {tokenizer.name_or_path}", prefix.question, system_prompt)
    return _continued(text, prefix)


def _continued(prompt: str, prefix: Prefix) -> str:
    """The prompt with the steps so far. If it ends with the tag of a thought, the first step does not repeat it."""
    text = text_so_far(prefix.steps)
    if opens_thought(prompt) and text.startswith(THOUGHT_BEGINS):
        text = text.removeprefix(THOUGHT_BEGINS).lstrip("\n")
        return f"{prompt}{text}" if prompt.endswith("\n") else f"{prompt}\n{text}"
    return prompt + text


def token_count(tokenizer: PreTrainedTokenizerBase, text: str) -> int:
    """Return the number of tokens of a text, without special tokens around it."""
    return len(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])


def prompt_ids(
    tokenizer: PreTrainedTokenizerBase, prefix: Prefix, chat_template: str, system_prompt: str | None
) -> tuple[int, ...]:
    """Return the token ids of :func:`prompt_text`."""
    text = prompt_text(tokenizer, prefix, chat_template, system_prompt)
    # The template writes the special tokens.
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
