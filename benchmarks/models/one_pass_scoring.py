"""Scoring all prefixes of a trajectory in one pass, against one pass per prefix: scores and times.

python -m benchmarks.models.one_pass_scoring [CHECKPOINT]
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from prmcal.registry.nano.problems import generate_split
from prmcal.registry.plugins import prms

STEPS, TRAJECTORIES, REPEATS = (5, 20, 50), 4, 3


def synthetic_steps(count: int, generator: random.Random) -> tuple[str, ...]:
    """Return steps with random sums, in the format of the nano problems. They can be longer than any nano problem."""
    return tuple(
        f"{'abcdefghij'[number % 10]}) {generator.randrange(10, 99)}+{generator.randrange(10, 20)}"
        f"={generator.randrange(10, 99)}"
        for number in range(count)
    )


def naive(prm: Any, question: str, trajectories: list[tuple[str, ...]], batched: bool) -> NDArray[np.float64]:
    """Return the rewards of all prefixes, one by one or, which is faster, with one padded batch per trajectory."""
    trunk, head = prm.modules
    rewards: list[float] = []
    with torch.inference_mode():
        for steps in trajectories:
            texts = [prm.prefix_text(question, steps[:count]) + prm.marker for count in range(len(steps) + 1)]
            rows = [torch.tensor(prm.tokenize(text)) for text in texts]
            for batch in [rows] if batched else [[row] for row in rows]:
                ids = torch.nn.utils.rnn.pad_sequence(batch, batch_first=True)
                hidden = trunk(input_ids=ids, use_cache=False).last_hidden_state
                ends = torch.tensor([len(row) - 1 for row in batch])
                logits = prm.log_odds(head(hidden[torch.arange(len(batch)), ends].float()))
                rewards += torch.sigmoid(logits.double()).tolist()
    return np.array(rewards)


def one_pass(prm: Any, question: str, trajectories: list[tuple[str, ...]]) -> NDArray[np.float64]:
    """Return the rewards of all prefixes, with one token tree per trajectory."""
    return np.concatenate([prm.score(question, [steps])[0].reward for steps in trajectories])


def fastest(function: Callable[[], NDArray[np.float64]]) -> tuple[float, NDArray[np.float64]]:
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        values = function()
        times.append(time.perf_counter() - start)
    return min(times), values


def main(checkpoint: str = "nano:prm") -> None:
    prm = prms.create("qwen", checkpoint=checkpoint, dtype="float32", device="cpu", max_tokens=4096)
    question = generate_split("nano-math", "test", 5)[-1].text
    generator = random.Random(0)
    one_pass(prm, question, [()])  # Loads the model.
    print(
        f"{TRAJECTORIES} trajectories, {checkpoint} in float32, {torch.get_num_threads()} thread(s), best of {REPEATS}"
    )
    print("steps  prefixes  one pass  one by one  in one batch  faster than       largest")
    print("                        s           s             s  one by one, batch  difference")
    for count in STEPS:
        trajectories = [synthetic_steps(count, generator) for _ in range(TRAJECTORIES)]
        fast, rewards = fastest(partial(one_pass, prm, question, trajectories))
        slow, expected = fastest(partial(naive, prm, question, trajectories, False))
        batch, padded = fastest(partial(naive, prm, question, trajectories, True))
        difference = max(np.abs(rewards - expected).max(), np.abs(padded - expected).max())
        print(
            f"{count:5}  {len(rewards):8}  {fast:8.3f}  {slow:10.3f}  {batch:12.3f}  "
            f"{slow / fast:10.1f}, {batch / fast:5.1f}  {difference:10.1e}"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
