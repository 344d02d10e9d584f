"""The two stages of an ensemble: many heads on the same states, and a network that weighs them for each prefix."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from prmcal.registry.calibrators.heads.training import TrainingSettings, train

__all__ = ["BeliefNetwork", "Heads", "train_beliefs", "train_heads"]


class Heads(nn.Module):
    """Heads LayerNorm, Linear, GELU, Linear with weights of their own, computed together.

    Parameters
    ----------
    heads, inputs, width : int
        The numbers of heads, inputs and hidden units.
    """

    def __init__(self, heads: int, inputs: int, width: int) -> None:
        super().__init__()
        self.inputs = inputs
        self.gain = nn.Parameter(torch.ones(heads, 1, inputs))
        self.shift = nn.Parameter(torch.zeros(heads, 1, inputs))
        self.first = nn.Parameter(_uniform(inputs, heads, inputs, width))
        self.first_bias = nn.Parameter(_uniform(inputs, heads, 1, width))
        self.last = nn.Parameter(_uniform(width, heads, width, 1))
        self.last_bias = nn.Parameter(_uniform(width, heads, 1, 1))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the log-odds of each head, of shape (rows, heads), for inputs of shape (rows, inputs)."""
        normal = functional.layer_norm(inputs, (self.inputs,)) * self.gain + self.shift
        hidden = functional.gelu(torch.baddbmm(self.first_bias, normal, self.first))
        log_odds: torch.Tensor = torch.baddbmm(self.last_bias, hidden, self.last)[..., 0].T
        return log_odds


class BeliefNetwork(nn.Module):
    """Map a state and the predictions of the heads to a weight for each head. Before training, all are equal."""

    def __init__(self, heads: int, inputs: int, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.LayerNorm(inputs + heads), nn.Linear(inputs + heads, width), nn.GELU(), nn.Linear(width, heads)
        )
        for weights in self.layers[-1].parameters():
            nn.init.zeros_(weights)

    def forward(self, inputs: torch.Tensor, rewards: torch.Tensor) -> torch.Tensor:
        """Return the logarithms of the weights, of shape (rows, heads)."""
        return torch.log_softmax(self.layers(torch.cat([inputs, rewards], dim=1)), dim=1)


def train_heads(
    heads: Heads,
    inputs: torch.Tensor,
    k: torch.Tensor,
    n: torch.Tensor,
    rows: NDArray[np.int64],
    seen: torch.Tensor,
    settings: TrainingSettings,
    report: Callable[[str], None],
) -> None:
    """Minimise the cross-entropy of k of n. Each head is trained on the rows that it sees.

    Parameters
    ----------
    heads : Heads
    inputs : tensor of shape (rows, inputs), float32
    k, n : tensor of shape (rows,), float32
    rows : ndarray of int64
        The rows of this stage.
    seen : tensor of shape (rows, heads), float32
        1 where a head sees a row, else 0.
    settings : TrainingSettings
    report : callable
    """

    def loss_of(batch: torch.Tensor) -> torch.Tensor:
        loss = _cross_entropy(heads(inputs[batch]), k[batch], n[batch]) * seen[batch]
        # The sum over heads, so that the steps of a head do not depend on the number of heads.
        return (loss.sum(0) / (seen[batch] * n[batch, None]).sum(0).clamp(min=1)).sum()

    train(heads, loss_of, rows, settings, None, report)


def train_beliefs(
    beliefs: BeliefNetwork,
    inputs: torch.Tensor,
    log_odds: torch.Tensor,
    k: torch.Tensor,
    n: torch.Tensor,
    rows: NDArray[np.int64],
    divergence: float,
    settings: TrainingSettings,
    report: Callable[[str], None],
) -> None:
    """Minimise the mean of the weighted cross-entropy, plus `divergence` times KL(weights, equal weights).

    The arguments are those of :func:`train_heads`. `log_odds`, of shape (rows, heads), are those of the trained heads.
    """
    equal = float(np.log(log_odds.shape[1]))

    def loss_of(batch: torch.Tensor) -> torch.Tensor:
        logarithms = beliefs(inputs[batch], torch.sigmoid(log_odds[batch]))
        weights = logarithms.exp()
        loss = (weights * _cross_entropy(log_odds[batch], k[batch], n[batch])).sum(1)
        whole: torch.Tensor = (loss + divergence * ((weights * logarithms).sum(1) + equal)).mean()
        return whole

    train(beliefs, loss_of, rows, settings, None, report)


def _cross_entropy(log_odds: torch.Tensor, k: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    """The cross-entropy of all follow-ups, of shape (rows, heads), for log-odds of this shape."""
    right, wrong = functional.softplus(-log_odds), functional.softplus(log_odds)
    return k[:, None] * right + (n - k)[:, None] * wrong


def _uniform(inputs: int, *shape: int) -> torch.Tensor:
    """Initial weights of a linear layer with this number of inputs, as in torch's own."""
    weights: torch.Tensor = (2 * torch.rand(*shape) - 1) / inputs**0.5
    return weights
