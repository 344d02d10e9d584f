"""Attention over prompts that several rows share, and a cache that grows in place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from transformers import AttentionInterface, DynamicCache, PretrainedConfig, PreTrainedModel
from transformers.cache_utils import DynamicLayer

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


_NAME = "prmcal_shared_prompts"


class SharedPrompts:
    """The prompts of a batch, and the prompt of each row.

    The cache has the keys and values of the prompts in every layer, of shape (prompts, heads, length, width). The mask,
    of shape (prompts, length), is 1 at the tokens of a prompt, and 0 at the padding on its left. `chosen`, of shape
    (rows,), is the index of every row's prompt.
    """

    def __init__(self, cache: DynamicCache, mask: torch.Tensor, chosen: torch.Tensor) -> None:
        layers: list[Any] = cache.layers
        self._keys: list[torch.Tensor] = [layer.keys for layer in layers]
        self._values: list[torch.Tensor] = [layer.values for layer in layers]
        filled = ~mask.bool()
        # Few columns have padding. Masking only these costs a tenth of masking all.
        self._filled = filled[:, : int(filled.sum(1).max())][:, None, None, :]
        self._seat(chosen)

    def keep(self, rows: torch.Tensor) -> None:
        """Keep only these rows (indices, int64) and their prompts."""
        prompts, chosen = torch.unique(self._chosen[rows], return_inverse=True)
        if len(prompts) < len(self._keys[0]):
            self._keys = [keys[prompts] for keys in self._keys]
            self._values = [values[prompts] for values in self._values]
            self._filled = self._filled[prompts]
        self._seat(chosen)

    def _seat(self, chosen: torch.Tensor) -> None:
        """Assign every row to a seat of its prompt. All prompts have as many seats as the one with the most rows."""
        self._chosen = chosen
        counts = torch.bincount(chosen, minlength=len(self._keys[0]))
        order = chosen.argsort(stable=True)
        first = (counts.cumsum(0) - counts)[chosen[order]]
        rank = torch.empty_like(chosen)
        rank[order] = torch.arange(len(chosen), device=chosen.device) - first
        self._seats = int(counts.max())
        place = chosen * self._seats + rank
        everywhere = torch.arange(len(counts) * self._seats, device=chosen.device)
        self._place = None if torch.equal(place, everywhere) else place

    def _by_prompt(self, rows: torch.Tensor) -> torch.Tensor:
        """Rearrange (rows, heads, queries, width) to (prompts, heads, seats x queries, width). Empty seats are 0."""
        prompts, (_, heads, queries, width) = len(self._keys[0]), rows.shape
        if self._place is not None:
            seated = rows.new_zeros(prompts * self._seats, heads, queries, width)
            seated[self._place] = rows
            rows = seated
        rows = rows.view(prompts, self._seats, heads, queries, width).transpose(1, 2)
        return rows.reshape(prompts, heads, self._seats * queries, width)

    def _by_row(self, prompts: torch.Tensor) -> torch.Tensor:
        """The inverse of `_by_prompt`."""
        count, heads, queries, width = prompts.shape
        each = queries // self._seats
        rows = prompts.view(count, heads, self._seats, each, width).transpose(1, 2)
        rows = rows.reshape(count * self._seats, heads, each, width)
        return rows if self._place is None else rows[self._place]

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float
    ) -> torch.Tensor:
        """Attention of every row's newest token to its prompt and to its own tokens.

        The query has the shape (rows, query heads, 1, width). The keys and values of the rows' own tokens have (rows,
        heads, tokens, width). Products are scaled before the softmax. The result has (rows, 1, query heads, width).
        """
        rows, query_heads, _, width = query.shape
        heads = key.shape[1]
        query = query.reshape(rows, heads, query_heads // heads, width) * scaling
        before = self._by_prompt(query) @ self._keys[layer].transpose(-1, -2)
        before[..., : self._filled.shape[-1]].masked_fill_(self._filled, -torch.inf)
        length = before.shape[-1]
        scores = torch.cat([self._by_row(before), query @ key.transpose(-1, -2)], dim=-1)
        weights = scores.softmax(dim=-1, dtype=torch.float32).to(value.dtype)
        attended = self._by_row(self._by_prompt(weights[..., :length]) @ self._values[layer])
        attended = attended + weights[..., length:] @ value
        return attended.reshape(rows, 1, query_heads, width)


def can_share(model: PreTrainedModel, cache: DynamicCache) -> bool:
    """Whether a model can use shared prompts: it has full causal attention, through transformers' interface."""
    return (
        model.config._attn_implementation == "sdpa"
        and bool(model._supports_attention_backend)
        and all(isinstance(layer, DynamicLayer) and not layer.is_sliding for layer in cache.layers)
    )


@contextmanager
def sharing(model: PreTrainedModel) -> Iterator[None]:
    """Inside, the model uses the attention of its keyword argument `shared_prompts`, a SharedPrompts."""
    usual = model.config._attn_implementation
    model.set_attn_implementation(_NAME)
    try:
        yield
    finally:
        model.set_attn_implementation(usual)


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    shared_prompts: SharedPrompts,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    return shared_prompts.attend(module.layer_idx, query, key, value, scaling), None


AttentionInterface.register(_NAME, _attention)
