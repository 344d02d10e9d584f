"""The LLM `transformers`: a causal language model of the transformers library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from prmcal.registry.contracts.data import Completion, Prefix, Sampling
from prmcal.registry.contracts.plugin import Count
from prmcal.registry.llms.prompts import ChatLLM, StopStrings, room_for_completion
from prmcal.registry.models.checkpoints import Device

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from prmcal.registry.llms.sampling import Row

_SEED_RANGE = 2**64


@dataclass(eq=False)
class TransformersLLM(ChatLLM):
    """A chat model that is sampled in large batches.

    The prompt is a chat template, applied to the system prompt, if there is one, and the question. The steps of a
    prefix begin the assistant's turn, each followed by a blank line.

    Notes
    -----
    Every completion has its own random numbers, a function of (seed, index of the prefix, index of the completion). So
    the first 8 of 64 completions equal the 8 of n = 8. The rounding depends on the shape of a batch, which can change a
    text if two tokens are almost equally likely.
    """

    version = "2"
    suits_machine = ("device", "batch_tokens")

    device: Device = "auto"
    """``auto`` (the GPU if there is one), ``cpu``, ``cuda`` or ``cuda:N``."""
    batch_tokens: Count = 131_072
    """Upper bound of the tokens in a batch: rows times (prompt + longest completion). This limits the memory."""

    def close(self) -> None:
        """Release the model's memory. The model is loaded again at the next use."""
        if "_model" in vars(self):
            from prmcal.registry.models.pretrained import unload

            unload(self, "_model")

    def _sampled(self, requests: Sequence[tuple[Prefix, int, int, int]], sampling: Sampling) -> list[Completion]:
        from prmcal.registry.llms.sampling import Row, batches_of_rows, sample_rows
        from prmcal.registry.models.memory import in_halves, shrink

        stops = StopStrings(self._tokenizer, sampling.stop)
        rows = []
        for prefix, n, seed, index in requests:
            prompt = self._prompt(prefix)
            limit = room_for_completion(prefix, len(prompt), sampling, self.checkpoint, self._context)
            for place in range(n):
                key = np.array([seed % _SEED_RANGE, (index << 32) + place], dtype=np.uint64)
                rows.append(Row(prompt, limit, np.random.Generator(np.random.Philox(key=key)).random(limit)))

        def sample(batch: Sequence[Row]) -> None:
            for row in batch:
                row.tokens, row.ended = [], None  # The batch may have run out of memory in the middle.
            sample_rows(
                self._model,
                batch,
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                pad_id=self._pad_id,
                end_ids=self._end_ids,
                stops=stops,
            )

        def smaller(batch: Sequence[Row]) -> None:
            shrink(self, "LLM", max(len(row.prompt) + row.limit for row in batch) * len(batch))

        for batch in batches_of_rows(rows, self.batch_tokens):
            in_halves(sample, batch, smaller)
        return [self._completion(row, stops) for row in rows]

    def _completion(self, row: Row, stops: StopStrings) -> Completion:
        return Completion(stops.cut(row.tokens), len(row.tokens), row.ended or "length", len(row.prompt))

    @cached_property
    def _model(self) -> PreTrainedModel:
        from transformers import AutoModelForCausalLM

        from prmcal.registry.models.pretrained import load_pretrained

        return load_pretrained(AutoModelForCausalLM, self.checkpoint, self.dtype, self.device)

    @cached_property
    def _context(self) -> int:
        """The maximum number of tokens of prompt and completion together."""
        longest = getattr(self._model.config, "max_position_embeddings", None)
        return int(longest or self._tokenizer.model_max_length)

    @property
    def _pad_id(self) -> int:
        return int(self._tokenizer.pad_token_id or 0)

    @cached_property
    def _end_ids(self) -> frozenset[int]:
        configured = getattr(self._model.generation_config, "eos_token_id", None)
        ids = configured if isinstance(configured, list) else [configured, self._tokenizer.eos_token_id]
        return frozenset(int(token) for token in ids if token is not None)
