"""Batches of whole trajectories in token trees have the gradients of one pass per prefix."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prmcal import Prefix
from prmcal.errors import PluginFailedError
from prmcal.registry.calibrators.lora.fitting import (
    batch_passes,
    plan_batches,
    quantile_loss,
    token_ids,
)
from prmcal.registry.calibrators.lora.model import adapted, lora_config, quantile_model
from prmcal.registry.plugins import prms

LEVELS = (0.1, 0.5, 0.9)
TRAJECTORIES = (
    ("37+15?", ("37+15=52", "So 52")),
    ("37+15?", ("37+15=42", "So 42", "No: 52")),
    ("37+15?", ("37+15=52", "So 52")),
    ("What is 8-3?", ("8-3=5",)),
    ("1+1?", ()),
)
PREFIXES = tuple(Prefix(question, steps[:count]) for question, steps in TRAJECTORIES for count in range(len(steps) + 1))


@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=40),
    batch_size=st.integers(1, 40),
    seed=st.integers(0, 5),
)
def test_each_epoch_has_every_row_once_in_even_batches(sizes: list[int], batch_size: int, seed: int) -> None:
    ends = np.cumsum(sizes)
    units = [np.arange(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    plan = plan_batches(units, batch_size, 3, seed)
    wanted = max(1, round(sum(sizes) / batch_size))
    for epoch in plan:
        assert sorted(np.concatenate(epoch)) == list(range(sum(sizes)))
        assert len(epoch) <= wanted
        assert max(map(len, epoch)) < sum(sizes) / wanted + max(sizes)
    again = plan_batches(units, batch_size, 3, seed)
    assert [rows.tolist() for rows in plan[2]] == [rows.tolist() for rows in again[2]]


def test_the_order_changes_with_the_epoch_and_the_seed() -> None:
    units = [np.array([row]) for row in range(50)]
    first, second = ([rows.tolist() for rows in epoch] for epoch in plan_batches(units, 10, 2, 0))
    (other,) = plan_batches(units, 10, 1, 1)
    assert first != second
    assert first != [rows.tolist() for rows in other]


def test_a_prefix_that_is_too_long_is_refused(reward_folder: Path) -> None:
    prm: Any = prms.create("qwen", checkpoint=str(reward_folder), max_tokens=75)
    with pytest.raises(PluginFailedError, match="longer than the 75 tokens"):
        token_ids(prm, [Prefix("7" * 80)])


@pytest.mark.parametrize("limits", [{"tree_tokens": 1, "batch_tokens": 1}, {"tree_tokens": 90}, {}])
def test_gradients_are_those_of_one_pass_per_prefix(limits: dict[str, int], reward_folder: Path) -> None:
    prm: Any = prms.create("qwen", checkpoint=str(reward_folder), **limits)
    base = quantile_model(prm, len(LEVELS))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = adapted(base, lora_config(base, 2, 32, 0.0, "all", ("q_proj", "v_proj"), "lora"))
        for name, weight in model.named_parameters():
            if "lora_B" in name:  # They start at 0, where lora_A has no gradient.
                torch.nn.init.normal_(weight, std=0.02)
    trained = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    loss = partial(quantile_loss, levels=LEVELS)
    sequences = token_ids(prm, PREFIXES)
    rates = np.random.default_rng(0).random(len(PREFIXES))  # Equal prefixes can have different labels.

    for ids, rate in zip(sequences, rates, strict=True):
        last = torch.tensor([[len(ids) - 1]])
        inputs = {"input_ids": torch.tensor([ids]), "position_ids": torch.arange(len(ids))[None]}
        predicted = torch.sigmoid(model(**inputs, attention_mask=None, leaves=last)[0])
        (loss(predicted, torch.tensor([rate]).float()).sum() / len(rates)).backward()
    one_by_one = {name: weight.grad.clone() for name, weight in trained.items() if weight.grad is not None}
    model.zero_grad()

    for part in batch_passes(np.arange(len(rates)), PREFIXES, sequences, rates, prm):
        (loss(torch.sigmoid(model(**part["inputs"])), part["target"]) * part["weight"]).sum().backward()
    assert set(one_by_one) == set(trained)
    assert max(gradient.abs().max() for gradient in one_by_one.values()) > 1e-2
    for name, weight in trained.items():
        torch.testing.assert_close(weight.grad, one_by_one[name], rtol=0, atol=1e-5)
