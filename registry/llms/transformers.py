"""The LLM `transformers`: any causal language model that the transformers library knows by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from prmcal.registry.contracts.data import Completion, GenerationRequest, Prefix, Sampling
from prmcal.registry.contracts.llm import LLM
from prmcal.registry.llms.stops import StopStrings
from prmcal.registry.models.checkpoints import (
    check_checkpoint,
    check_device,
    check_dtype,
    checkpoint_identity,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from prmcal.registry.llms.sampling import Row

__all__ = ["TransformersLLM"]

_SEED_RANGE = 2**64


class TransformersLLM(LLM):
    """A chat model, sampled in large batches.

    The prompt is the tokenizer's own chat template over the system prompt, if there is one, and the question; the
    steps of a prefix begin the assistant's turn, each followed by a blank line.

    Parameters
    ----------
    checkpoint : str
        ``nano:NAME``, a folder, or a hub id with or without ``@REVISION``.
    dtype : str, default="auto"
        Type of the weights: ``auto`` (as they are saved), ``float32``, ``bfloat16`` or ``float16``.
    device : str, default="auto"
        ``auto`` (the GPU if there is one), ``cpu``, ``cuda`` or ``cuda:N``.
    batch_tokens : int, default=131072
        Upper bound of the tokens in one batch: rows times (prompt + longest completion). It bounds the memory.
    system_prompt : str, optional
        What the chat starts with. None leaves it to the chat template.

    Notes
    -----
    Every completion draws from its own random numbers, a function of (seed, index of the prefix, index of the
    completion): the first 8 of 64 completions are those that n = 8 gives. Batches of different shapes round
    differently, which can change a text where two tokens are all but equally likely.
    """

    def __init__(
        self,
        checkpoint: str,
        dtype: str = "auto",
        device: str = "auto",
        batch_tokens: int = 131_072,
        system_prompt: str | None = None,
    ) -> None:
        self.checkpoint = checkpoint
        self.dtype = dtype
        self.device = device
        self.batch_tokens = batch_tokens
        self.system_prompt = system_prompt

    def check_arguments(self) -> None:
        """Refuse unknown types, devices and checkpoints that are not there."""
        check_dtype(self.dtype)
        check_device(self.device)
        if self.batch_tokens < 1:
            raise ValueError(
                f"The 'batch_tokens' parameter must be an int in [1, inf). Got {self.batch_tokens} instead."
            )
        check_checkpoint(self.checkpoint)

    def identity(self) -> dict[str, Any]:
        """Which weights they are, wherever they lie, and what else decides the texts: not the machine's limits."""
        known = super().identity()
        left_out = ("checkpoint", "device", "batch_tokens")
        known["arguments"] = {k: v for k, v in known["arguments"].items() if k not in left_out}
        return {**known, "checkpoint": checkpoint_identity(self.checkpoint)}

    def generate(
        self, prefixes: Sequence[Prefix], n: int, sampling: Sampling, seed: int
    ) -> list[list[Completion]]:
        """Sample `n` completions of each prefix; see :meth:`prmcal.LLM.generate`.

        Raises
        ------
        PluginFailedError
            If a prefix leaves no room for a completion in the model's context.
        """
        rows = [
            row
            for index, prefix in enumerate(prefixes)
            for row in self._rows(prefix, n, sampling, seed, index << 32)
        ]
        completions = self._sampled(rows, sampling)
        return [completions[start : start + n] for start in range(0, len(prefixes) * n, n)]

    def generate_batch(
        self, requests: Sequence[GenerationRequest], sampling: Sampling
    ) -> list[list[Completion]]:
        """Continue several prefixes in common batches; see :meth:`prmcal.LLM.generate_batch`."""
        rows = [row for each in requests for row in self._rows(each.prefix, each.n, sampling, each.seed)]
        completions = iter(self._sampled(rows, sampling))
        return [list(islice(completions, each.n)) for each in requests]

    def close(self) -> None:
        """Drop the model; it is loaded again when it is needed again."""
        if "_model" in vars(self):
            from prmcal.registry.models.pretrained import unload

            unload(self, "_model")

    def _rows(self, prefix: Prefix, n: int, sampling: Sampling, seed: int, first: int = 0) -> Iterator[Row]:
        """Completions of a prefix to sample: `first`, `first` + 1, ... tells them from others of the same seed."""
        from prmcal.registry.llms.prompts import prompt_ids, room_for_completion
        from prmcal.registry.llms.sampling import Row

        prompt = prompt_ids(self._tokenizer, prefix, self.system_prompt)
        limit = room_for_completion(prefix, len(prompt), sampling, self.checkpoint, self._context)
        for place in range(first, first + n):
            key = np.array([seed % _SEED_RANGE, place], dtype=np.uint64)
            yield Row(prompt, limit, np.random.Generator(np.random.Philox(key=key)).random(limit))

    def _sampled(self, rows: Sequence[Row], sampling: Sampling) -> list[Completion]:
        """The rows' completions, in their order."""
        from prmcal.registry.llms.sampling import sample_rows

        stops = StopStrings(self._tokenizer, sampling.stop)
        for batch in self._batches(rows):
            sample_rows(
                self._model,
                batch,
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                pad_id=self._pad_id,
                end_ids=self._end_ids,
                stops=stops,
            )
        return [self._completion(row, stops) for row in rows]

    @cached_property
    def _model(self) -> PreTrainedModel:
        from transformers import AutoModelForCausalLM

        from prmcal.registry.models.pretrained import load_pretrained

        return load_pretrained(AutoModelForCausalLM, self.checkpoint, self.dtype, self.device)

    @cached_property
    def _tokenizer(self) -> PreTrainedTokenizerBase:
        from prmcal.registry.llms.prompts import chat_tokenizer

        return chat_tokenizer(self.checkpoint)

    @cached_property
    def _context(self) -> int:
        """Tokens that the model reads, prompt and completion together."""
        longest = getattr(self._model.config, "max_position_embeddings", None)
        return int(longest or self._tokenizer.model_max_length)

    @cached_property
    def _end_ids(self) -> frozenset[int]:
        configured = getattr(self._model.generation_config, "eos_token_id", None)
        ids = configured if isinstance(configured, list) else [configured, self._tokenizer.eos_token_id]
        return frozenset(int(token) for token in ids if token is not None)

    @property
    def _pad_id(self) -> int:
        return int(self._tokenizer.pad_token_id or 0)

    def _batches(self, rows: Sequence[Row]) -> Iterator[list[Row]]:
        batch: list[Row] = []
        longest = 0
        for row in sorted(rows, key=lambda row: len(row.prompt)):
            longest = max(longest, len(row.prompt) + row.limit)
            if batch and longest * (len(batch) + 1) > self.batch_tokens:
                yield batch
                batch, longest = [], len(row.prompt) + row.limit
            batch.append(row)
        if batch:
            yield batch

    def _completion(self, row: Row, stops: StopStrings) -> Completion:
        return Completion(
            text=stops.cut(row.tokens),
            tokens=len(row.tokens),
            finish_reason="stop" if row.stopped else "length",
            prompt_tokens=len(row.prompt),
        )
