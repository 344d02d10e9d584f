"""The head of adaptive temperature scaling: a small transformer that maps hidden states to temperatures."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from prmcal.registry.calibrators.ats.trees import QuestionTree
from prmcal.registry.prms.token_tree import collate_token_trees

__all__ = ["LARGEST_TEMPERATURE", "TemperatureHead", "log_temperatures_of_rows", "make_head"]

LARGEST_TEMPERATURE = 100.0
"""Temperatures lie in [1 / LARGEST_TEMPERATURE, LARGEST_TEMPERATURE], as in the calibrator ``temperature``."""

_LIMIT = math.log(LARGEST_TEMPERATURE)
_FARTHEST_START = 0.9
"""Share of the limit within which training starts. Nearer to the limit, gradients almost vanish."""

_ROTARY_BASE = 10_000.0
_NORM_EPSILON = 1e-6


class TemperatureHead(nn.Module):
    """Decoder blocks over the PRM's states that predict the logarithm of a temperature at every token.

    Parameters
    ----------
    states_width, width, layers, heads : int
        The width of the PRM's states, and the width, the blocks and the attention heads of this head.

    Attributes
    ----------
    mean, scale : Tensor of shape (states_width,)
        Mean and standard deviation that standardise the states.
    """

    mean: torch.Tensor
    scale: torch.Tensor

    def __init__(self, states_width: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(states_width))
        self.register_buffer("scale", torch.ones(states_width))
        self.project = nn.Linear(states_width, width)
        self.blocks = nn.ModuleList(_Block(width, heads) for _ in range(layers))
        self.norm = nn.RMSNorm(width, eps=_NORM_EPSILON)
        self.output = nn.Linear(width, 1)

    def forward(
        self, states: torch.Tensor, position_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> torch.Tensor:
        """Return log T at every token, of shape (B, L), for states of shape (B, L, states_width).

        `position_ids` and `attention_mask` come from :func:`prmcal.registry.prms.token_tree.collate_token_trees`.
        """
        hidden = self.project((states - self.mean) / self.scale)
        for block in self.blocks:
            hidden = block(hidden, position_ids, attention_mask)
        unbounded: torch.Tensor = self.output(self.norm(hidden))[..., 0]
        return _LIMIT * torch.tanh(unbounded / _LIMIT)

    def set_temperature(self, temperature: float) -> None:
        """Let a new head, whose last weights are zero, predict `temperature` everywhere.

        Temperatures near the bounds are replaced by ones at some distance from them.
        """
        bounded = min(max(math.log(temperature) / _LIMIT, -_FARTHEST_START), _FARTHEST_START)
        with torch.no_grad():
            self.output.bias.fill_(_LIMIT * math.atanh(bounded))


class _Block(nn.Module):
    """A decoder block as in Llama: attention with rotary positions, then a gated layer, each behind a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        inner = 8 * width // 3
        self.heads = heads
        self.attention_norm = nn.RMSNorm(width, eps=_NORM_EPSILON)
        self.query_key_value = nn.Linear(width, 3 * width, bias=False)
        self.attention_output = nn.Linear(width, width, bias=False)
        self.gated_norm = nn.RMSNorm(width, eps=_NORM_EPSILON)
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(
        self, hidden: torch.Tensor, position_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> torch.Tensor:
        projected = self.query_key_value(self.attention_norm(hidden))
        query, key, value = projected.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(
            _rotated(query, position_ids), _rotated(key, position_ids), value, attn_mask=attention_mask
        )
        hidden = hidden + self.attention_output(attended.transpose(1, 2).flatten(-2))
        normed = self.gated_norm(hidden)
        added: torch.Tensor = hidden + self.down(functional.silu(self.gate(normed)) * self.up(normed))
        return added


def _rotated(vectors: torch.Tensor, position_ids: torch.Tensor) -> torch.Tensor:
    """Rotary position embedding of vectors of shape (B, heads, L, size)."""
    half = vectors.shape[-1] // 2
    frequencies = _ROTARY_BASE ** (-torch.arange(half, dtype=vectors.dtype) / half)
    angles = position_ids[:, None, :, None] * frequencies
    first, second = vectors.chunk(2, dim=-1)
    cosine, sine = angles.cos(), angles.sin()
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


def make_head(
    mean: NDArray[np.float64], scale: NDArray[np.float64], width: int, layers: int, heads: int, seed: int
) -> TemperatureHead:
    """Return a head that predicts T = 1 everywhere, with inner weights that depend on `seed` alone.

    The last layer is zero, so that the first prediction is the PRM's own reward.
    """
    with torch.device("meta"):  # Here torch draws no random numbers.
        head = TemperatureHead(len(mean), width, layers, heads)
    head.to_empty(device="cpu")
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in head.parameters():
            if parameter.ndim == 2:
                parameter.normal_(0.0, parameter.shape[1] ** -0.5, generator=generator)
            else:
                parameter.zero_()
        for module in head.modules():
            if isinstance(module, nn.RMSNorm):
                module.weight.fill_(1.0)
        head.output.weight.zero_()
        head.mean.copy_(torch.tensor(mean))
        head.scale.copy_(torch.tensor(scale))
    return head


def log_temperatures_of_rows(
    head: TemperatureHead, states: NDArray[np.float32], trees: Sequence[QuestionTree]
) -> torch.Tensor:
    """Return log T of the trees' prefixes, in the order of the trees and of their rows, of shape (prefixes,).

    The trees are one batch. The result has the type of the head's weights.
    """
    dtype = head.output.weight.dtype
    padding = trees[0].root  # The padding needs some state of the batch.
    inputs = collate_token_trees([each.tree for each in trees], pad_id=padding, dtype=dtype)
    nodes = inputs.pop("input_ids")
    everywhere = head(torch.from_numpy(states[nodes.numpy()]).to(dtype), **inputs)
    rows = np.repeat(np.arange(len(trees)), [len(each.rows) for each in trees])
    leaves = np.concatenate([each.tree.leaves for each in trees])
    at_leaves: torch.Tensor = everywhere[torch.from_numpy(rows), torch.from_numpy(leaves)]
    return at_leaves
