"""Follow-ups with a shared prompt, against one copy of the prompt per row, and against transformers' `generate`.

python -m benchmarks.models.sampling

It uses the middle nano policy in float32, and samples 8 follow-ups of each of 10 prefixes of 20 chains, like a success
job. The first two ways draw the same random numbers. The peer draws others.
"""

from __future__ import annotations

import time
from unittest.mock import patch

import torch

from benchmarks.models.generate_peer import TransformersGenerate
from prmcal.registry.contracts.data import Completion, Prefix, Sampling
from prmcal.registry.llms.transformers import TransformersLLM
from prmcal.registry.nano.problems import generate_split, solution_steps

FOLLOW_UPS, LONGEST = 8, 256


def token_count(completions: list[list[Completion]]) -> int:
    """Count the tokens of all completions."""
    return sum(each.tokens for found in completions for each in found)


def main() -> None:
    torch.set_num_threads(1)
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
    peer = TransformersGenerate(llm, prefixes=40).generate(prefixes, FOLLOW_UPS, sampling, 1)
    speeds["transformers' generate"] = token_count(peer) / (time.perf_counter() - begun)
    with patch("prmcal.registry.llms.sampling.can_share", lambda *_: False):
        begun = time.perf_counter()
        copied = ours()
        copied_seconds = time.perf_counter() - begun
    begun = time.perf_counter()
    completions = llm.generate(prefixes, FOLLOW_UPS, sampling, 1)
    shared_seconds = time.perf_counter() - begun
    tokens = token_count(completions)
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
