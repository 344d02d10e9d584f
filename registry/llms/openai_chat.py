"""The LLM `openai-chat`: a server with OpenAI's chat completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prmcal.registry.contracts.data import Prefix
from prmcal.registry.contracts.ranges import Count, Positive
from prmcal.registry.llms.chat_replies import Continues, chat_request, reply_text
from prmcal.registry.llms.completions import ServedLLM
from prmcal.registry.network import DEFAULT_PATIENCE
from prmcal.registry.servers import Address
from prmcal.registry.splitting.argument import BLANK_LINE, Splitting

__all__ = ["OpenAIChatLLM"]


class OpenAIChatLLM(ServedLLM):
    """A model behind chat completions, with one completion per request and many requests in parallel.

    The server writes the prompt with its own chat template, so no tokenizer is needed here. The steps of a prefix are
    the beginning of the assistant's message, each followed by a blank line. `continues` says how the server is told to
    go on from there.

    Parameters
    ----------
    base_url : str
        The address, such as ``http://localhost:8000/v1``. ``/chat/completions`` is appended.
    model : str
        The name of the model on the server.
    continues : {"vllm", "prefix", "none"}
        How a prefix is continued. ``vllm`` sends ``continue_final_message: true`` and ``add_generation_prompt: false``,
        for vLLM and SGLang. ``prefix`` marks the assistant's message with ``prefix: true``, for DeepSeek and Mistral.
        With ``none`` the LLM can only write whole solutions: success rates by follow-ups and beam search fail.
    system_prompt : str, optional
        The system message of the chat. With None, there is none, and the server's chat template decides.
    weights : str, default=""
        A text that identifies the server's weights among those with the same name, such as a commit. It is part of the
        job keys.
    key_variable : str, optional
        The environment variable with the server's key. The key itself is not an argument and is never stored.
    concurrency, timeout, patience
        As in the LLM `openai`.
    splitting : str or mapping, default="blank-line"
        Where the steps of the texts end, as in the LLM `openai`. The limits of a step count words.

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

    path = "/chat/completions"

    def __init__(
        self,
        base_url: Address,
        model: str,
        continues: Continues,
        system_prompt: str | None = None,
        weights: str = "",
        key_variable: str | None = None,
        concurrency: Count = 64,
        timeout: Positive = 600.0,
        patience: Positive = DEFAULT_PATIENCE,
        splitting: Splitting = BLANK_LINE,
    ) -> None:
        self.base_url = base_url
        self.model = model
        self.continues = continues
        self.system_prompt = system_prompt
        self.weights = weights
        self.key_variable = key_variable
        self.concurrency = concurrency
        self.timeout = timeout
        self.patience = patience
        self.splitting = splitting

    def identity(self) -> dict[str, Any]:
        """Return the identity: the model, and what it is asked. The server is not part of it."""
        known = super().identity()
        decisive = ("model", "weights", "system_prompt", "continues")
        known["arguments"] = {name: known["arguments"].get(name) for name in decisive}
        return known

    def asked(self, prefix: Prefix) -> dict[str, Any]:
        """Return the messages of a prefix.

        Raises
        ------
        PluginFailedError
            If the prefix has steps and `continues` is ``none``.
        """
        return chat_request(prefix, self.system_prompt, self.continues)

    def text_of(self, choice: Mapping[str, Any], request: Mapping[str, Any]) -> str:
        """Return the text of a choice, its thoughts included."""
        last = request["messages"][-1]
        return reply_text(choice["message"], last["content"] if last["role"] == "assistant" else "")
