"""Follow-ups whose prompts are shared, against a copy of the prompt for every row, and against transformers' generate.

python -m benchmarks.sampling

The middle nano policy in float32: 8 follow-ups of 10 prefixes each of 20 chains, as a success job asks for them.
Our two ways draw the same random numbers; the peer draws its own.
"""

from __future__ import annotations

import time
from unittest.mock import patch

import torch

from registry.contracts.data import Prefix, Sampling
from registry.llms.prompts import prompt_ids
from registry.llms.transformers import TransformersLLM
from registry.nano.problems import generate_split, solution_steps

FOLLOW_UPS, LONGEST = 8, 256


def with_generate(llm: TransformersLLM, prefixes: list[Prefix]) -> int:
    """Tokens that transformers' own method generated, prefixes of about one length in a batch."""
    prompts = sorted((prompt_ids(llm._tokenizer, prefix, None) for prefix in prefixes), key=len)
    tokens = 0
    for start in range(0, len(prompts), 40):
        batch = prompts[start : start + 40]
        longest = max(map(len, batch))
        ids = torch.tensor([[0] * (longest - len(prompt)) + list(prompt) for prompt in batch])
        mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in batch])
        ends = sorted(llm._end_ids)
        texts = llm._model.generate(  # type: ignore[operator]  # transformers is half typed
            ids,
            attention_mask=mask,
            do_sample=True,
            temperature=1.0,
            top_p=1.0,
            top_k=0,
            num_return_sequences=FOLLOW_UPS,
            max_new_tokens=LONGEST,
            eos_token_id=ends,
            pad_token_id=0,
        )[:, longest:]
        ended = torch.isin(texts, torch.tensor(ends)).int()
        tokens += int(((ended.cumsum(1) - ended) == 0).sum())
    return tokens


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    llm = TransformersLLM("nano:middle", dtype="float32")
    problems = generate_split("nano-aime", "train", 20)
    prefixes = [
        Prefix(each.text, tuple(solution_steps(each)[:count])) for each in problems for count in range(10)
    ]
    sampling = Sampling(temperature=1.0, max_tokens=LONGEST)
    llm.generate(prefixes[:2], 2, sampling, seed=0)

    def ours() -> list[list[str]]:
        return [[each.text for each in found] for found in llm.generate(prefixes, FOLLOW_UPS, sampling, 1)]

    speeds = {}
    begun = time.perf_counter()
    tokens = with_generate(llm, prefixes)
    speeds["transformers' generate"] = tokens / (time.perf_counter() - begun)
    with patch("registry.llms.sampling.can_share", lambda *_: False):
        begun = time.perf_counter()
        copied = ours()
        copied_seconds = time.perf_counter() - begun
    begun = time.perf_counter()
    completions = llm.generate(prefixes, FOLLOW_UPS, sampling, 1)
    shared_seconds = time.perf_counter() - begun
    tokens = sum(each.tokens for found in completions for each in found)
    speeds["a copy of the prompt per row"] = tokens / copied_seconds
    speeds["shared prompts"] = tokens / shared_seconds
    for way, speed in speeds.items():
        print(f"{way:30}{speed:8.0f} tokens/s, shared prompts are {speeds['shared prompts'] / speed:.1f} x")
    same = sum(
        a == b.text for x, y in zip(copied, completions, strict=True) for a, b in zip(x, y, strict=True)
    )
    print(f"{same} of {len(prefixes) * FOLLOW_UPS} follow-ups are the same, word for word")


if __name__ == "__main__":
    main()
