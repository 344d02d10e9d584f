"""The last stage of the reward model: its scores are set to the labels' scale, without a change of their order.

Batches that are mostly wrong chains leave a verifier too pessimistic. A slope and an offset of its log-odds, fitted to
the Monte Carlo labels, are folded into the last layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from registry.nano.training.labels import Labelled
from registry.prms.transformers import TransformersPRM

__all__ = ["settle"]


def settle(last: Any, prm: TransformersPRM, labels: Sequence[Labelled]) -> tuple[float, float]:
    """Fold slope and offset into `last`, the linear layer to (bad, good); `prm` is the model as it was.

    Returns
    -------
    slope, offset : float
    """
    scored = [prm.score(row.question, [row.steps])[0].logit for row in labels]
    logit = np.concatenate(scored).astype(np.float64)
    k = np.concatenate([row.successes for row in labels])
    n = np.concatenate([[row.follow_ups] * len(row.successes) for row in labels])

    def loss(parameters: Any) -> float:
        z = parameters[0] * logit + parameters[1]
        return float(-np.mean((k * log_expit(z) + (n - k) * log_expit(-z)) / n))

    slope, offset = map(float, minimize(loss, [1.0, 0.0]).x)
    print(f"settled: slope {slope:.3f}, offset {offset:.3f}, mean {expit(slope * logit + offset).mean():.3f}")
    with torch.no_grad():
        last.weight.mul_(slope)
        last.bias.mul_(slope)
        last.bias[1] += offset
    return slope, offset
