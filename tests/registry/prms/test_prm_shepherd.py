"""The PRM `shepherd`: one pass over all prefixes has the scores of the causal language model at each tag."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from prmcal.errors import InvalidArgumentsError, PluginFailedError
from prmcal.registry.conformance import run_checks
from prmcal.registry.plugins import prms
from prmcal.registry.prms.answers import ShepherdPRM
from tests.registry.prms.prm_layouts import (
    COMMON,
    MERGES,
    SHEPHERD,
    write_checkpoint,
    write_tokenizer,
)

QUESTION = "Start with 37. step a) add 15, step b) subtract 8."
TRAJECTORIES = (("step a) 37+15=52", "b) 52-8=\\boxed{44}"), ("a) 37+15=42", "b) 42-8=34", "So: 34"), ())
LLAMA_TIED = {**COMMON, "model_type": "llama", "tie_word_embeddings": True, "max_position_embeddings": 4096}


@pytest.fixture(scope="module")
def folder(one_thread: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model in the layout of Math-Shepherd-Mistral-7B."""
    found = tmp_path_factory.mktemp("shepherd")
    write_checkpoint(found, SHEPHERD)
    write_tokenizer(found, pad_token=None)
    return found


@pytest.fixture(scope="module", params=["mistral", "llama, tied embeddings"])
def any_folder(request: pytest.FixtureRequest, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One model of each architecture."""
    if request.param == "mistral":
        return folder
    other = tmp_path_factory.mktemp("other")
    write_checkpoint(other, LLAMA_TIED)
    write_tokenizer(other, pad_token=None)
    return other


def create(folder: Path, **arguments: Any) -> ShepherdPRM:
    built = prms.create("shepherd", checkpoint=str(folder), **arguments)
    assert isinstance(built, ShepherdPRM)
    return built


def test_it_conforms(folder: Path) -> None:
    assert [check.message for check in run_checks(create(folder)) if not check.passed] == []


def text_of(question: str, steps: Sequence[str], markers: str) -> str:
    if not steps:
        return f"{question} ки"
    if markers == "last":
        return f"{question} " + "\n\n".join(steps) + " ки"
    return f"{question} " + {"every": "\n"}.get(markers, "\n\n").join(f"{step} ки" for step in steps)


@pytest.mark.parametrize("markers", ["every", "last", "every, blank lines"])
def test_one_pass_equals_separate_passes(markers: str, any_folder: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(any_folder).eval()
    tokenizer: Any = AutoTokenizer.from_pretrained(any_folder)
    plus, minus = tokenizer.convert_tokens_to_ids(["▁+", "▁-"])
    rewards = []
    scored = create(any_folder, markers=markers).score(QUESTION, TRAJECTORIES)
    for steps, scores in zip(TRAJECTORIES, scored, strict=True):
        for count in range(len(steps) + 1):
            ids = tokenizer(text_of(QUESTION, steps[:count], markers), return_tensors="pt").input_ids
            with torch.no_grad():
                logits = model(input_ids=ids).logits[0, -1]
            assert tokenizer.decode(ids[0, -1]) == "ки"
            assert abs(scores.logit[count] - (logits[plus] - logits[minus]).item()) < 1e-5
            assert abs(scores.reward[count] - logits[[plus, minus]].softmax(-1)[0].item()) < 1e-5
            rewards.append(scores.reward[count])
    assert np.ptp(rewards) > 0.01


def test_the_bias_of_a_head_is_kept(one_thread: None, tmp_path: Path) -> None:
    from transformers import PhiConfig, PhiForCausalLM

    write_tokenizer(tmp_path, pad_token=None)
    with torch.random.fork_rng():
        torch.manual_seed(6)
        model = PhiForCausalLM(
            PhiConfig(
                vocab_size=len(AutoTokenizer.from_pretrained(tmp_path)),
                hidden_size=32,
                intermediate_size=48,
                num_hidden_layers=2,
                num_attention_heads=4,
            )
        ).eval()
        torch.nn.init.normal_(model.lm_head.bias)
    model.save_pretrained(tmp_path)
    tokenizer: Any = AutoTokenizer.from_pretrained(tmp_path)
    with torch.no_grad():
        logits = model(**tokenizer(text_of(QUESTION, (), "every"), return_tensors="pt")).logits[0, -1]
    plus, minus = tokenizer.convert_tokens_to_ids(["▁+", "▁-"])
    expected = (logits[plus] - logits[minus]).item()
    assert create(tmp_path).score(QUESTION, [()])[0].logit[0] == pytest.approx(expected, abs=1e-5)


def test_a_sliding_window_changes_nothing_up_to_its_length_and_is_refused_beyond(
    one_thread: None, tmp_path: Path
) -> None:
    write_checkpoint(tmp_path, {**SHEPHERD, "sliding_window": 41})
    write_tokenizer(tmp_path, pad_token=None)
    model = AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    tokenizer: Any = AutoTokenizer.from_pretrained(tmp_path)
    plus, minus = tokenizer.convert_tokens_to_ids(["▁+", "▁-"])
    steps = ("7" * 20, "8" * 13)
    ids = tokenizer(text_of("1?", steps, "every"), return_tensors="pt").input_ids
    assert ids.shape[1] == 41
    with torch.no_grad():
        logits = model(input_ids=ids).logits[0, -1]
    fits, longer = create(tmp_path, max_tokens=41).score("1?", [steps, (steps[0], "8" * 14)])
    assert fits.logit[2] == pytest.approx((logits[plus] - logits[minus]).item(), abs=1e-5)
    assert longer.over_long.tolist() == [False, False, True]
    with pytest.raises(
        PluginFailedError, match=r"sliding window of 41 tokens.*Set 'max_tokens' to 41 or less\. Got 42"
    ):
        create(tmp_path, max_tokens=42).score("1?", [steps])


def test_a_tokenizer_without_the_tag_is_refused(folder: Path, tmp_path: Path) -> None:
    write_checkpoint(tmp_path, SHEPHERD)
    write_tokenizer(tmp_path, pad_token=None, merges=tuple(merge for merge in MERGES if "и" not in merge[1]))
    with pytest.raises(
        PluginFailedError, match=r"has no token 'ки', which the PRM 'shepherd' needs. It splits the text"
    ):
        create(tmp_path).score(QUESTION, TRAJECTORIES)


def test_scaled_logits_are_refused(one_thread: None, tmp_path: Path) -> None:
    write_checkpoint(tmp_path, {**COMMON, "model_type": "granite", "logits_scaling": 8.0})
    write_tokenizer(tmp_path, pad_token=None)
    with pytest.raises(PluginFailedError, match=r"transforms its logits \(logits_scaling of model type granite\)"):
        create(tmp_path).score(QUESTION, TRAJECTORIES)


def test_all_that_decides_the_scores_is_in_the_identity(folder: Path) -> None:
    class Other(ShepherdPRM):
        minus = "~"

    plugins = [
        create(folder),
        create(folder, markers="last"),
        create(folder, plus="-", minus="+"),
        create(folder, marker="  ки"),
        create(folder, max_tokens=99),
        create(folder, dtype="bfloat16"),
    ]
    identities = [json.dumps(plugin.identity(), ensure_ascii=False) for plugin in plugins]
    assert len(set(identities)) == len(plugins)
    assert Other(checkpoint=str(folder)).identity()["minus"] == "~"
    same = create(folder, batch_tokens=7, tree_tokens=7, device="cpu")
    assert json.dumps(same.identity(), ensure_ascii=False) == identities[0]


@pytest.mark.parametrize("arguments", [{"minus": "+"}, {"plus": ""}])
def test_answers_that_are_not_two_are_refused(arguments: dict[str, str], folder: Path) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"'plus' and 'minus' parameters must be two different"):
        create(folder, **arguments)
