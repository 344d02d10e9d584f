"""Rows of a batch that share prompts, by undocumented parts of transformers.

If a version of transformers lacks one of these parts, each row keeps a copy of its prompt. Texts are then the same, up
to rounding, and sampling takes longer.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

_NAME = "prmcal_shared_prompts"


class SharedPrompts:
    """The prompts of a batch, and the prompt of each row.

    The cache has the keys and values of the prompts in every layer, of shape (prompts, heads, length, width). The mask,
    of shape (prompts, length), is 1 at the tokens of a prompt, and 0 at the padding on its left. `prompt_of_row`, of
    shape (rows,), is the index of every row's prompt.
    """

    def __init__(self, cache: DynamicCache, mask: Tensor, prompt_of_row: Tensor) -> None:
        layers: list[Any] = cache.layers
        self._keys: list[Tensor] = [layer.keys for layer in layers]
        self._values: list[Tensor] = [layer.values for layer in layers]
        filled = ~mask.bool()
        # Few columns have padding. Masking only these costs a tenth of masking all.
        self._filled = filled[:, : int(filled.sum(1).max())][:, None, None, :]
        self._seat(prompt_of_row)

    def keep(self, rows: Tensor) -> None:
        """Keep only these rows (indices, int64) and their prompts."""
        prompts, prompt_of_row = torch.unique(self._prompt_of_row[rows], return_inverse=True)
        if len(prompts) < len(self._keys[0]):
            self._keys = [keys[prompts] for keys in self._keys]
            self._values = [values[prompts] for values in self._values]
            self._filled = self._filled[prompts]
        self._seat(prompt_of_row)

    def _seat(self, prompt_of_row: Tensor) -> None:
        """Assign every row to a seat of its prompt. All prompts have as many seats as the prompt with the most rows."""
        self._prompt_of_row = prompt_of_row
        earlier_rows = (prompt_of_row[:, None] == prompt_of_row).tril(-1).sum(1)  # those with the same prompt
        self._seats = int(earlier_rows.max()) + 1
        place = prompt_of_row * self._seats + earlier_rows
        everywhere = torch.arange(len(self._keys[0]) * self._seats, device=prompt_of_row.device)
        self._place = None if torch.equal(place, everywhere) else place

    def _by_prompt(self, rows: Tensor) -> Tensor:
        """Rearrange (rows, heads, queries, width) to (prompts, heads, seats x queries, width). Empty seats are 0."""
        prompts, (_, heads, queries, width) = len(self._keys[0]), rows.shape
        if self._place is not None:
            with_seats = rows.new_zeros(prompts * self._seats, heads, queries, width)
            with_seats[self._place] = rows
            rows = with_seats
        rows = rows.view(prompts, self._seats, heads, queries, width).transpose(1, 2)
        return rows.reshape(prompts, heads, self._seats * queries, width)

    def _by_row(self, prompts: Tensor) -> Tensor:
        """The inverse of `_by_prompt`."""
        count, heads, queries, width = prompts.shape
        queries_of_row = queries // self._seats
        rows = prompts.view(count, heads, self._seats, queries_of_row, width).transpose(1, 2)
        rows = rows.reshape(count * self._seats, heads, queries_of_row, width)
        return rows if self._place is None else rows[self._place]

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
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


@cache
def _full_layer() -> Any:
    """Register the attention, and return the class of cache layers that it reads; None if parts are missing."""
    try:
        from transformers import AttentionInterface
        from transformers.cache_utils import DynamicLayer

        AttentionInterface.register(_NAME, _attention)
    except (ImportError, AttributeError) as error:
        warnings.warn(f"This version of transformers samples slower: {error}", stacklevel=2)
        return None
    return DynamicLayer


def can_share(model: PreTrainedModel, memory: DynamicCache) -> bool:
    """True if a model can use shared prompts: it has full causal attention, through transformers' interface."""
    layer_class = _full_layer()
    return (
        layer_class is not None
        and getattr(model.config, "_attn_implementation", None) == "sdpa"
        and bool(getattr(model, "_supports_attention_backend", False))
        and all(isinstance(layer, layer_class) and not layer.is_sliding for layer in memory.layers)
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
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    shared_prompts: SharedPrompts,
    **_: Any,
) -> tuple[Tensor, None]:
    return shared_prompts.attend(module.layer_idx, query, key, value, scaling), None
