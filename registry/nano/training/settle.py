"""The last stage of a reward model: its scores are set to the labels' scale, without a change of their order.

Batches that are mostly wrong chains leave a verifier too pessimistic. A slope and an offset of its log-odds, fitted to
the Monte Carlo labels, are folded into the last layer. One that has no bias takes the offset in the direction of the
features in which they are all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from torch.nn import functional

from prmcal.registry.contracts.data import ScoringRequest
from prmcal.registry.nano.training.labels import Labelled
from prmcal.registry.prms.transformers import TransformersPRM

__all__ = ["settle"]

RIDGE = 1e-3
"""Of the regression of 1 on the features, relative to their mean square."""


def settle(last: Any, negative: int, prm: TransformersPRM, labels: Sequence[Labelled]) -> tuple[float, float]:
    """Fold slope and offset into a reward model's last layer.

    Parameters
    ----------
    last : torch.nn.Linear
        To be changed: the layer whose copy is the last of `prm`'s head.
    negative : int
        Its output that speaks against success: the one that takes the offset.
    prm : TransformersPRM
        The model as it was.
    labels : sequence of Labelled
        What to fit.

    Returns
    -------
    slope, offset : float
    """
    head = prm.modules[1]
    layers = list(head) if isinstance(head, torch.nn.Sequential) else [head]
    features = leaf_states(prm, labels)
    with torch.no_grad():
        for layer in layers[:-1]:
            features = layer(features)
        outputs = layers[-1](features)
        direction = unchanging(features) if last.bias is None else None
        constant = torch.ones(len(features)) if direction is None else features @ direction
    k = torch.tensor([count for row in labels for count in row.successes], dtype=torch.float32)
    n = torch.tensor([row.follow_ups for row in labels for _ in row.successes], dtype=torch.float32)

    def loss(parameters: Any) -> float:
        settled = float(np.exp(parameters[0])) * outputs
        settled[:, negative] -= float(parameters[1]) * constant
        return float(functional.binary_cross_entropy_with_logits(prm.log_odds(settled), k / n))

    found = minimize(loss, [0.0, 0.0], method="Nelder-Mead").x
    slope, offset = float(np.exp(found[0])), float(found[1])
    print(f"settled: slope {slope:.3f}, offset {offset:.3f}, loss {loss([0, 0]):.4f} -> {loss(found):.4f}")
    with torch.no_grad():
        last.weight.mul_(slope)
        if direction is None:
            last.bias.mul_(slope)
            last.bias[negative] -= offset
        else:
            last.weight[negative] -= offset * direction
    return slope, offset


def leaf_states(prm: TransformersPRM, labels: Sequence[Labelled]) -> torch.Tensor:
    """The states at which the head reads every prefix of the labelled trajectories (rows, width)."""
    found = []
    for row in labels:
        forest = prm.hidden_states([ScoringRequest(row.question, (tuple(row.steps),))])[0]
        found.append(forest.states[forest.leaves])
    return torch.from_numpy(np.concatenate(found))


def unchanging(features: torch.Tensor) -> torch.Tensor:
    """The direction (width,) on which all features (rows, width) have, as nearly as may be, the same value, 1."""
    gram = features.T @ features
    ridge = RIDGE * gram.diagonal().mean() * torch.eye(len(gram))
    direction: torch.Tensor = torch.linalg.solve(gram + ridge, features.sum(dim=0))
    return direction
