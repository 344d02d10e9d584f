"""A cache of keys and values with room for more tokens: the library's own copies everything for every new token."""

from __future__ import annotations

from typing import Any, cast

import torch
from transformers import DynamicCache, PretrainedConfig
from transformers.cache_utils import DynamicLayer

__all__ = ["growing_cache"]

_ROOM = 64
"""Tokens that a buffer is made longer than it has to be."""


class _GrowingLayer(DynamicLayer):  # type: ignore[no-untyped-call]  # transformers is half typed
    """One layer's keys and values, views of buffers of shape (rows, heads, tokens and room, width)."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._buffers: tuple[torch.Tensor, torch.Tensor] | None = None

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append the states of new tokens, each (rows, heads, tokens, width), and return those of all."""
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
        """Keep these rows; what is kept is a copy, so the buffers go."""
        super().batch_select_indices(indices)
        self._buffers = None


def _longer(held: torch.Tensor, length: int, states: torch.Tensor, room: int) -> torch.Tensor:
    """A buffer shaped for `states` with room for so many tokens, that begins with the `length` held ones."""
    rows, heads, _, width = states.shape
    buffer = states.new_empty(rows, heads, room, width)
    if length:
        buffer[:, :, :length] = held
    return buffer


def growing_cache(config: PretrainedConfig) -> DynamicCache:
    """A cache for a model of a configuration; layers of another kind than full attention stay the library's."""
    cache = DynamicCache(config=config)
    cache.layers = [_GrowingLayer() if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache
