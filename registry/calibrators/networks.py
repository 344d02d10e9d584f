"""The networks of `ensemble` and `monotone-quantile`, and their losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from prmcal.arrays import Bools, Floats, Ints
from prmcal.registry.calibrators.training import TrainingSettings, train_rows


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
    rows: Ints,
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

    train_rows(heads, loss_of, rows, settings, None, report)


def train_beliefs(
    beliefs: BeliefNetwork,
    inputs: torch.Tensor,
    log_odds: torch.Tensor,
    k: torch.Tensor,
    n: torch.Tensor,
    rows: Ints,
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

    train_rows(beliefs, loss_of, rows, settings, None, report)


def _cross_entropy(log_odds: torch.Tensor, k: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    """The cross-entropy of all follow-ups, of shape (rows, heads), for log-odds of this shape."""
    right, wrong = functional.softplus(-log_odds), functional.softplus(log_odds)
    return k[:, None] * right + (n - k)[:, None] * wrong


def _uniform(inputs: int, *shape: int) -> torch.Tensor:
    """Initial weights of a linear layer with this number of inputs, as in torch's own."""
    weights: torch.Tensor = (2 * torch.rand(*shape) - 1) / inputs**0.5
    return weights


INTERVALS = 32
"""The levels 0, 1/32, ..., 1 are the knots of the quantile function."""

_FIRST_SPREAD = 4.0
_DRAWS = 8
"""Levels that the pinball loss is computed at for each row of a batch."""


class MonotoneNetwork(nn.Module):
    """Map inputs to the log-odds of the quantiles at the knots.

    The log-odds at the middle knot are a linear function plus a network of one hidden layer. The steps from knot to
    knot are the softplus of such a network's other outputs, so they are positive.

    Parameters
    ----------
    inputs, width : int
        The numbers of inputs and of hidden units.
    """

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, 1)
        self.hidden = nn.Linear(inputs, width)
        self.last = nn.Linear(width, 1 + INTERVALS)
        with torch.no_grad():
            self.linear.weight.zero_()
            self.linear.bias.zero_()
            self.last.weight.mul_(0.1)
            self.last.bias.fill_(float(np.log(np.expm1(_FIRST_SPREAD / INTERVALS))))
            self.last.bias[0] = 0.0

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return log-odds at the knots, of shape (rows, knots), ascending, for inputs of shape (rows, inputs)."""
        outputs = self.last(functional.gelu(self.hidden(inputs)))
        rises = torch.cumsum(functional.softplus(outputs[:, 1:]), dim=1)
        rises = functional.pad(rises, (1, 0))
        middle = self.linear(inputs) + outputs[:, :1]
        knots: torch.Tensor = middle + rises - rises[:, INTERVALS // 2, None]
        return knots


def train_quantiles(
    network: MonotoneNetwork,
    inputs: Floats,
    k: Ints,
    n: Ints,
    held_out: Bools,
    loss: Literal["likelihood", "pinball"],
    settings: TrainingSettings,
    report: Callable[[str], None],
) -> int:
    """Train the network on the rows that are not held out, and return the epoch that is kept.

    Parameters
    ----------
    network : MonotoneNetwork
    inputs : ndarray of shape (rows, inputs), float64
    k, n : ndarray of shape (rows,), int64
    held_out : ndarray of shape (rows,), bool
    loss : {"likelihood", "pinball"}
    settings : TrainingSettings
    report : callable
    """
    given = torch.from_numpy(inputs.astype(np.float32))
    successes, follow_ups = (torch.from_numpy(np.asarray(each, dtype=np.float32)) for each in (k, n))

    def random_loss(rows: torch.Tensor) -> torch.Tensor:
        knots = network(given[rows])
        if loss == "likelihood":
            return _negative_log_likelihood(knots, successes[rows], follow_ups[rows])
        rates = (successes[rows] + torch.rand(len(rows))) / (follow_ups[rows] + 1)
        return _pinball(knots, rates, torch.rand(len(rows), _DRAWS))

    held = torch.from_numpy(np.flatnonzero(held_out))

    def held_out_loss() -> float:
        with torch.no_grad():
            knots = network(given[held])
            if loss == "likelihood":
                return float(_negative_log_likelihood(knots, successes[held], follow_ups[held]))
            rates = (successes[held] + 0.5) / (follow_ups[held] + 1)
            levels = (torch.arange(INTERVALS) + 0.5) / INTERVALS
            return float(_pinball(knots, rates, levels.expand(len(held), -1)))

    rows = np.flatnonzero(~held_out)
    return train_rows(network, random_loss, rows, settings, held_out_loss if len(held) else None, report)


def _negative_log_likelihood(knots: torch.Tensor, k: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    """The mean of -ln P(k | n) in nats, without ln C(n, k): P is the mean over the middles of the intervals."""
    middles = (knots[:, 1:] + knots[:, :-1]) / 2
    right, wrong = functional.logsigmoid(middles), functional.logsigmoid(-middles)
    each = k[:, None] * right + (n - k)[:, None] * wrong
    return -(torch.logsumexp(each, dim=1) - float(np.log(INTERVALS))).mean()


def _pinball(knots: torch.Tensor, rates: torch.Tensor, levels: torch.Tensor) -> torch.Tensor:
    """The mean pinball loss of rates, of shape (rows,), at levels of shape (rows, levels)."""
    place = levels * INTERVALS
    below = place.floor().clamp(0, INTERVALS - 1).long()
    low, high = knots.gather(1, below), knots.gather(1, below + 1)
    short = rates[:, None] - torch.sigmoid(low + (place - below) * (high - low))
    return torch.maximum(levels * short, (levels - 1) * short).mean()
