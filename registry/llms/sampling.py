"""Sample from a transformers model in batches, whose rows may share prompts."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import AttentionInterface, DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from prmcal.arrays import Floats

_COMPACT_BELOW = 0.8
"""Finished rows are dropped once fewer than this share of the rows is unfinished. Dropping copies the cache."""

_NAME = "prmcal_shared_prompts"


@dataclass
class Row:
    """One completion, while it is sampled."""

    prompt: tuple[int, ...]
    """The token ids of the prompt."""
    limit: int
    """The maximum number of tokens, at least 1."""
    uniforms: Floats
    """The random numbers in [0, 1), one per token. Of shape (limit,), float64."""
    tokens: list[int] = field(default_factory=list)
    """The tokens sampled so far, including the end-of-text token."""
    ended: Literal["end", "stop"] | None = None
    """True if the completion ended at an end token or at a stop string; None if it did not."""

    @property
    def finished(self) -> bool:
        """True if the completion ended or has reached its limit."""
        return self.ended is not None or len(self.tokens) == self.limit


def batches_of_rows(rows: Sequence[Row], batch_tokens: int) -> Iterator[list[Row]]:
    """Yield the rows in batches of similar lengths: at most `batch_tokens` rows times (prompt + longest completion)."""
    batch: list[Row] = []
    longest = 0
    for row in sorted(rows, key=lambda row: len(row.prompt)):
        longest = max(longest, len(row.prompt) + row.limit)
        if batch and longest * (len(batch) + 1) > batch_tokens:
            yield batch
            batch, longest = [], len(row.prompt) + row.limit
        batch.append(row)
    if batch:
        yield batch


def sample_tokens(logits: Tensor, uniforms: Tensor, temperature: float, top_p: float) -> Tensor:
    """Draw one token per row by the inverse of the cumulative distribution, of shape (rows,), int64.

    The logits of the next token, of shape (rows, vocabulary), are divided by a temperature above 0. `uniforms`, of
    shape (rows,), float64, are random numbers in [0, 1). Tokens are drawn from the smallest set of most likely tokens
    with at least the mass `top_p` in (0, 1].
    """
    probabilities = torch.softmax(logits.float() / temperature, dim=-1)
    order = None
    if top_p < 1.0:
        probabilities, order = probabilities.sort(dim=-1, descending=True, stable=True)
        before = probabilities.cumsum(-1, dtype=torch.float64) - probabilities
        probabilities = probabilities.masked_fill(before >= top_p, 0.0)
    cumulative = probabilities.cumsum(-1, dtype=torch.float64)
    # A draw is scaled by the total, so it never falls beyond the last token with a positive probability.
    token_ids = torch.searchsorted(cumulative, (uniforms * cumulative[:, -1]).unsqueeze(1), right=True)
    token_ids = token_ids.clamp(max=logits.shape[-1] - 1)
    return (token_ids if order is None else order.gather(1, token_ids)).squeeze(1)


@torch.inference_mode()
def sample_rows(
    model: PreTrainedModel,
    rows: Sequence[Row],
    *,
    temperature: float,
    top_p: float,
    pad_id: int,
    end_ids: frozenset[int],
    stops: Callable[[list[int]], bool],
) -> None:
    """Sample all rows of one batch until they are finished, in place.

    The model is a causal language model in evaluation mode. Temperature and top_p are as in :func:`sample_tokens`.
    `pad_id` pads prompts on the left, and `end_ids` end a completion. `stops` returns whether the tokens of a
    completion contain a stop string.
    """

    def ends(tokens: list[int]) -> Literal["end", "stop"] | None:
        if tokens[-1] in end_ids:
            return "end"
        return "stop" if stops(tokens) else None

    memory, places, logits = _read_prompts(model, rows, pad_id)
    batch, device = list(rows), logits.device
    with nullcontext() if memory.prompts is None else sharing(model):
        while True:
            numbers = [row.uniforms[min(len(row.tokens), row.limit - 1)] for row in batch]
            uniforms = torch.tensor(numbers, dtype=torch.float64, device=device)
            tokens = sample_tokens(logits, uniforms, temperature, top_p).cpu()
            unfinished_indices = []
            for index, (row, token) in enumerate(zip(batch, tokens.tolist(), strict=True)):
                if row.finished:
                    continue
                row.tokens.append(token)
                row.ended = ends(row.tokens)
                if not row.finished:
                    unfinished_indices.append(index)
            if not unfinished_indices:
                return
            if len(unfinished_indices) < _COMPACT_BELOW * len(batch):
                unfinished = torch.tensor(unfinished_indices)
                memory.keep(unfinished.to(device))
                batch = [batch[index] for index in unfinished_indices]
                tokens, places = tokens[unfinished], places[unfinished]
            logits = memory.next_logits(tokens[:, None].to(device), places.to(device))
            places = places + 1


def _read_prompts(model: PreTrainedModel, rows: Sequence[Row], pad_id: int) -> "tuple[_Memory, Tensor, Tensor]":
    """Read the distinct prompts in one pass. Return the cache, the next positions (rows, 1) and the next logits."""
    prompts = list(dict.fromkeys(row.prompt for row in rows))
    longest = max(map(len, prompts))
    ids = torch.tensor([[pad_id] * (longest - len(prompt)) + list(prompt) for prompt in prompts])
    widths = torch.tensor([[len(prompt)] for prompt in prompts])
    mask = (torch.arange(longest) >= longest - widths).long().to(model.device)
    places = (mask.cumsum(1) - 1).clamp(min=0)
    memory = _Memory(model, mask=mask)
    logits = memory.next_logits(ids.to(model.device), places)

    number = {prompt: index for index, prompt in enumerate(prompts)}
    prompt_of_row = torch.tensor([number[row.prompt] for row in rows])
    if len(prompts) < len(rows) and can_share(model, memory.cache):
        memory = _Memory(model, SharedPrompts(memory.cache, mask, prompt_of_row.to(model.device)))
    else:
        memory.keep(prompt_of_row.to(model.device))
    return memory, widths[prompt_of_row], logits[prompt_of_row.to(model.device)]


@dataclass
class _Memory:
    """The cache of a model. It has the prompt of every row, or only its later tokens, if rows share `prompts`.

    `mask` (rows, tokens) is 0 at the padding of the tokens that are read first.
    """

    model: PreTrainedModel
    prompts: "SharedPrompts | None" = None
    mask: Tensor | None = None

    def __post_init__(self) -> None:
        self.cache = DynamicCache(config=self.model.config)

    def keep(self, rows: Tensor) -> None:
        self.cache.batch_select_indices(rows)
        if self.prompts is not None:
            self.prompts.keep(rows)
        if self.mask is not None:
            self.mask = self.mask[rows]

    def next_logits(self, ids: Tensor, places: Tensor) -> Tensor:
        """Append the tokens `ids` (rows, tokens) to the cache, and return the next logits (rows, vocabulary)."""
        how: dict[str, Any] = {"past_key_values": self.cache, "use_cache": True, "logits_to_keep": 1}
        if self.prompts is not None:
            how["shared_prompts"] = self.prompts
        elif self.mask is not None:
            how["attention_mask"] = self.mask
            self.mask = torch.cat([self.mask, self.mask.new_ones(len(ids), 1)], dim=1)  # The next token.
        logits: Tensor = self.model(input_ids=ids, position_ids=places, **how).logits[:, -1]
        return logits


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
        """Assign every row to a seat of its prompt. All prompts have as many seats as the one with the most rows."""
        self._prompt_of_row = prompt_of_row
        counts = torch.bincount(prompt_of_row, minlength=len(self._keys[0]))
        order = prompt_of_row.argsort(stable=True)
        first_row = (counts.cumsum(0) - counts)[prompt_of_row[order]]
        rank = torch.empty_like(prompt_of_row)
        rank[order] = torch.arange(len(prompt_of_row), device=prompt_of_row.device) - first_row
        self._seats = int(counts.max())
        place = prompt_of_row * self._seats + rank
        everywhere = torch.arange(len(counts) * self._seats, device=prompt_of_row.device)
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


def can_share(model: PreTrainedModel, cache: DynamicCache) -> bool:
    """True if a model can use shared prompts: it has full causal attention, through transformers' interface."""
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
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    shared_prompts: SharedPrompts,
    **_: Any,
) -> tuple[Tensor, None]:
    return shared_prompts.attend(module.layer_idx, query, key, value, scaling), None


AttentionInterface.register(_NAME, _attention)
