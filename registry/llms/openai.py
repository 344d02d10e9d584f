"""The LLM `openai`: any server with OpenAI's completions interface, such as vLLM, SGLang or llama.cpp."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from prmcal.errors import PluginFailedError
from prmcal.registry.contracts.data import STEP_SEPARATOR, Completion, Prefix, Sampling, join_steps
from prmcal.registry.contracts.llm import LLM
from prmcal.registry.llms.completions import CompletionsClient
from prmcal.registry.llms.seeds import completion_seed
from prmcal.registry.models.checkpoints import check_checkpoint, checkpoint_identity

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["OpenAILLM"]

_QUESTION = "{question}"


class OpenAILLM(LLM):
    """A model behind a server, asked for one completion per request, many requests at a time.

    Prefixes are continued, which chat interfaces cannot do: it is the completions interface that is used, and the
    prompt is written here, by the model's own chat template as the LLM `transformers` does, or by `template`.

    Parameters
    ----------
    base_url : str
        Such as ``http://localhost:8000/v1``; ``/completions`` is put behind it.
    model : str
        The name under which the server knows the model.
    tokenizer : str, optional
        Checkpoint whose tokenizer has the chat template: a folder, a hub id with or without ``@REVISION``, or
        ``nano:NAME``. Prompts are then sent as token ids.
    template : str, optional
        Instead of a tokenizer: the prompt as text, with ``{question}`` where the question goes; steps follow it.
    system_prompt : str, optional
        What the chat starts with. None leaves it to the chat template.
    weights : str, default=""
        Whatever tells the server's weights from others of the same name, such as a commit. Part of the job keys.
    key_variable : str, optional
        Environment variable that holds the server's key. A key is never an argument, and never stored.
    concurrency : int, default=64
        Requests at a time.
    timeout : float, default=600
        Seconds that a request may take.
    attempts : int, default=6
        How often a request is made before it counts as failed: when the server is down, slow, busy (429) or broken
        (5xx), or its reply is cut or has no completion.
    backoff : float, default=1
        Seconds before the second attempt, doubled before each further one; a longer ``Retry-After`` is respected.

    Notes
    -----
    Every completion has a seed of its own, a function of (seed, index of the prefix, index of the completion): the
    first 8 of 64 completions are those that n = 8 gives, on servers that keep to seeds whatever else they compute.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        tokenizer: str | None = None,
        template: str | None = None,
        system_prompt: str | None = None,
        weights: str = "",
        key_variable: str | None = None,
        concurrency: int = 64,
        timeout: float = 600.0,
        attempts: int = 6,
        backoff: float = 1.0,
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
        """Refuse addresses that are none, prompts that nobody writes, and empty limits."""
        address = urlsplit(self.base_url)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise ValueError(
                "The 'base_url' parameter must be an address such as http://localhost:8000/v1. "
                f"Got {self.base_url!r} instead."
            )
        if (self.tokenizer is None) == (self.template is None):
            raise ValueError(
                "Give either 'tokenizer', the checkpoint whose chat template writes the prompt, or 'template'."
            )
        if self.template is not None and _QUESTION not in self.template:
            raise ValueError(
                f"The 'template' parameter must hold {_QUESTION}. Got {self.template[:60]!r} instead."
            )
        for name in ("concurrency", "attempts"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"The {name!r} parameter must be an int in [1, inf). Got {getattr(self, name)} instead."
                )
        for name in ("timeout", "backoff"):
            if not getattr(self, name) > 0:
                raise ValueError(
                    f"The {name!r} parameter must be a float above 0. Got {getattr(self, name)} instead."
                )
        if self.tokenizer is not None:
            check_checkpoint(self.tokenizer)

    def identity(self) -> dict[str, Any]:
        """The model and how it is asked, wherever it is served."""
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
            If the server refuses a request, or does not answer it in as many attempts as are allowed.
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
        steps = join_steps(prefix.steps) + STEP_SEPARATOR if prefix.steps else ""
        return self.template.replace(_QUESTION, prefix.question) + steps

    def _key(self) -> str | None:
        if self.key_variable is None:
            return None
        key = os.environ.get(self.key_variable)
        if not key:
            raise PluginFailedError(
                f"The environment variable {self.key_variable} is not set. Export the server's key in it: "
                f"export {self.key_variable}=..."
            )
        return key
