"""The LLM `openai`: a server with OpenAI's completions interface, such as vLLM, SGLang or llama.cpp."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from prmcal.registry.contracts.data import Prefix
from prmcal.registry.contracts.ranges import Count, Positive
from prmcal.registry.llms.chat_templates import NATIVE, check_chat_template, prompt_identity
from prmcal.registry.llms.completions import ServedLLM
from prmcal.registry.models.checkpoints import check_checkpoint, checkpoint_identity
from prmcal.registry.network import DEFAULT_PATIENCE
from prmcal.registry.servers import Address
from prmcal.registry.splitting.argument import BLANK_LINE, Splitting
from prmcal.thoughts import opens_thought

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["OpenAILLM"]


class OpenAILLM(ServedLLM):
    """A model on a server, with one completion per request and many requests in parallel.

    The completions interface is used: its prompt is written here, by a chat template as in the LLM `transformers`. So
    a prefix is continued in the same way on every server. For servers that have only chat completions, there is the
    LLM `openai-chat`.

    Parameters
    ----------
    base_url : str
        The address, such as ``http://localhost:8000/v1``. ``/completions`` is appended.
    model : str
        The name of the model on the server.
    tokenizer : str, optional
        A checkpoint with the server's tokenizer: a folder, a hub id with or without ``@REVISION``, or ``nano:NAME``.
        Prompts are then sent as token ids. Without it they are sent as text, to which most servers add the token for
        the beginning.
    chat_template : str, default="native"
        The template that writes the prompt, as in the LLM `transformers`. The default, the tokenizer's own, needs a
        `tokenizer`. Without one, a template's special tokens such as ``bos_token`` are empty.
    system_prompt : str, optional
        The system message of the chat. With None, there is none, and the chat template decides.
    weights : str, default=""
        A text that identifies the server's weights among those with the same name, such as a commit. It is part of the
        job keys.
    key_variable : str, optional
        The environment variable with the server's key. The key itself is not an argument and is never stored.
    concurrency : int, default=64
        The number of parallel requests.
    timeout : float, default=600
        The time limit of a request in seconds.
    patience : float, default=300
        The seconds for which a request is sent again, with growing pauses, after its first failure. A request is
        repeated if the server is down, slow, busy (429) or broken (5xx), or if its reply is incomplete. A
        ``Retry-After`` of the server is respected.
    splitting : str or mapping, default="blank-line"
        Where the steps of the texts end: ``blank-line``, ``markers`` or ``after-think``. Or a mapping with `rule`, one
        of these, and the options `markers` (a list of words), `least_tokens` and `most_tokens`. See the how-to page
        about reasoning models.
        Without a `tokenizer`, the limits of a step count words.

    Notes
    -----
    Every completion has its own seed, a function of (seed, index of the prefix, index of the completion). So the first
    8 of 64 completions are those of n = 8, if the texts of the server depend on the seed alone.

    OpenAI's interface has one word for an end token and for a stop string. vLLM also returns ``stop_reason``, and
    SGLang ``matched_stop``, which say which of the two it was. If a server returns neither, a completion that was not
    cut off counts as ended at a stop string (``stop``) if the sampling has stop strings, and otherwise at the end
    token.
    """

    version = "2"
    path = "/completions"

    def __init__(
        self,
        base_url: Address,
        model: str,
        tokenizer: str | None = None,
        chat_template: str = NATIVE,
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
        self.tokenizer = tokenizer
        self.chat_template = chat_template
        self.system_prompt = system_prompt
        self.weights = weights
        self.key_variable = key_variable
        self.concurrency = concurrency
        self.timeout = timeout
        self.patience = patience
        self.splitting = splitting

    def check_arguments(self) -> None:
        """Raise an error if nothing can write the prompt, or if there is no such tokenizer."""
        if self.tokenizer is None and self.chat_template == NATIVE:
            raise ValueError(
                "Give 'tokenizer', the checkpoint whose own chat template writes the prompt, or a 'chat_template'."
            )
        if self.tokenizer is not None:
            check_checkpoint(self.tokenizer)
        check_chat_template(self.chat_template, self.system_prompt)

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """The checkpoint of the tokenizer, if there is one."""
        return () if self.tokenizer is None else (self.tokenizer,)

    def identity(self) -> dict[str, Any]:
        """Return the identity: the model and its prompt. The server is not part of it."""
        known = super().identity()
        known["arguments"] = {name: known["arguments"].get(name) for name in ("model", "weights")}
        known["prompt"] = prompt_identity(self.chat_template, self.system_prompt)
        if self.tokenizer is not None:
            known["tokenizer"] = checkpoint_identity(self.tokenizer)
        return known

    def asked(self, prefix: Prefix) -> dict[str, Any]:
        """Return the prompt of a prefix: token ids, or text if there is no tokenizer."""
        return {"prompt": self._prompt(prefix)}

    def text_of(self, choice: Mapping[str, Any], request: Mapping[str, Any]) -> str:
        """Return the text of a choice."""
        text: str = choice["text"]
        return text

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of a text, or of its words if there is no tokenizer."""
        from prmcal.registry.llms.prompts import token_count

        return super().count_tokens(text) if self._tokenizer is None else token_count(self._tokenizer, text)

    def opens_thought(self, question: str) -> bool:
        """Tell whether the chat template ends the prompt with ``<think>``."""
        from prmcal.registry.llms.prompts import prompt_text

        return opens_thought(
            prompt_text(self._tokenizer, Prefix(question), self.chat_template, self.system_prompt)
        )

    @cached_property
    def _tokenizer(self) -> PreTrainedTokenizerBase | None:
        from prmcal.registry.llms.prompts import chat_tokenizer

        return None if self.tokenizer is None else chat_tokenizer(self.tokenizer, self.chat_template)

    def _prompt(self, prefix: Prefix) -> str | list[int]:
        from prmcal.registry.llms.prompts import prompt_ids, prompt_text

        if self._tokenizer is None:
            return prompt_text(None, prefix, self.chat_template, self.system_prompt)
        return list(prompt_ids(self._tokenizer, prefix, self.chat_template, self.system_prompt))
