"""Sample from a transformers model in batches, whose rows may share prompts."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from prmcal.arrays import Floats
from prmcal.registry.llms.shared_prompts import SharedPrompts, can_share, sharing

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
    """The cache of a model. It has the whole prompt of every row, or only the later tokens if rows share `prompts`.

    `mask` (rows, tokens) is 0 at the padding of the tokens that are read first.
    """

    model: PreTrainedModel
    prompts: SharedPrompts | None = None
    mask: Tensor | None = None

    def __post_init__(self) -> None:
        self.cache = DynamicCache(config=self.model.config)
        # Models of transformers 5.24 and later have another name for it.
        parameters = inspect.signature(type(self.model).forward).parameters
        self._cache_argument = "cache" if "cache" in parameters else "past_key_values"

    def keep(self, rows: Tensor) -> None:
        self.cache.batch_select_indices(rows)
        if self.prompts is not None:
            self.prompts.keep(rows)
        if self.mask is not None:
            self.mask = self.mask[rows]

    def next_logits(self, ids: Tensor, places: Tensor) -> Tensor:
        """Append the tokens `ids` (rows, tokens) to the cache, and return the next logits (rows, vocabulary)."""
        how: dict[str, Any] = {self._cache_argument: self.cache, "use_cache": True, "logits_to_keep": 1}
        if self.prompts is not None:
            how["shared_prompts"] = self.prompts
        elif self.mask is not None:
            how["attention_mask"] = self.mask
            self.mask = torch.cat([self.mask, self.mask.new_ones(len(ids), 1)], dim=1)  # The next token.
        logits: Tensor = self.model(input_ids=ids, position_ids=places, **how).logits[:, -1]
        return logits
