"""Batches that do not fit into the memory of a GPU are computed in parts, and the results are the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from transformers import Qwen2Model

from prmcal import Prefix, Sampling, ScoringRequest
from prmcal.errors import PluginFailedError
from prmcal.registry.contracts.calibrator import ScoredPrefixes
from prmcal.registry.plugins import calibrators, llms, prms

REQUESTS = [
    ScoringRequest(
        f"Start with {37 + number} and keep two digits. a) add 15, b) subtract 8.",
        (("a) 37+15=52", "b) 52-8=\\boxed{44}"), ("a) 37+15=42", "b) 42-8=34", "So: 34"), ()),
    )
    for number in range(4)
]


@contextmanager
def memory_for(tokens: int, recomputed: int = 0) -> Iterator[list[int]]:
    """Let the passes of Qwen2 models fail if they have more tokens. Yields the sizes of those that were computed.

    If activations are computed again for the gradients, `recomputed` is the largest number of tokens.
    """
    forward, sizes = Qwen2Model.forward, []

    def limited(self: Any, input_ids: torch.Tensor, **given: Any) -> Any:
        if input_ids.numel() > max(tokens, recomputed * self.is_gradient_checkpointing):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nMore lines.")
        sizes.append(input_ids.numel())
        return forward(self, input_ids=input_ids, **given)

    with patch.object(Qwen2Model, "forward", limited):
        yield sizes


def test_scores_are_the_same_and_the_next_batches_are_smaller(
    reward_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plenty = prms.create("qwen", checkpoint=str(reward_folder)).score_batch(REQUESTS)
    plugin: Any = prms.create("qwen", checkpoint=str(reward_folder))
    with memory_for(300) as sizes:
        found = plugin.score_batch(REQUESTS)
        said = len(caplog.messages)
        again = plugin.score_batch(REQUESTS)
    assert len(caplog.messages) == said, "the second call ran out of memory again"
    assert max(sizes) <= 300
    assert f"Set 'batch_tokens' of the PRM 'qwen' to {plugin.batch_tokens} or less" in caplog.messages[-1]
    for other in (found, again):
        for one, two in zip(plenty, other, strict=True):
            for expected, scores in zip(one, two, strict=True):
                np.testing.assert_allclose(scores.logit, expected.logit, atol=1e-5)


def test_hidden_states_are_the_same(reward_folder: Path) -> None:
    plenty = prms.create("qwen", checkpoint=str(reward_folder)).hidden_states(REQUESTS)
    plugin = prms.create("qwen", checkpoint=str(reward_folder))
    with memory_for(95) as sizes:
        found = plugin.hidden_states(REQUESTS)
    assert len(sizes) > len(REQUESTS)
    for one, other in zip(plenty, found, strict=True):
        np.testing.assert_array_equal(one.parents, other.parents)
        np.testing.assert_array_equal(one.leaves, other.leaves)
        np.testing.assert_allclose(one.states, other.states, atol=1e-4)
        np.testing.assert_allclose(one.logit, other.logit, atol=1e-4)


def test_a_question_with_a_large_tree_is_read_in_pieces(reward_folder: Path) -> None:
    whole = prms.create("qwen", checkpoint=str(reward_folder))
    pieces = prms.create("qwen", checkpoint=str(reward_folder), batch_tokens=120)
    (one,) = whole.hidden_states(REQUESTS[:1])
    with memory_for(len(one.states) - 1):
        (other,) = pieces.hidden_states(REQUESTS[:1])
    np.testing.assert_array_equal(one.parents, other.parents)
    np.testing.assert_allclose(one.states, other.states, atol=1e-4)


def test_a_solution_that_does_not_fit_alone_is_an_error(reward_folder: Path) -> None:
    plugin = prms.create("qwen", checkpoint=str(reward_folder))
    with (
        memory_for(20),
        pytest.raises(PluginFailedError, match="does not fit into the memory of the GPU") as found,
    ):
        plugin.score_batch(REQUESTS)
    assert "Tried to allocate 2.00 GiB" in str(found.value)
    assert "More lines" not in str(found.value)


def test_texts_are_the_same(policy_folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    prefixes, sampling = [Prefix(each.question) for each in REQUESTS], Sampling(max_tokens=20)
    plenty = llms.create("transformers", checkpoint=str(policy_folder)).generate(prefixes, 4, sampling, 1)
    llm: Any = llms.create("transformers", checkpoint=str(policy_folder))
    with memory_for(100):
        assert llm.generate(prefixes, 4, sampling, 1) == plenty
    assert "of the LLM 'transformers'" in caplog.messages[-1]


@pytest.mark.parametrize("recomputed", [0, 10_000])
def test_a_fit_is_the_same_up_to_rounding(
    reward_folder: Path, caplog: pytest.LogCaptureFixture, recomputed: int
) -> None:
    prefixes = tuple(
        Prefix(each.question, steps)
        for each in REQUESTS
        for trajectory in each.trajectories
        for steps in each.prefixes(trajectory)
    )
    k = np.arange(len(prefixes)) % 9
    rewards = []
    for tokens in (10_000, 130):
        plugin = prms.create("qwen", checkpoint=str(reward_folder), tree_tokens=100)
        logits = np.concatenate([each.logit for of in plugin.score_batch(REQUESTS) for each in of])
        features = ScoredPrefixes(plugin, prefixes, logits.astype(np.float64))
        # Passes that are divided have other random numbers.
        how = {"epochs": 2, "dropout": 0.1 if recomputed else 0.0, "layers": [0], "learning_rate": 1e-2}
        calibrator = calibrators.create("quantile-lora", **how)
        with memory_for(tokens, recomputed):
            calibrator.fit(features, k, np.full(len(k), 8))
        rewards.append(calibrator.predict(features))
    assert np.ptp(rewards[0]) > 0.01
    np.testing.assert_allclose(rewards[1], rewards[0], atol=1e-7 if recomputed else 1e-4)
    assert any("Set 'batch_tokens' of the PRM to" in line for line in caplog.messages) != bool(recomputed)
