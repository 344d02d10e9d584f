"""The LLM `openai`: a server with OpenAI's completions interface, such as vLLM, SGLang or llama.cpp."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from prmcal.errors import PluginFailedError
from prmcal.registry.contracts.data import Completion, Prefix, Sampling
from prmcal.registry.contracts.llm import LLM
from prmcal.registry.contracts.ranges import Count, Positive
from prmcal.registry.llms.completions import CompletionsClient
from prmcal.registry.llms.seeds import completion_seed
from prmcal.registry.models.checkpoints import check_checkpoint, checkpoint_identity
from prmcal.steps import text_so_far

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["OpenAILLM"]

_QUESTION = "{question}"


def _checked_address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("It is not an HTTP address.")
    return url


_Address = Annotated[
    str,
    AfterValidator(_checked_address),
    Field(description="an address such as http://localhost:8000/v1"),
]
_Template = Annotated[str, Field(pattern=re.escape(_QUESTION), description=f"a text with {_QUESTION}")]


class OpenAILLM(LLM):
    """A model on a server, with one completion per request and many requests in parallel.

    The completions interface is used, since chat interfaces cannot continue a prefix. The prompt is written here, by
    the model's chat template as in the LLM `transformers`, or by `template`.

    Parameters
    ----------
    base_url : str
        The address, such as ``http://localhost:8000/v1``. ``/completions`` is appended.
    model : str
        The name of the model on the server.
    tokenizer : str, optional
        A checkpoint whose tokenizer has the chat template: a folder, a hub id with or without ``@REVISION``, or
        ``nano:NAME``. Prompts are then sent as token ids. Give either `tokenizer` or `template`.
    template : str, optional
        The prompt as text, with ``{question}`` in the place of the question. The steps are appended.
    system_prompt : str, optional
        The system message of the chat. With None, the chat template decides.
    weights : str, default=""
        A text that identifies the server's weights among those with the same name, such as a commit. It is part of the
        job keys.
    key_variable : str, optional
        The environment variable with the server's key. The key itself is not an argument and is never stored.
    concurrency : int, default=64
        The number of parallel requests.
    timeout : float, default=600
        The time limit of a request in seconds.
    attempts : int, default=6
        The number of attempts before a request fails. A request is repeated if the server is down, slow, busy (429) or
        broken (5xx), or if its reply is incomplete.
    backoff : float, default=1
        The wait in seconds before the second attempt. It doubles for each further attempt. A longer ``Retry-After`` of
        the server is respected.

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

    def __init__(
        self,
        base_url: _Address,
        model: str,
        tokenizer: str | None = None,
        template: _Template | None = None,
        system_prompt: str | None = None,
        weights: str = "",
        key_variable: str | None = None,
        concurrency: Count = 64,
        timeout: Positive = 600.0,
        attempts: Count = 6,
        backoff: Positive = 1.0,
    ) -> None:
        self.base_url = base_url
        self.model = model
        self.tokenizer = tokenizer
        self.template = template
        self.system_prompt = system_prompt
        self.weights = weights
        self.key_variable = key_variable
        self.concurrency = concurrency
        self.timeout = timeout
        self.attempts = attempts
        self.backoff = backoff

    def check_arguments(self) -> None:
        """Raise an error unless there is a tokenizer or a template, or if there is no such tokenizer."""
        if (self.tokenizer is None) == (self.template is None):
            raise ValueError(
                "Give either 'tokenizer', the checkpoint whose chat template writes the prompt, or 'template'."
            )
        if self.tokenizer is not None:
            check_checkpoint(self.tokenizer)

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """The checkpoint of the tokenizer, if there is one."""
        return () if self.tokenizer is None else (self.tokenizer,)

    def identity(self) -> dict[str, Any]:
        """Return the identity: the model and its prompt. The server is not part of it."""
        known = super().identity()
        asked = ("model", "template", "system_prompt", "weights")
        known["arguments"] = {name: known["arguments"].get(name) for name in asked}
        if self.tokenizer is not None:
            known["tokenizer"] = checkpoint_identity(self.tokenizer)
        return known

    def generate(
        self, prefixes: Sequence[Prefix], n: int, sampling: Sampling, seed: int
    ) -> list[list[Completion]]:
        """Sample `n` completions of each prefix; see :meth:`prmcal.LLM.generate`.

        Raises
        ------
        PluginFailedError
            If the server refuses a request, or a request fails after all attempts.
        """
        requests = []
        for index, prefix in enumerate(prefixes):
            prompt = self._prompt(prefix)
            for sample in range(n):
                requests.append(
                    {
                        "model": self.model,
                        "prompt": prompt,
                        "n": 1,
                        "temperature": sampling.temperature,
                        "top_p": sampling.top_p,
                        "max_tokens": sampling.max_tokens,
                        "seed": completion_seed(seed, index, sample),
                        **({"stop": list(sampling.stop)} if sampling.stop else {}),
                    }
                )
        client = CompletionsClient(
            self.base_url, self._key(), self.concurrency, self.timeout, self.attempts, self.backoff
        )
        completions = asyncio.run(client.complete(requests))
        return [completions[start : start + n] for start in range(0, len(prefixes) * n, n)]

    @cached_property
    def _tokenizer(self) -> PreTrainedTokenizerBase:
        from prmcal.registry.llms.prompts import chat_tokenizer

        assert self.tokenizer is not None
        return chat_tokenizer(self.tokenizer)

    def _prompt(self, prefix: Prefix) -> str | list[int]:
        from prmcal.registry.llms.prompts import prompt_ids

        if self.template is None:
            return list(prompt_ids(self._tokenizer, prefix, self.system_prompt))
        return self.template.replace(_QUESTION, prefix.question) + text_so_far(prefix.steps)

    def _key(self) -> str | None:
        if self.key_variable is None:
            return None
        key = os.environ.get(self.key_variable)
        if not key:
            raise PluginFailedError(
                f"The environment variable {self.key_variable} is not set. Set it to the server's key: "
                f"export {self.key_variable}=..."
            )
        return key
