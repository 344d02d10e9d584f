"""A cache of keys and values with space for more tokens. The cache of transformers copies everything for each token."""

from __future__ import annotations

from typing import Any, cast

import torch
from transformers import DynamicCache, PretrainedConfig
from transformers.cache_utils import DynamicLayer

__all__ = ["growing_cache"]

_ROOM = 64
"""Number of additional tokens that a new buffer has space for."""


class _GrowingLayer(DynamicLayer):
    """The keys and values of one layer, as views of longer buffers of shape (rows, heads, tokens + space, width)."""

    def __init__(self) -> None:
        super().__init__()
        self._buffers: tuple[torch.Tensor, torch.Tensor] | None = None

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append the states of new tokens, of shape (rows, heads, tokens, width), and return those of all tokens."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start = self.get_seq_length()
        end = start + key_states.shape[-2]
        if self._buffers is None or self._buffers[0].shape[-2] < end:
            self._buffers = (
                _longer(cast(torch.Tensor, self.keys), start, key_states, end + _ROOM),
                _longer(cast(torch.Tensor, self.values), start, value_states, end + _ROOM),
            )
        keys, values = self._buffers
        keys[:, :, start:end] = key_states
        values[:, :, start:end] = value_states
        self.keys, self.values = keys[:, :, :end], values[:, :, :end]
        return self.keys, self.values

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep these rows only. This copies them, so the buffers are dropped."""
        super().batch_select_indices(indices)
        self._buffers = None


def _longer(held: torch.Tensor, length: int, states: torch.Tensor, room: int) -> torch.Tensor:
    """A buffer for `room` tokens in the shape of `states`, which begins with the `length` held tokens."""
    rows, heads, _, width = states.shape
    buffer = states.new_empty(rows, heads, room, width)
    if length:
        buffer[:, :, :length] = held
    return buffer


def growing_cache(config: PretrainedConfig) -> DynamicCache:
    """Return a cache for a model with this configuration. Only layers with full attention get growing buffers."""
    cache = DynamicCache(config=config)
    cache.layers = [_GrowingLayer() if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache
