"""Progress figures of a model during training, computed without sampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from tools.nano_training.examples.token_trees import IGNORED, Encoder, Example, collate
from tools.nano_training.stages import base

BATCHES = 16
"""The number of batches for the figures."""


class Probe:
    """Computes teacher-forced figures on batches of the base stage, drawn with a held-out seed.

    `greedy` is the share of questions whose greedy solution is the right one. `sampled` is the probability that the
    model samples exactly the right solution. It equals pass@1 at temperature 1, except for wrong chains with the right
    answer. Both are given for nano-math and, with the prefix `long`, for chains of nano-aime's length. `auc` is the
    area under the ROC curve of the judge, for prefixes without and with a mistake.
    """

    def __init__(self, encoder: Encoder, lesson: base.Lesson | None = None, batches: int = BATCHES) -> None:
        self.encoder = encoder
        lesson = lesson or base.Lesson()
        self.batches: list[Sequence[Example]] = [
            base.draw_batch(encoder, 1_000_003, index, lesson) for index in range(batches)
        ]

    @torch.no_grad()
    def __call__(self, model: Any) -> dict[str, float]:
        """Return the figures by name."""
        found: dict[str, list[float]] = {}
        logits: list[float] = []
        sound: list[float] = []
        for examples in self.batches:
            batch = collate(examples, self.encoder.pad)
            hidden = model.model(
                input_ids=batch["input_ids"],
                position_ids=batch["position_ids"],
                attention_mask=batch["attention_mask"],
                use_cache=False,
            ).last_hidden_state
            for row, example in enumerate(examples):
                chain = np.arange(
                    int(np.flatnonzero(example.tree.parents != np.arange(len(example.tree)) - 1)[0])
                )
                targets = torch.from_numpy(example.targets[chain])
                taught = targets != IGNORED
                predicted = torch.log_softmax(model.lm_head(hidden[row, : len(chain)][taught]), dim=-1)
                prefix = "long " if example.tree.position_ids.max() > 230 else ""
                own = predicted.gather(1, targets[taught][:, None])
                found.setdefault(prefix + "sampled", []).append(float(own.sum().exp()))
                greedy = (predicted.argmax(-1) == targets[taught]).all()
                found.setdefault(prefix + "greedy", []).append(float(greedy))
            marked = batch["scores"] >= 0
            head = model.score(hidden[marked])
            logits += (head[:, 1] - head[:, 0]).tolist()
            sound += batch["scores"][marked].tolist()
        figures = {name: float(np.mean(values)) for name, values in sorted(found.items())}
        good, bad = np.array(logits)[np.array(sound) > 0.5], np.array(logits)[np.array(sound) <= 0.5]
        return figures | {"auc": float((good[:, None] > bad[None, :]).mean())}
