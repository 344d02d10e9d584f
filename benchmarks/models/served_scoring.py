r"""A PRM on vLLM's server, against the same PRM on transformers: prefixes per second, and the largest difference.

Start the server in the environment of `make test-vllm`:

    VLLM_CPU_KVCACHE_SPACE=1 .venv-vllm/bin/vllm serve FOLDER --served-model-name nano-prm --runner pooling \
        --dtype float32 --enforce-eager --block-size 32 --max-num-batched-tokens 65536 --port 8001 \
        --pooler-config '{"tok_pooling_type": "STEP", "step_tag_id": 365}'
    python -m benchmarks.models.served_scoring http://localhost:8001

FOLDER is `registry/nano/models/prm`. It scores 8 solutions of each of 48 questions of nano-math in float32, on one
thread here.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import torch
from numpy.typing import NDArray

from prmcal.registry.contracts.data import Prefix, Sampling, ScoringRequest
from prmcal.registry.contracts.models import PRM
from prmcal.registry.plugins import datasets, llms, prms
from prmcal.steps import split_steps

QUESTIONS, SOLUTIONS, ROUNDS = 48, 8, 3


def solutions() -> list[ScoringRequest]:
    questions = datasets.create("nano-math").questions("test", QUESTIONS)
    weak = llms.create("transformers", checkpoint="nano:weak", dtype="float32", device="cpu")
    drawn = weak.generate(
        [Prefix(each.text) for each in questions], SOLUTIONS, Sampling(temperature=1.0, max_tokens=256), 3
    )
    return [
        ScoringRequest(question.text, tuple(split_steps(each.text) for each in of_question))
        for question, of_question in zip(questions, drawn, strict=True)
    ]


def fastest(prm: PRM, requests: list[ScoringRequest]) -> tuple[float, NDArray[np.float32]]:
    """Return the shortest time of several rounds in seconds, and the logits of all prefixes."""
    times = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        scored = prm.score_batch(requests)
        times.append(time.perf_counter() - begun)
    return min(times), np.concatenate([scores.logit for of_question in scored for scores in of_question])


def main(base_url: str) -> None:
    torch.set_num_threads(1)
    requests = solutions()
    print("markers  prefixes  transformers  pooling-http     ratio     largest")
    print("                    prefixes/s    prefixes/s            difference")
    for markers in ("every", "last"):
        local = prms.create("qwen", checkpoint="nano:prm", markers=markers, dtype="float32", device="cpu")
        served = prms.create(
            "pooling-http", base_url=base_url, model="nano-prm", tokenizer="nano:prm", markers=markers
        )
        (here, expected), (there, found) = fastest(local, requests), fastest(served, requests)
        print(
            f"{markers:7}  {len(expected):8}  {len(expected) / here:12,.0f}  {len(found) / there:12,.0f}  "
            f"{here / there:8.2f}  {np.abs(found - expected).max():10.1e}"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
