"""What a chat server is sent for a prefix, and the text of its reply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from prmcal.errors import PluginFailedError
from prmcal.registry.contracts.data import Prefix
from prmcal.registry.llms.chat_templates import messages_of
from prmcal.steps import text_so_far
from prmcal.thoughts import THOUGHT_BEGINS, THOUGHT_ENDS, in_thought

__all__ = ["Continues", "chat_request", "reply_text"]

Continues = Literal["vllm", "prefix", "none"]
"""How a server is told to continue the assistant's last message instead of answering it."""

_REASONING = ("reasoning", "reasoning_content")
"""The fields in which servers return the thoughts of an LLM beside its answer. vLLM calls it by the first name."""


def chat_request(prefix: Prefix, system_prompt: str | None, continues: Continues) -> dict[str, Any]:
    """Return the fields of a request that hold a prefix. Its steps are the beginning of the assistant's message.

    Raises
    ------
    PluginFailedError
        If the prefix has steps, and the server cannot continue a message.
    """
    messages: list[dict[str, Any]] = [dict(each) for each in messages_of(prefix.question, system_prompt)]
    if not prefix.steps:
        return {"messages": messages}
    last = {"role": "assistant", "content": text_so_far(prefix.steps)}
    match continues:
        case "vllm":
            open_ended = {"add_generation_prompt": False, "continue_final_message": True}
            return {"messages": [*messages, last], **open_ended}
        case "prefix":
            return {"messages": [*messages, {**last, "prefix": True}]}
        case "none":
            raise PluginFailedError(
                "With 'continues: none' an LLM can only write whole solutions, and a prefix of "
                f"{len(prefix.steps)} steps was to be continued. Follow-ups, what is fitted to their success rates, "
                "and beam search cannot run with it. Set 'continues' to 'vllm' (vLLM, SGLang) or 'prefix' (DeepSeek, "
                "Mistral) if the server can continue a message, or use the LLM 'openai' with a completions interface. "
                "What needs only whole solutions, such as best-of-n without a calibrator, is not affected."
            )


def reply_text(message: Mapping[str, Any], so_far: str) -> str:
    """Return the text of a reply, with the thoughts of a reasoning LLM between ``<think>`` and ``</think>``.

    A server that separates the two removes these tags. They are put back as the LLM wrote them, so that the text, cut
    into steps, can be continued.

    Parameters
    ----------
    message : mapping
        The assistant's message: ``content``, and ``reasoning`` or ``reasoning_content``. Each may be absent or null.
    so_far : str
        The text that the message continues. If it ends within thoughts, they go on without another ``<think>``.
    """
    content = message.get("content") or ""
    thoughts = next((message[name] for name in _REASONING if message.get(name)), "")
    if not thoughts:
        return str(content)
    thoughts = thoughts if in_thought(so_far) else f"{THOUGHT_BEGINS}\n{thoughts.lstrip()}"
    if not content:  # The completion ended before the answer.
        return thoughts
    return f"{thoughts.rstrip()}\n{THOUGHT_ENDS}\n\n{content.lstrip()}"
