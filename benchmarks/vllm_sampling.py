"""vLLM on a processor, against transformers' generate and against the LLM `transformers`, which samples by itself.

.venv-vllm/bin/python -m benchmarks.vllm_sampling

The weak nano policy in float32 on one thread. Solutions: 32 of each of 48 questions of nano-math. Follow-ups: 8 of each
prefix of 4 solutions of 12 questions of nano-aime. Each way draws its own random numbers.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch

from benchmarks.generate_peer import TransformersGenerate
from prmcal.registry.contracts.data import Prefix, Sampling, split_steps
from prmcal.registry.contracts.llm import LLM
from prmcal.registry.llms.transformers import TransformersLLM
from prmcal.registry.llms.vllm import VLLM
from prmcal.registry.plugins import datasets

CHECKPOINT, LONGEST, ROUNDS = "nano:weak", 512, 2
PREFIXES_AT_A_TIME = 40

Work = tuple[Sequence[Prefix], int]


def follow_ups(llm: LLM, sampling: Sampling) -> list[Prefix]:
    """The distinct prefixes of some solutions, the empty one included and the whole ones not."""
    questions = [Prefix(each.text) for each in datasets.create("nano-aime").questions("test", 12)]
    solutions = llm.generate(questions, 4, sampling, seed=3)
    steps = [
        (each.question, split_steps(one.text))
        for each, of in zip(questions, solutions, strict=True)
        for one in of
    ]
    return list(
        dict.fromkeys(Prefix(question, of[:count]) for question, of in steps for count in range(len(of)))
    )


def tokens_per_second(llm: LLM, work: Work, sampling: Sampling) -> float:
    """The best of some rounds: the first one may compile or allocate."""

    def speed(seed: int) -> float:
        begun = time.perf_counter()
        completions = llm.generate(*work, sampling, seed)
        return sum(each.tokens for of in completions for each in of) / (time.perf_counter() - begun)

    return max(speed(seed) for seed in range(ROUNDS))


def main() -> None:
    torch.set_num_threads(1)
    sampling = Sampling(temperature=1.0, max_tokens=LONGEST)
    ours = TransformersLLM(CHECKPOINT, dtype="float32", device="cpu")
    ways: dict[str, LLM] = {
        "transformers' generate": TransformersGenerate(ours, PREFIXES_AT_A_TIME),
        "LLM transformers": ours,
        "LLM vllm": VLLM(CHECKPOINT, dtype="float32", context=1024),
    }
    questions = [Prefix(each.text) for each in datasets.create("nano-math").questions("test", 48)]
    works: dict[str, Work] = {
        "solutions": (questions, 32),
        "follow-ups": (follow_ups(ours, sampling), 8),
    }
    for name, work in works.items():
        speeds = {way: tokens_per_second(llm, work, sampling) for way, llm in ways.items()}
        for way, speed in speeds.items():
            ratio = speeds["LLM vllm"] / speed
            print(f"{name:12}{way:24}{speed:8,.0f} tokens/s, vllm is {ratio:.2f} x")


if __name__ == "__main__":
    main()
