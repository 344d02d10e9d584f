"""Sample from a transformers model in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import torch
from transformers import DynamicCache, PreTrainedModel

from prmcal.arrays import Floats
from prmcal.registry.llms.shared_prompts import SharedPrompts, can_share, growing_cache, sharing

if TYPE_CHECKING:
    pass

_COMPACT_BELOW = 0.8
"""Finished rows are dropped once fewer than this share of the rows is unfinished. Dropping copies the cache."""


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
    """Whether the completion ended at an end token or at a stop string; None if it did not."""

    @property
    def finished(self) -> bool:
        """Whether the completion ended or has reached its limit."""
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


def sample_tokens(
    logits: torch.Tensor, uniforms: torch.Tensor, temperature: float, top_p: float
) -> torch.Tensor:
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
    drawn = torch.searchsorted(cumulative, (uniforms * cumulative[:, -1]).unsqueeze(1), right=True)
    drawn = drawn.clamp(max=logits.shape[-1] - 1)
    return (drawn if order is None else order.gather(1, drawn)).squeeze(1)


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
    draw = partial(sample_tokens, temperature=temperature, top_p=top_p)
    with memory.attention():
        _go_on(memory, list(rows), places, logits, draw, ends)


def _go_on(
    memory: _Copied | _Shared,
    batch: list[Row],
    places: torch.Tensor,
    logits: torch.Tensor,
    draw: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    ends: Callable[[list[int]], Literal["end", "stop"] | None],
) -> None:
    """Sample one token at a time until all rows are finished."""
    device = logits.device
    while True:
        numbers = [row.uniforms[min(len(row.tokens), row.limit - 1)] for row in batch]
        tokens = draw(logits, torch.tensor(numbers, dtype=torch.float64, device=device)).cpu()
        going = []
        for index, (row, token) in enumerate(zip(batch, tokens.tolist(), strict=True)):
            if row.finished:
                continue
            row.tokens.append(token)
            row.ended = ends(row.tokens)
            if not row.finished:
                going.append(index)
        if not going:
            return
        if len(going) < _COMPACT_BELOW * len(batch):
            chosen = torch.tensor(going)
            memory.keep(chosen.to(device))
            batch = [batch[index] for index in going]
            tokens, places = tokens[chosen], places[chosen]
        logits = memory.next_logits(tokens[:, None].to(device), places.to(device))
        places = places + 1


def _read_prompts(
    model: PreTrainedModel, rows: Sequence[Row], pad_id: int
) -> tuple[_Copied | _Shared, torch.Tensor, torch.Tensor]:
    """Read the distinct prompts in one pass. Return the cache, the next positions (rows, 1) and the next logits."""
    prompts = list(dict.fromkeys(row.prompt for row in rows))
    longest = max(map(len, prompts))
    ids = torch.tensor([[pad_id] * (longest - len(prompt)) + list(prompt) for prompt in prompts])
    widths = torch.tensor([[len(prompt)] for prompt in prompts])
    mask = (torch.arange(longest) >= longest - widths).long().to(model.device)
    places = (mask.cumsum(1) - 1).clamp(min=0)
    memory: _Copied | _Shared
    memory = read = _Copied(model, growing_cache(model.config), mask[:, :0])
    logits = read.next_logits(ids.to(model.device), places, mask)

    number = {prompt: index for index, prompt in enumerate(prompts)}
    chosen = torch.tensor([number[row.prompt] for row in rows])
    if len(prompts) < len(rows) and can_share(model, read.cache):
        memory = _Shared(model, SharedPrompts(read.cache, mask, chosen.to(model.device)))
    else:
        memory.keep(chosen.to(model.device))
    return memory, widths[chosen], logits[chosen.to(model.device)]


class _Copied:
    """A cache in which every row has a copy of its prompt. `mask` (rows, tokens) is 0 at padding."""

    def __init__(self, model: PreTrainedModel, cache: DynamicCache, mask: torch.Tensor) -> None:
        self.model, self.cache, self._mask = model, cache, mask

    def attention(self) -> AbstractContextManager[None]:
        return nullcontext()

    def keep(self, rows: torch.Tensor) -> None:
        self.cache.batch_select_indices(rows)
        self._mask = self._mask[rows]

    def next_logits(
        self, ids: torch.Tensor, places: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        new = torch.ones_like(ids) if mask is None else mask
        self._mask = torch.cat([self._mask, new], dim=1)
        return _next_logits(self.model, ids, places, self.cache, attention_mask=self._mask)


class _Shared:
    """A cache of the rows' tokens after their prompts, and the prompts, which rows share."""

    def __init__(self, model: PreTrainedModel, prompts: SharedPrompts) -> None:
        self.model, self._prompts, self._cache = model, prompts, growing_cache(model.config)

    def attention(self) -> AbstractContextManager[None]:
        return sharing(self.model)

    def keep(self, rows: torch.Tensor) -> None:
        self._prompts.keep(rows)
        self._cache.batch_select_indices(rows)

    def next_logits(self, ids: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        return _next_logits(self.model, ids, places, self._cache, shared_prompts=self._prompts)


def _next_logits(
    model: PreTrainedModel, ids: torch.Tensor, places: torch.Tensor, cache: DynamicCache, **how: Any
) -> torch.Tensor:
    """Append the tokens `ids` (rows, tokens) to the cache, and return the next logits (rows, vocabulary)."""
    output = model(
        input_ids=ids, position_ids=places, past_key_values=cache, use_cache=True, logits_to_keep=1, **how
    )
    logits: torch.Tensor = output.logits[:, -1]
    return logits
