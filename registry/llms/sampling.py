"""Sampling many rows of tokens from a causal language model, one token of every unfinished row per step.

Each row draws from random numbers of its own, so what it says depends on its own seed and not on the rows it
happens to share a batch with. Finished rows leave the batch, and rows that share a prompt share its first pass and,
where the model allows it, its keys and values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import DynamicCache, PreTrainedModel

from prmcal.registry.llms.growing_cache import growing_cache
from prmcal.registry.llms.shared_prompts import SharedPrompts, can_share, sharing

__all__ = ["Row", "sample_rows", "sample_tokens"]

_COMPACT_BELOW = 0.8
"""Finished rows are dropped once fewer than this share of a batch's rows goes on: dropping copies the cache."""


@dataclass
class Row:
    """One completion in the making.

    Attributes
    ----------
    prompt : tuple of int
        Token ids that it continues.
    limit : int
        Tokens that it may have at the most, at least 1.
    uniforms : ndarray of shape (limit,), float64
        Its random numbers in [0, 1), one per token.
    tokens : list of int
        What was sampled so far, the end-of-text token included.
    stopped : bool
        Whether it came to an end of its own before `limit`.
    """

    prompt: tuple[int, ...]
    limit: int
    uniforms: NDArray[np.float64]
    tokens: list[int] = field(default_factory=list)
    stopped: bool = False

    @property
    def finished(self) -> bool:
        """Whether nothing more is to be sampled."""
        return self.stopped or len(self.tokens) == self.limit


def sample_tokens(
    logits: torch.Tensor, uniforms: torch.Tensor, temperature: float, top_p: float
) -> torch.Tensor:
    """Draw one token per row by the inverse of the cumulative distribution.

    Parameters
    ----------
    logits : tensor of shape (rows, vocabulary)
        Scores of the next token.
    uniforms : tensor of shape (rows,), float64
        One random number in [0, 1) per row.
    temperature : float
        Above 0; divides the logits.
    top_p : float
        Nucleus mass in (0, 1]: the smallest set of likeliest tokens that holds it is drawn from.

    Returns
    -------
    tensor of shape (rows,), int64
    """
    probabilities = torch.softmax(logits.float() / temperature, dim=-1)
    order = None
    if top_p < 1.0:
        probabilities, order = probabilities.sort(dim=-1, descending=True, stable=True)
        before = probabilities.cumsum(-1, dtype=torch.float64) - probabilities
        probabilities = probabilities.masked_fill(before >= top_p, 0.0)
    cumulative = probabilities.cumsum(-1, dtype=torch.float64)
    # Scaled by the total, a draw lies below it, so it never falls beyond the last token that has any probability.
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
    """Sample all rows of one batch to their end, in place.

    Parameters
    ----------
    model : PreTrainedModel
        A causal language model in evaluation mode.
    rows : sequence of Row
        The batch.
    temperature, top_p : float
        As in :func:`sample_tokens`.
    pad_id : int
        Token that fills prompts up on their left.
    end_ids : frozenset of int
        Tokens that end a completion.
    stops : callable
        Whether a completion's tokens so far hold a stop string.
    """
    memory, places, logits = _read_prompts(model, rows, pad_id)
    draw = partial(sample_tokens, temperature=temperature, top_p=top_p)
    with memory.attention():
        _go_on(
            memory, list(rows), places, logits, draw, lambda tokens: tokens[-1] in end_ids or stops(tokens)
        )


def _go_on(
    memory: _Copied | _Shared,
    batch: list[Row],
    places: torch.Tensor,
    logits: torch.Tensor,
    draw: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    ends: Callable[[list[int]], bool],
) -> None:
    """Sample token after token until all rows are finished."""
    device = logits.device
    while True:
        numbers = [row.uniforms[min(len(row.tokens), row.limit - 1)] for row in batch]
        tokens = draw(logits, torch.tensor(numbers, dtype=torch.float64, device=device)).cpu()
        going = []
        for index, (row, token) in enumerate(zip(batch, tokens.tolist(), strict=True)):
            if row.finished:
                continue
            row.tokens.append(token)
            row.stopped = ends(row.tokens)
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
    """One pass over the rows' different prompts: what to remember of it, next places (rows, 1), and next logits."""
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
    """What every row has read, its prompt included, in a cache of its own; `mask` (rows, tokens) is 0 at padding."""

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
    """What every row has read after its prompt, and the prompts that rows share."""

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
    """Logits (rows, vocabulary) after the newest tokens `ids` (rows, tokens), which join the cache."""
    output = model(
        input_ids=ids, position_ids=places, past_key_values=cache, use_cache=True, logits_to_keep=1, **how
    )
    logits: torch.Tensor = output.logits[:, -1]
    return logits
