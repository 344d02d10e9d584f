"""vLLM on a CPU, against transformers' `generate` and against the LLM plugin `transformers`, which has its own sampler.

.venv-vllm/bin/python -m benchmarks.models.vllm_sampling

It uses the weak nano policy in float32 on one thread. It samples 32 solutions of each of 48 questions of nano-math, and
8 follow-ups of each prefix of 4 solutions of 12 questions of nano-aime. The random numbers of the ways differ.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch

from benchmarks.models.generate_peer import TransformersGenerate
from prmcal.registry.contracts.data import Prefix, Sampling
from prmcal.registry.contracts.models import LLM
from prmcal.registry.llms.transformers import TransformersLLM
from prmcal.registry.llms.vllm import VLLM
from prmcal.registry.plugins import datasets
from prmcal.steps import split_steps

CHECKPOINT, LONGEST, ROUNDS = "nano:weak", 512, 2
PREFIXES_AT_A_TIME = 40

Work = tuple[Sequence[Prefix], int]


def follow_ups(llm: LLM, sampling: Sampling) -> list[Prefix]:
    """Return the distinct prefixes of several solutions, with empty prefixes and without complete solutions."""
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
    """Return the highest speed of several rounds, because the first one may compile or allocate."""

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
