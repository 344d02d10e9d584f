"""Fitting: an epoch of `quantile-lora` in token trees, against an example for each prefix."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from benchmarks.measuring import Figure, measured, version
from benchmarks.scoring import TRAJECTORIES, requests
from prmcal.arrays import Ints
from prmcal.registry.calibrators.lora.fitting import (
    batch_passes,
    plan_batches,
    quantile_loss,
    token_ids,
    trajectories_of,
)
from prmcal.registry.calibrators.lora.model import adapted, lora_config, quantile_model
from prmcal.registry.contracts.data import Prefix
from prmcal.registry.plugins import prms
from prmcal.registry.prms.transformers import TransformersPRM

_LEVELS, _BATCH = (0.1, 0.5, 0.9), 32

Gradients = dict[str, torch.Tensor]


class Epoch:
    """The batches of an epoch, and two ways to compute their gradients."""

    def __init__(self, questions: int, steps: int) -> None:
        prm = prms.create("qwen", checkpoint="nano:prm", dtype="float32", device="cpu")
        assert isinstance(prm, TransformersPRM)
        self.prm = prm
        self.prefixes = [
            Prefix(request.question, prefix)
            for request in requests(questions, steps)
            for solution in request.trajectories
            for prefix in request.prefixes(solution)
        ]
        self.sequences = token_ids(self.prm, self.prefixes)
        self.rates = np.random.default_rng(0).binomial(8, 0.6, len(self.prefixes)) / 8
        (self.batches,) = plan_batches(trajectories_of(self.prefixes), _BATCH, 1, 0)
        base = quantile_model(self.prm, len(_LEVELS))
        torch.manual_seed(0)
        # Prefixes of a tree share dropout masks. Without dropout, the gradients are comparable.
        self.model = adapted(base, lora_config(base, 2, 32, 0.0, "every fourth", ("q_proj", "v_proj"), "lora"))
        self.weights = {name: weights for name, weights in self.model.named_parameters() if weights.requires_grad}
        for name, weights in self.weights.items():
            if "lora_B" in name:  # While B is 0, A has no gradient.
                torch.nn.init.normal_(weights, std=0.02)
        self.loss = partial(quantile_loss, levels=_LEVELS)

    def in_trees(self, rows: Ints) -> None:
        """Compute the gradients of a batch like a fit."""
        for part in batch_passes(rows, self.prefixes, self.sequences, self.rates, self.prm):
            losses = self.loss(torch.sigmoid(self.model(**part["inputs"])), part["target"])
            (losses * part["weight"]).sum().backward()

    def separately(self, rows: Ints) -> None:
        """Compute the gradients with a row for each prefix, padded to one pass."""
        sequences = [torch.tensor(self.sequences[row]) for row in rows]
        ids = torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True)
        ends = torch.tensor([[len(sequence) - 1] for sequence in sequences])
        positions = torch.arange(ids.shape[1])[None]
        logits = self.model(input_ids=ids, position_ids=positions, attention_mask=None, leaves=ends)[:, 0]
        target = torch.tensor(self.rates[rows], dtype=torch.float32)
        self.loss(torch.sigmoid(logits), target).mean().backward()

    def gradients(self, way: Callable[[Ints], None]) -> list[Gradients]:
        """Return the gradients of each batch, by names of weights."""
        gradients = []
        for rows in self.batches:
            self.model.zero_grad()
            way(rows)
            named = self.weights.items()
            gradients.append({name: weights.grad.clone() for name, weights in named if weights.grad is not None})
        return gradients


def lora(tiny: bool) -> Figure:
    """Compute the gradients of an epoch in token trees, against a row for each prefix."""
    torch.set_num_threads(1)
    questions, steps = (2, 4) if tiny else (16, 8)
    epoch = Epoch(questions, steps)
    seconds, gradients = measured(lambda: epoch.gradients(epoch.in_trees))
    peer_seconds, expected = measured(lambda: epoch.gradients(epoch.separately))
    pairs = [(batch[name], other[name]) for batch, other in zip(gradients, expected, strict=True) for name in other]
    difference = max(float((gradient - other).abs().max()) for gradient, other in pairs)
    largest = max(float(other.abs().max()) for _, other in pairs)
    assert difference < 1e-4 * largest, "the gradients are equal"
    return Figure(
        f"an epoch of `quantile-lora` on {questions * TRAJECTORIES} solutions of {steps} steps",
        seconds,
        f"{version('peft')} with a row for each prefix",
        peer_seconds,
        f"gradients of up to {largest:.0e} differ by at most {difference:.0e}",
    )


BENCHMARKS = (lora,)
