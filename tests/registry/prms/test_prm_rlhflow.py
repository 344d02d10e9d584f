"""The PRM `rlhflow`: one pass over all prefixes has the scores of the authors' step-by-step chat."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from prmcal.errors import InvalidArgumentsError, PluginFailedError
from prmcal.registry.conformance import checks_of
from prmcal.registry.conformance import plugin as plugin_checks
from prmcal.registry.conformance import prm as prm_checks
from prmcal.registry.plugins import prms
from prmcal.registry.prms.answers import RLHFlowPRM
from tests.registry.prms.prm_assertions import assert_long_prefixes_flagged, assert_trunk_as_saved
from tests.registry.prms.prm_layouts import (
    LLAMA_31,
    LLAMA_31_TEMPLATE,
    LLAMA_31_TOKENS,
    write_checkpoint,
)

QUESTION = "Start with 37. step a) add 15, step b) subtract 8."
TRAJECTORIES = (("a) 37+15=52", "b) 52-8=\\boxed{44}"), ("a) 37+15=42", "b) 42-8=34", "So: 34"), ())


@pytest.fixture(scope="module")
def folder(one_thread: None, tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model in the layout of Llama-3.1, with its configuration, special tokens and chat template."""
    found = tmp_path_factory.mktemp("rlhflow")
    tokenizer: Any = AutoTokenizer.from_pretrained(tokenizer_folder)
    tokenizer.add_special_tokens({"bos_token": LLAMA_31_TOKENS[0], "eos_token": LLAMA_31_TOKENS[-1]})
    tokenizer.add_tokens(list(LLAMA_31_TOKENS), special_tokens=True)
    tokenizer.chat_template = LLAMA_31_TEMPLATE
    tokenizer.save_pretrained(found)
    write_checkpoint(found, {**LLAMA_31, "vocab_size": len(tokenizer)})
    return found


def create(folder: Path, **arguments: Any) -> RLHFlowPRM:
    built = prms.create("rlhflow", checkpoint=str(folder), **arguments)
    assert isinstance(built, RLHFlowPRM)
    return built


@pytest.mark.parametrize("check", plugin_checks.CHECKS + prm_checks.CHECKS)
def test_it_conforms(check: Any, folder: Path) -> None:
    plugin = create(folder)
    assert check in checks_of(plugin)
    check(plugin)


def authors_rewards(folder: Path, question: str, steps: Sequence[str]) -> list[float]:
    """The rewards of the steps by the authors' rule: a growing chat, read three tokens before its end."""
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    answers = [tokenizer.encode(answer, add_special_tokens=False)[-1] for answer in "+-"]
    chat: list[dict[str, str]] = []
    rewards = []
    for number, step in enumerate(steps):
        chat.append({"role": "user", "content": f"{question} {step}" if number == 0 else step})
        chat.append({"role": "assistant", "content": "+"})
        ids = tokenizer.apply_chat_template(chat, return_tensors="pt", return_dict=True)["input_ids"]
        with torch.no_grad():
            rewards.append(model(ids).logits[0, -3, answers].softmax(-1)[0].item())
    return rewards


def test_rewards_are_those_of_the_authors_rule(folder: Path) -> None:
    rewards: list[float] = []
    for steps, scores in zip(TRAJECTORIES, create(folder).score(QUESTION, TRAJECTORIES), strict=True):
        np.testing.assert_allclose(scores.reward[1:], authors_rewards(folder, QUESTION, steps), atol=1e-5)
        rewards.extend(scores.reward)
    assert np.ptp(rewards) > 0.01


def test_one_pass_equals_separate_passes(folder: Path) -> None:
    """Separate passes over the whole texts, including the bare question."""
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    plus, minus = tokenizer.convert_tokens_to_ids(["+", "-"])
    begin = (
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
        "Today Date: 26 Jul 2024\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n" + QUESTION
    )
    answer = "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
    next_turn = "+<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n"
    for steps, scores in zip(TRAJECTORIES, create(folder).score(QUESTION, TRAJECTORIES), strict=True):
        for count in range(len(steps) + 1):
            turns = begin + " " + (answer + next_turn).join(steps[:count]) if count else begin
            ids = tokenizer(turns + answer, add_special_tokens=False, return_tensors="pt").input_ids
            with torch.no_grad():
                logits = model(input_ids=ids).logits[0, -1]
            assert abs(scores.logit[count] - (logits[plus] - logits[minus]).item()) < 1e-5


def test_every_weight_is_used_and_of_the_head_two_rows(folder: Path) -> None:
    plugin = create(folder)
    left = assert_trunk_as_saved(folder, plugin)
    assert set(left) == {"lm_head.weight"}
    rows = AutoTokenizer.from_pretrained(folder).convert_tokens_to_ids(["+", "-"])
    assert torch.equal(plugin.modules[1].get_parameter("weight"), left["lm_head.weight"][rows])


def test_the_earlier_answers_that_it_reads_are_its_own_plus(folder: Path) -> None:
    text = create(folder, plus="a", minus="b").prefix_text(QUESTION, ("1", "2"))
    assert "<|end_header_id|>\n\na<|eot_id|>" in text
    assert "+<|eot_id|>" not in text


def test_over_long_prefixes_are_flagged(folder: Path) -> None:
    assert_long_prefixes_flagged(create(folder, max_tokens=120))


def test_an_answer_that_is_no_token_is_refused(folder: Path) -> None:
    with pytest.raises(PluginFailedError, match="has no token '☺', which the PRM 'rlhflow' needs"):
        create(folder, plus="☺").score(QUESTION, TRAJECTORIES)


def test_a_reward_model_without_a_language_model_head_is_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    write_checkpoint(tmp_path, json.loads((folder / "config.json").read_text()), {"score.weight": (2, 32)})
    with pytest.raises(
        PluginFailedError,
        match=r"than LlamaForCausalLM.* 2 differences: the weight lm_head\.weight is missing",
    ):
        create(tmp_path).score(QUESTION, TRAJECTORIES)


def test_two_equal_answers_are_refused(folder: Path) -> None:
    with pytest.raises(
        InvalidArgumentsError, match=r"'plus' and 'minus' parameters must be two different texts"
    ):
        prms.create("rlhflow", checkpoint=str(folder), minus="+")
