"""The LLM `openai-chat`: any server with the chat completions API of OpenAI."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from prmcal.errors import PluginFailedError
from prmcal.registry.contracts.data import Prefix
from prmcal.registry.llms.openai import ServedLLM
from prmcal.registry.llms.prompts import messages_of
from prmcal.steps import THOUGHT_BEGINS, THOUGHT_ENDS, in_thought, text_so_far

Continues = Literal["vllm", "prefix", "none"]
"""The way in which a server is asked to continue the assistant's last message instead of answering it."""

_REASONING = ("reasoning", "reasoning_content")
"""The fields in which servers return the thoughts of an LLM beside its answer. vLLM calls it by the first name."""


def reply_text(message: Mapping[str, Any], so_far: str) -> str:
    """Return the text of a reply, with the thoughts of a reasoning LLM between ``<think>`` and ``</think>``.

    A server that separates the two removes these tags. They are put back as the LLM wrote them, so that the text, cut
    into steps, can be continued. The assistant's message has ``content``, and ``reasoning`` or ``reasoning_content``.
    Each may be absent or null. If the text that it continues, `so_far`, ends within thoughts, they go on without
    another ``<think>``.
    """
    content = message.get("content") or ""
    thoughts = next((message[name] for name in _REASONING if message.get(name)), "")
    if not thoughts:
        return str(content)
    thoughts = thoughts if in_thought(so_far) else f"{THOUGHT_BEGINS}\n{thoughts.lstrip()}"
    if not content:  # The completion ended before the answer.
        return thoughts
    return f"{thoughts.rstrip()}\n{THOUGHT_ENDS}\n\n{content.lstrip()}"


@dataclass(eq=False)
class OpenAIChatLLM(ServedLLM):
    """A model behind chat completions, with one completion per request and many requests in parallel.

    The server writes the prompt with its own chat template, so no tokenizer is needed here. The steps of a prefix are
    the beginning of the assistant's message, each followed by a blank line. `continues` says how the server is asked to
    go on from there.

    Notes
    -----
    Every completion has its own seed, as in the LLM `openai`, and reasons to stop are understood as there. DeepSeek and
    others ignore seeds.

    A server for reasoning models returns thoughts apart from the answer, in ``reasoning`` or ``reasoning_content``.
    They are put back in front of the answer, between ``<think>`` and ``</think>``.

    A prefix is continued as well as the server's chat template writes it. One that trims messages, such as Llama 3's,
    removes the blank line at the end of a prefix. The model then writes it again, and a search that stops at blank
    lines sees an empty step. Templates of reasoning models rewrite thoughts that are not finished. The LLM `openai`
    writes its prompts itself and does not depend on this.
    """

    version = "2"
    path = "/chat/completions"

    continues: Continues = field(kw_only=True)
    """The way to continue a prefix. ``vllm`` sends ``continue_final_message: true`` and ``add_generation_prompt:
    false``, for vLLM and SGLang. ``prefix`` marks the assistant's message with ``prefix: true``, for DeepSeek and
    Mistral. With ``none`` the LLM can only write whole solutions: success rates by follow-ups and beam search fail."""

    def identity(self) -> dict[str, Any]:
        """Return the identity: the model, and what it is asked. The server is not part of it."""
        known = super().identity()
        decisive = ("model", "weights", "system_prompt", "continues")
        known["arguments"] = {name: known["arguments"].get(name) for name in decisive}
        if self.few_shot:
            known["arguments"]["few_shot"] = [dict(each) for each in self.few_shot]
        return known

    def asked(self, prefix: Prefix) -> dict[str, Any]:
        """Return the messages of a prefix.

        Raises a PluginFailedError if the prefix has steps and `continues` is ``none``.
        """
        asked = messages_of(prefix.question, self.system_prompt, self.few_shot)
        messages: list[dict[str, Any]] = [dict(each) for each in asked]
        if not prefix.steps:
            return {"messages": messages}
        last = {"role": "assistant", "content": text_so_far(prefix.steps)}
        match self.continues:
            case "vllm":
                open_ended = {"add_generation_prompt": False, "continue_final_message": True}
                return {"messages": [*messages, last], **open_ended}
            case "prefix":
                return {"messages": [*messages, {**last, "prefix": True}]}
            case "none":
                raise PluginFailedError(
                    "With 'continues: none' an LLM can only write whole solutions, and a prefix of "
                    f"{len(prefix.steps)} steps was to be continued. Follow-ups, what is fitted to their success "
                    "rates, and beam search cannot run with it. Set 'continues' to 'vllm' (vLLM, SGLang) or 'prefix' "
                    "(DeepSeek, Mistral) if the server can continue a message, or use the LLM 'openai' with a "
                    "completions interface. What needs only whole solutions, such as best-of-n without a calibrator, "
                    "is not affected."
                )

    def prompt(self, question: str) -> str:
        """Return the messages of a bare question as JSON. The server's template writes the prompt of them."""
        return json.dumps(self.asked(Prefix(question))["messages"], ensure_ascii=False, indent=1)

    def text_of(self, choice: Mapping[str, Any], request: Mapping[str, Any]) -> str:
        """Return the text of a choice, its thoughts included."""
        last = request["messages"][-1]
        return reply_text(choice["message"], last["content"] if last["role"] == "assistant" else "")
