r"""The PRM `skywork`: its token ids and the positions of its values are those of the authors' code."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from prmcal.errors import PluginFailedError
from prmcal.registry.conformance import checks_of
from prmcal.registry.conformance import plugin as plugin_checks
from prmcal.registry.conformance import prm as prm_checks
from prmcal.registry.plugins import prms
from prmcal.registry.prms.heads import SkyworkPRM
from tests.registry.conftest import QWEN2
from tests.registry.prms.prm_assertions import (
    assert_exact_head,
    assert_long_prefixes_flagged,
    assert_trunk_as_saved,
)
from tests.registry.prms.prm_layouts import saved_weights, write_checkpoint

QUESTION = "Start with 37. a) add 15, b) subtract 8?"
TRAJECTORIES = (
    ("a) 37+15=52.", "b) 52-8=\\boxed{44}"),
    ("a) 37+15=42", "b) 42-8=34\nSo: 34."),
    ("4", "", "5"),
    (),
)
VALUE_HEAD = {"v_head.summary.weight": (1, QWEN2["hidden_size"]), "v_head.summary.bias": (1,)}


@pytest.fixture(scope="module")
def folder(one_thread: None, tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model in the published layout. Its tokenizer has a begin-of-sequence token."""
    found = tmp_path_factory.mktemp("skywork")
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    tokenizer.add_special_tokens({"bos_token": "<|im_start|>"})
    tokenizer.save_pretrained(found)
    config = {
        **QWEN2,
        "architectures": ["Qwen2ForPrmModel"],
        "model_type": "qwen2",
        "initializer_range": 0.2,
        "vocab_size": len(tokenizer),
    }
    write_checkpoint(found, config, VALUE_HEAD)
    return found


def create(folder: Path, **arguments: Any) -> SkyworkPRM:
    built = prms.create("skywork", checkpoint=str(folder), **arguments)
    assert isinstance(built, SkyworkPRM)
    return built


@pytest.mark.parametrize("check", plugin_checks.CHECKS + prm_checks.CHECKS)
def test_it_conforms(check: Any, folder: Path) -> None:
    plugin = create(folder)
    assert check in checks_of(plugin)
    check(plugin)


def values(folder: Path, ids: Sequence[int]) -> np.ndarray:
    """The value at every token, computed from the saved trunk and head."""
    trunk = AutoModel.from_pretrained(folder).eval()
    saved = saved_weights(folder)
    with torch.no_grad():
        hidden = trunk(input_ids=torch.tensor([list(ids)])).last_hidden_state[0]
        head = torch.nn.functional.linear(
            hidden, saved["v_head.summary.weight"], saved["v_head.summary.bias"]
        )
    return head[:, 0].numpy()


def authors_ids(folder: Path, question: str, steps: Sequence[str]) -> tuple[list[int], list[int]]:
    """The token ids of a solution by the authors' rule, and the positions of the values: behind every line."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer.encode(tokenizer.bos_token + question + "\n")
    places = []
    for line in "\n".join(steps).split("\n") if steps else ():
        ids = ids + tokenizer.encode(line) + [tokenizer.encode("\n")[-1]]
        places.append(len(ids) - 1)
    return ids, places


def test_rewards_are_those_of_the_authors_rule(folder: Path) -> None:
    rewards: list[float] = []
    for steps, scores in zip(TRAJECTORIES, create(folder).score(QUESTION, TRAJECTORIES), strict=True):
        ids, places = authors_ids(folder, QUESTION, steps)
        ends = np.cumsum([step.count("\n") + 1 for step in steps], dtype=int) - 1
        expected = values(folder, ids)[np.array(places, dtype=int)[ends]]
        np.testing.assert_allclose(scores.logit[1:], expected, atol=1e-5)
        np.testing.assert_allclose(scores.reward[1:], 1 / (1 + np.exp(-expected)), atol=1e-5)
        rewards.extend(scores.reward)
    assert np.ptp(rewards) > 0.01


def test_one_pass_equals_separate_passes(folder: Path) -> None:
    for steps, scores in zip(TRAJECTORIES, create(folder).score(QUESTION, TRAJECTORIES), strict=True):
        for count in range(len(steps) + 1):
            ids, _ = authors_ids(folder, QUESTION, steps[:count])
            assert abs(scores.logit[count] - values(folder, ids)[-1]) < 1e-5


def test_every_weight_of_the_published_layout_is_used(folder: Path, tmp_path: Path) -> None:
    """This includes files with a language-model head, as the published ones have."""
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    config = json.loads((folder / "config.json").read_text())
    write_checkpoint(
        tmp_path, config, {**VALUE_HEAD, "lm_head.weight": (config["vocab_size"], QWEN2["hidden_size"])}
    )
    plugin = create(tmp_path)
    head = {f"v_head.summary.{name}": tensor for name, tensor in plugin.modules[1].state_dict().items()}
    assert set(assert_trunk_as_saved(tmp_path, plugin, head)) == {"lm_head.weight"}


def test_the_head_stays_in_float32_over_a_bfloat16_trunk(folder: Path) -> None:
    assert_exact_head(create(folder, dtype="bfloat16"), create(folder))


def test_over_long_prefixes_are_flagged(folder: Path) -> None:
    assert_long_prefixes_flagged(create(folder, max_tokens=40))


def test_a_model_without_a_value_head_is_refused(policy_folder: Path) -> None:
    with pytest.raises(
        PluginFailedError,
        match=r"than SkyworkRewardModel.* 2 differences: the weight v_head\.summary",
    ):
        create(policy_folder).score(QUESTION, TRAJECTORIES)
