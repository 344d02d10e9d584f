"""Rows that share a prompt read it once, with the same result as with copies of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, Qwen2Config, Qwen2ForCausalLM

from prmcal.registry.llms import shared_prompts
from prmcal.registry.llms.sampling import Row, sample_rows

HEADS, QUERIES, WIDTH = 2, 6, 8


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
    sample_rows(model, rows, temperature=1e-4, top_p=1.0, pad_id=0, end_ids=frozenset(), stops=lambda tokens: False)
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


def test_a_transformers_without_the_interface_samples_the_same(
    policy_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model: Any = AutoModelForCausalLM.from_pretrained(policy_folder, dtype="float32").eval()
    expected = sampled(model)
    shared_prompts._full_layer.cache_clear()
    monkeypatch.delattr("transformers.cache_utils.DynamicLayer")
    with pytest.warns(UserWarning, match="samples slower") as warned:
        assert [sampled(model), sampled(model)] == [expected, expected]
    assert len(warned) == 1
    shared_prompts._full_layer.cache_clear()
