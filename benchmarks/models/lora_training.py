"""An epoch of `quantile-lora` in token trees, against one example per prefix: gradients and times.

python -m benchmarks.models.lora_training [CHECKPOINT]
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

from prmcal.registry.calibrators.lora.fitting import (
    batch_passes,
    plan_batches,
    quantile_loss,
    token_ids,
    trajectories_of,
)
from prmcal.registry.calibrators.lora.model import adapted, lora_config, quantile_model
from prmcal.registry.contracts.data import Prefix
from prmcal.registry.nano.problems import generate_split
from prmcal.registry.plugins import prms
from tools.nano_training.chains import noisy_chain

QUESTIONS, TRAJECTORIES, BATCH, REPEATS = 40, 4, 32, 3
LEVELS = (0.1, 0.5, 0.9)

Gradients = dict[str, torch.Tensor]


def prefixes() -> list[Prefix]:
    """Return all prefixes of 4 trajectories per question, with the levels in turn like in the nano grid."""
    generator = random.Random(0)
    return [
        Prefix(problem.text, steps[:count])
        for problem in generate_split("nano-math", "calibration", QUESTIONS)
        for _ in range(TRAJECTORIES)
        for steps in [noisy_chain(problem, 0.1, generator).steps]
        for count in range(len(steps) + 1)
    ]


class Epoch:
    """The batches of one epoch, and three ways to compute their gradients."""

    def __init__(self, prm: Any) -> None:
        self.prefixes = prefixes()
        self.sequences = token_ids(prm, self.prefixes)
        self.rates = np.random.default_rng(0).binomial(8, 0.6, len(self.prefixes)) / 8
        (self.batches,) = plan_batches(trajectories_of(self.prefixes), BATCH, 1, 0)
        self.prm = prm
        base = quantile_model(prm, len(LEVELS))
        torch.manual_seed(0)
        # Prefixes of a tree share dropout masks. Without dropout, the gradients are comparable.
        self.model = adapted(base, lora_config(base, 2, 32, 0.0, "every fourth", ("q_proj", "v_proj"), "lora"))
        self.weights = {name: weights for name, weights in self.model.named_parameters() if weights.requires_grad}
        for name, weights in self.weights.items():
            if "lora_B" in name:  # While B is 0, A has no gradient.
                torch.nn.init.normal_(weights, std=0.02)
        self.loss = partial(quantile_loss, levels=LEVELS)

    def in_trees(self, rows: NDArray[np.int64]) -> None:
        """Compute the gradients like a fit."""
        for part in batch_passes(rows, self.prefixes, self.sequences, self.rates, self.prm):
            losses = self.loss(torch.sigmoid(self.model(**part["inputs"])), part["target"])
            (losses * part["weight"]).sum().backward()

    def one_by_one(self, rows: NDArray[np.int64]) -> None:
        """Compute the gradients with one pass per prefix."""
        for row in rows:
            self.in_one_batch(np.array([row]), len(rows))

    def in_one_batch(self, rows: NDArray[np.int64], size: int | None = None) -> None:
        """Compute the gradients with all prefixes padded to one batch, the fastest naive way."""
        sequences = [torch.tensor(self.sequences[row]) for row in rows]
        ids = torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True)
        ends = torch.tensor([[len(sequence) - 1] for sequence in sequences])
        positions = torch.arange(ids.shape[1])[None]
        logits = self.model(input_ids=ids, position_ids=positions, attention_mask=None, leaves=ends)[:, 0]
        target = torch.tensor(self.rates[rows], dtype=torch.float32)
        (self.loss(torch.sigmoid(logits), target).sum() / (size or len(rows))).backward()

    def gradients(self, way: Callable[[NDArray[np.int64]], None], rows: NDArray[np.int64]) -> Gradients:
        """Return the gradients of one batch by name."""
        self.model.zero_grad()
        way(rows)
        return {name: weights.grad.clone() for name, weights in self.weights.items() if weights.grad is not None}

    def seconds(self, way: Callable[[NDArray[np.int64]], None]) -> float:
        """Return the time of one epoch in seconds, with steps of AdamW at learning rate 0."""
        optimizer = torch.optim.AdamW(self.weights.values(), lr=0.0)
        start = time.process_time()
        for rows in self.batches:
            way(rows)
            optimizer.step()
            optimizer.zero_grad()
        return time.process_time() - start


def main(checkpoint: str = "nano:prm") -> None:
    torch.set_num_threads(1)
    prm = prms.create("qwen", checkpoint=checkpoint, dtype="float32", device="cpu")
    epoch = Epoch(prm)
    steps = len(epoch.prefixes) / QUESTIONS / TRAJECTORIES - 1
    tokens = sum(map(len, epoch.sequences))
    parts = [
        part
        for rows in epoch.batches
        for part in batch_passes(rows, epoch.prefixes, epoch.sequences, epoch.rates, epoch.prm)
    ]
    computed = sum(part["inputs"]["input_ids"].numel() for part in parts)
    print(
        f"{QUESTIONS} questions x {TRAJECTORIES} trajectories of {steps:.1f} steps on average: {len(epoch.prefixes)} "
        f"prefixes in {len(epoch.batches)} batches\n{checkpoint} in float32, 1 thread, CPU time, best of {REPEATS}\n"
        f"tokens: {tokens} one by one, {computed} in trees, padding included"
    )
    ways = {"in token trees": epoch.in_trees, "one by one": epoch.one_by_one, "in one batch": epoch.in_one_batch}
    fast = 0.0
    print("                  s an epoch  token trees faster by  largest difference of a gradient")
    for name, way in ways.items():
        seconds = min(epoch.seconds(way) for _ in range(REPEATS))
        fast = fast or seconds
        gap = max(
            (epoch.gradients(way, rows)[parameter] - gradient).abs().max().item()
            for rows in epoch.batches[:3]
            for parameter, gradient in epoch.gradients(epoch.in_trees, rows).items()
        )
        print(f"{name:16}  {seconds:10.2f}  {seconds / fast:21.1f}  {gap:32.1e}")


if __name__ == "__main__":
    main(*sys.argv[1:])
