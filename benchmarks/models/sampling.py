"""Follow-ups with a shared prompt, against one copy of the prompt per row, and against transformers' `generate`.

python -m benchmarks.models.sampling

It uses the middle nano policy in float32, and samples 8 follow-ups of each of 10 prefixes of 20 chains, like a success
job. The first two ways draw the same random numbers. The peer draws others, and is called like in public
implementations.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from unittest.mock import patch

import torch

from prmcal.registry.contracts.data import Prefix, Sampling
from prmcal.registry.llms.prompts import NATIVE, PromptFormat
from prmcal.registry.llms.transformers import TransformersLLM
from prmcal.registry.nano.problems import generate_split, solution_steps

FOLLOW_UPS, SAMPLING, BATCH = 8, Sampling(temperature=1.0, max_tokens=256), 40


def by_transformers(llm: TransformersLLM, prefixes: Sequence[Prefix]) -> int:
    """Sample with transformers, in batches of prompts of similar length, and return the number of tokens."""
    torch.manual_seed(1)
    prompts = sorted((PromptFormat(NATIVE).ids(llm._tokenizer, prefix) for prefix in prefixes), key=len)
    tokens = 0
    for start in range(0, len(prompts), BATCH):
        batch = prompts[start : start + BATCH]
        longest = len(batch[-1])
        ids = torch.tensor([[0] * (longest - len(prompt)) + list(prompt) for prompt in batch])
        mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in batch])
        rows = llm._model.generate(  # type: ignore[operator]  # transformers is partly typed
            ids,
            attention_mask=mask,
            do_sample=True,
            temperature=SAMPLING.temperature,
            top_p=SAMPLING.top_p,
            top_k=0,
            num_return_sequences=FOLLOW_UPS,
            max_new_tokens=SAMPLING.max_tokens,
            eos_token_id=sorted(llm._end_ids),
            pad_token_id=0,
        )[:, longest:].tolist()
        llm._tokenizer.batch_decode(rows, skip_special_tokens=True)
        for row in rows:
            tokens += next((n for n, token in enumerate(row, 1) if token in llm._end_ids), len(row))
    return tokens


def main() -> None:
    torch.set_num_threads(1)
    llm = TransformersLLM("nano:middle", dtype="float32")
    problems = generate_split("nano-aime", "train", 20)
    prefixes = [
        Prefix(each.text, tuple(solution_steps(each)[:count])) for each in problems for count in range(10)
    ]
    llm.generate(prefixes[:2], 2, SAMPLING, seed=0)
    ways, texts = ("transformers' generate", "a copy of the prompt per row", "shared prompts"), []
    speeds = {}
    for way in ways:
        begun = time.perf_counter()
        if way == ways[0]:
            tokens = by_transformers(llm, prefixes)
        else:
            with patch("prmcal.registry.llms.sampling.can_share", lambda *_, way=way: way == ways[2]):
                drawn = [each for of in llm.generate(prefixes, FOLLOW_UPS, SAMPLING, 1) for each in of]
            tokens = sum(each.tokens for each in drawn)
            texts.append([each.text for each in drawn])
        speeds[way] = tokens / (time.perf_counter() - begun)
    for way, speed in speeds.items():
        print(f"{way:30}{speed:8.0f} tokens/s, shared prompts are {speeds[ways[2]] / speed:.1f} x")
    same = sum(copied == shared for copied, shared in zip(*texts, strict=True))
    print(f"{same} of {len(prefixes) * FOLLOW_UPS} follow-ups are the same, word for word")


if __name__ == "__main__":
    main()
