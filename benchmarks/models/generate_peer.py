"""The peer of prmcal's sampler: the method `generate` of transformers, called like in public implementations."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from prmcal.registry.contracts.data import Completion, FinishReason, Prefix, Sampling
from prmcal.registry.contracts.models import LLM
from prmcal.registry.llms.prompts import NATIVE, PromptFormat
from prmcal.registry.llms.transformers import TransformersLLM


class TransformersGenerate(LLM):
    """Samples the model of an LLM with transformers.

    Parameters
    ----------
    llm : TransformersLLM
        The LLM with the model, the tokenizer and the prompts.
    prefixes : int, default=1
        The number of prefixes in a batch. Prefixes of similar length are in one batch.
    """

    def __init__(self, llm: TransformersLLM, prefixes: int = 1) -> None:
        self.llm = llm
        self.prefixes = prefixes

    def generate(
        self, prefixes: Sequence[Prefix], n: int, sampling: Sampling, seed: int
    ) -> list[list[Completion]]:
        """Sample `n` completions of each prefix. `seed` is the seed of torch."""
        torch.manual_seed(seed % 2**63)
        prompts = [PromptFormat(NATIVE).ids(self.llm._tokenizer, prefix) for prefix in prefixes]
        order = sorted(range(len(prompts)), key=lambda index: len(prompts[index]))
        found: dict[int, list[Completion]] = {}
        for start in range(0, len(order), self.prefixes):
            batch = order[start : start + self.prefixes]
            completions = self._batch([prompts[index] for index in batch], n, sampling)
            found.update(zip(batch, completions, strict=True))
        return [found[index] for index in range(len(prompts))]

    def _batch(
        self, prompts: Sequence[tuple[int, ...]], n: int, sampling: Sampling
    ) -> list[list[Completion]]:
        longest = max(map(len, prompts))
        ids = torch.tensor([[0] * (longest - len(prompt)) + list(prompt) for prompt in prompts])
        mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        ends = sorted(self.llm._end_ids)
        stops = (
            {"stop_strings": list(sampling.stop), "tokenizer": self.llm._tokenizer} if sampling.stop else {}
        )
        texts = self.llm._model.generate(  # type: ignore[operator]  # transformers is partly typed
            ids,
            attention_mask=mask,
            do_sample=True,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=0,
            num_return_sequences=n,
            max_new_tokens=sampling.max_tokens,
            eos_token_id=ends,
            pad_token_id=0,
            **stops,
        )[:, longest:].tolist()
        completions = [self._completion(tokens, ends, sampling.stop) for tokens in texts]
        return [completions[start : start + n] for start in range(0, len(completions), n)]

    def _completion(self, tokens: list[int], ends: list[int], stops: Sequence[str]) -> Completion:
        length = next((place + 1 for place, token in enumerate(tokens) if token in ends), len(tokens))
        text = str(self.llm._tokenizer.decode(tokens[:length], skip_special_tokens=True))
        cut = min((text.find(stop) for stop in stops if stop in text), default=len(text))
        ended: FinishReason = "end" if tokens[length - 1] in ends else "length"
        return Completion(text[:cut], length, "stop" if cut < len(text) else ended)
