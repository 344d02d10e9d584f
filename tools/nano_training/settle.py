"""The last stage of a reward model: rescale its scores to the labels, and keep their order.

Batches with mostly wrong chains make a verifier too pessimistic. This stage fits a slope and an offset of its log-odds
to the Monte Carlo labels and folds both into the last layer. If that layer has no bias, the offset is added along a
direction in which all features have nearly the same value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from torch.nn import functional

from prmcal.registry.contracts.data import ScoringRequest
from prmcal.registry.prms.transformers import TransformersPRM
from tools.nano_training.labels import LabelledSteps

RIDGE = 1e-3
"""The ridge penalty of the regression of 1 on the features, relative to their mean square."""


def settle(last: Any, negative: int, prm: TransformersPRM, labels: Sequence[LabelledSteps]) -> tuple[float, float]:
    """Fold a slope and an offset into the last layer of a reward model.

    Parameters
    ----------
    last : torch.nn.Linear
        The layer to change. The last layer of `prm`'s head is a copy of it.
    negative : int
        The index of the output for failure. The offset is applied to it.
    prm : TransformersPRM
        The unchanged model.
    labels : sequence of LabelledSteps
        The labels to fit.

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
        direction = constant_direction(features) if last.bias is None else None
        constant = torch.ones(len(features)) if direction is None else features @ direction
    successes = torch.tensor([count for row in labels for count in row.successes], dtype=torch.float32)
    follow_ups = torch.tensor([row.follow_ups for row in labels for _ in row.successes], dtype=torch.float32)

    def loss(parameters: Any) -> float:
        settled = float(np.exp(parameters[0])) * outputs
        settled[:, negative] -= float(parameters[1]) * constant
        return float(functional.binary_cross_entropy_with_logits(prm.log_odds(settled), successes / follow_ups))

    optimum = minimize(loss, [0.0, 0.0], method="Nelder-Mead").x
    slope, offset = float(np.exp(optimum[0])), float(optimum[1])
    print(f"settled: slope {slope:.3f}, offset {offset:.3f}, loss {loss([0, 0]):.4f} -> {loss(optimum):.4f}")
    with torch.no_grad():
        last.weight.mul_(slope)
        if direction is None:
            last.bias.mul_(slope)
            last.bias[negative] -= offset
        else:
            last.weight[negative] -= offset * direction
    return slope, offset


def leaf_states(prm: TransformersPRM, labels: Sequence[LabelledSteps]) -> torch.Tensor:
    """Return the hidden states (rows, width) from which the head scores each prefix of the labelled trajectories."""
    states = []
    for row in labels:
        forest = prm.hidden_states([ScoringRequest(row.question, (tuple(row.steps),))])[0]
        states.append(forest.states[forest.leaves])
    return torch.from_numpy(np.concatenate(states))


def constant_direction(features: torch.Tensor) -> torch.Tensor:
    """Return the direction (width,) along which all features (rows, width) have a value close to 1."""
    gram = features.T @ features
    ridge = RIDGE * gram.diagonal().mean() * torch.eye(len(gram))
    direction: torch.Tensor = torch.linalg.solve(gram + ridge, features.sum(dim=0))
    return direction
