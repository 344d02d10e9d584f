"""Rows that share a prompt read it once, with the same result as with copies of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, DynamicCache, Qwen2Config, Qwen2ForCausalLM

from prmcal.registry.llms.sampling import Row, SharedPrompts, sample_rows

HEADS, QUERIES, WIDTH = 2, 6, 8


def cached(keys: torch.Tensor, values: torch.Tensor) -> DynamicCache:
    cache = DynamicCache()
    cache.update(keys, values, 0)
    return cache


def dense(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor, scaling: float
) -> torch.Tensor:
    """Attention with a copy of the prompt for every row, head by head."""
    repeated = [x.repeat_interleave(QUERIES // HEADS, dim=1) for x in (key, value)]
    scores = (query @ repeated[0].transpose(-1, -2)) * scaling
    weights = scores.masked_fill(~mask[:, None, None, :], -torch.inf).softmax(-1)
    return (weights @ repeated[1]).transpose(1, 2)


@pytest.mark.parametrize("chosen", [[0, 0, 1, 1, 2, 2], [2, 0, 1, 0, 0], [0], [1, 1, 1, 1]])
@pytest.mark.parametrize("widths", [[5, 5, 5], [2, 5, 1]])
def test_attention_to_a_shared_prompt_is_attention_to_a_copy(chosen: list[int], widths: list[int]) -> None:
    torch.manual_seed(len(chosen))
    prompts = torch.randn(2, 3, HEADS, 5, WIDTH)
    mask = torch.arange(5) >= 5 - torch.tensor(widths)[:, None]
    shared = SharedPrompts(cached(prompts[0], prompts[1]), mask, torch.tensor(chosen))
    kept = torch.arange(len(chosen))
    # All rows, then fewer, then one. Prompts without rows are dropped.
    for _ in range(3):
        rows = torch.tensor(chosen)[kept]
        query = torch.randn(len(rows), QUERIES, 1, WIDTH)
        own = torch.randn(2, len(rows), HEADS, 4, WIDTH)
        whole = torch.cat([prompts[:, rows], own], dim=3)
        seen = torch.cat([mask[rows], torch.ones(len(rows), 4, dtype=torch.bool)], dim=1)
        expected = dense(query, whole[0], whole[1], seen, 0.3)
        torch.testing.assert_close(shared.attend(0, query, own[0], own[1], 0.3), expected)
        stay = torch.arange(len(kept))[len(kept) // 2 :]
        shared.keep(stay)
        kept = kept[stay]


def sampled(model: Any, limit: int = 30) -> list[list[int]]:
    """Four rows each of three prompts of different lengths, some of which end early."""
    rows = [
        Row(prompt, limit, np.random.default_rng([index, place]).random(limit))
        for index, prompt in enumerate([(5, 6, 7, 8, 9), (11, 12), (20,) * 9])
        for place in range(4)
    ]
    sample_rows(
        model,
        rows,
        temperature=1.0,
        top_p=1.0,
        pad_id=0,
        end_ids=frozenset(range(30, 40)),
        stops=lambda tokens: False,
    )
    return [row.tokens for row in rows]


def test_shared_prompts_change_no_sample(policy_folder: Path) -> None:
    models: list[Any] = [
        AutoModelForCausalLM.from_pretrained(policy_folder, dtype="float32", attn_implementation=how)
        for how in ("sdpa", "eager")
    ]
    sharing, copying = (model.eval() for model in models)
    found = sampled(sharing)
    assert found == sampled(copying)
    assert len({len(tokens) for tokens in found}) > 3
    assert sharing.config._attn_implementation == "sdpa"


def test_a_model_that_forgets_is_left_to_its_own_cache() -> None:
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        use_sliding_window=True,
        sliding_window=6,
        max_window_layers=1,
    )
    model = Qwen2ForCausalLM(config).eval()
    prompts = [(5, 6, 7, 8, 9), (5, 6, 7, 8, 9)]
    rows = [Row(prompt, 12, np.full(12, 0.5)) for prompt in prompts]
    sample_rows(
        model, rows, temperature=1e-4, top_p=1.0, pad_id=0, end_ids=frozenset(), stops=lambda tokens: False
    )
    ids = torch.tensor([prompts[0]])
    expected = model.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=12, pad_token_id=0
    )[0, 5:]
    assert [row.tokens for row in rows] == [expected.tolist()] * 2


def test_a_model_attends_as_before_when_sampling_fails(policy_folder: Path) -> None:
    model: Any = AutoModelForCausalLM.from_pretrained(policy_folder)

    def fail(tokens: list[int]) -> bool:
        raise ValueError("stop")

    rows = [Row((5, 6), 3, np.full(3, 0.5)) for _ in range(2)]
    with pytest.raises(ValueError, match="stop"):
        sample_rows(model, rows, temperature=1.0, top_p=1.0, pad_id=0, end_ids=frozenset({-1}), stops=fail)
    assert model.config._attn_implementation == "sdpa"
