"""Sampling: the LLM plugin `transformers` against the function `generate` of the library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from benchmarks.measuring import Figure, measured, version
from prmcal.registry.contracts.data import Prefix, Sampling
from prmcal.registry.llms.prompts import NATIVE, PromptFormat
from prmcal.registry.llms.transformers import TransformersLLM
from prmcal.registry.nano.problems import generate_split, solution_steps

_FOLLOW_UPS, _BATCH = 8, 40
_LIKELIEST = 1e-6
"""A temperature at which only the likeliest token is drawn."""


def generated(
    llm: TransformersLLM, prefixes: Sequence[Prefix], n: int, sampling: Sampling, **how: Any
) -> list[list[list[int]]]:
    """Return the token ids of n completions of each prefix by `generate`, in batches of prompts of similar length."""
    prompts = [list(PromptFormat(NATIVE).ids(llm._tokenizer, prefix)) for prefix in prefixes]
    order = sorted(range(len(prompts)), key=lambda number: len(prompts[number]))
    completions: list[list[list[int]]] = [[] for _ in prompts]
    for start in range(0, len(order), _BATCH):
        numbers = order[start : start + _BATCH]
        longest = len(prompts[numbers[-1]])
        padding = [longest - len(prompts[number]) for number in numbers]
        rows = llm._model.generate(
            torch.tensor([[0] * pad + prompts[number] for pad, number in zip(padding, numbers, strict=True)]),
            attention_mask=torch.tensor([[0] * pad + [1] * (longest - pad) for pad in padding]),
            num_return_sequences=n,
            max_new_tokens=sampling.max_tokens,
            eos_token_id=sorted(llm._end_ids),
            pad_token_id=0,
            **how,
        )[:, longest:].tolist()
        for place, row in enumerate(rows):
            length = next((count for count, token in enumerate(row, 1) if token in llm._end_ids), len(row))
            completions[numbers[place // n]].append(row[:length])
    return completions


def follow_ups(tiny: bool) -> Figure:
    """Sample 8 follow-ups of each prefix of some chains, like the jobs that measure success.

    The random numbers differ, so the time is that of a token. At a temperature near 0 all texts are equal.
    """
    torch.set_num_threads(1)
    llm = TransformersLLM("nano:middle", dtype="float32", device="cpu")
    problems, steps = generate_split("nano-aime", "train", 1 if tiny else 6), 2 if tiny else 10
    prefixes = [
        Prefix(problem.text, tuple(solution_steps(problem)[:count])) for problem in problems for count in range(steps)
    ]
    longest = 48 if tiny else 256
    greedy = Sampling(temperature=_LIKELIEST, max_tokens=longest)
    texts = [completion.text for of_prefix in llm.generate(prefixes, 1, greedy, 0) for completion in of_prefix]
    likeliest = [ids for (ids,) in generated(llm, prefixes, 1, greedy, do_sample=False)]
    assert texts == llm._tokenizer.batch_decode(likeliest, skip_special_tokens=True), "the likeliest texts are equal"
    sampling = Sampling(temperature=1.0, max_tokens=longest)
    seconds, completions = measured(lambda: llm.generate(prefixes, _FOLLOW_UPS, sampling, 1))
    torch.manual_seed(1)
    random = {"do_sample": True, "temperature": 1.0, "top_p": 1.0, "top_k": 0}
    peer_seconds, rows = measured(lambda: generated(llm, prefixes, _FOLLOW_UPS, sampling, **random))
    tokens = sum(completion.tokens for of_prefix in completions for completion in of_prefix)
    peer_tokens = sum(len(ids) for of_prefix in rows for ids in of_prefix)
    return Figure(
        f"{_FOLLOW_UPS} follow-ups of each of {len(prefixes)} prefixes, a model of 0.6 million parameters",
        seconds,
        f"`generate` of {version('transformers')}, for as many tokens",
        peer_seconds * tokens / peer_tokens,
        f"{tokens / seconds:,.0f} tokens a second; the likeliest texts are equal",
    )


BENCHMARKS = (follow_ups,)
