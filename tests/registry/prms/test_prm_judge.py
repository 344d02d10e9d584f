"""The PRM `judge` with a model on this machine: its Yes or No."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from prmcal import JudgePRM
from prmcal.errors import InvalidArgumentsError, PluginFailedError
from prmcal.registry.conformance import run_checks
from prmcal.registry.plugins import prms
from tests.registry.prms.prm_assertions import assert_long_prefixes_flagged

QUESTION = "Start with 37 and keep two digits. a) add 15, b) subtract 8."
TRAJECTORIES = (("a) 37+15=52", "b) 52-8=\\boxed{44}"), ("a) 37+15=42", "b) 42-8=34"), ())
SHEPHERD = "{{ question }}{% if steps %} {{ steps | join(' ки\\n') }}{% endif %} ки"
SIGNS: dict[str, Any] = {"right": ["+", " +", "Yes"], "wrong": ["-", " -"]}


def create(checkpoint: object, **arguments: Any) -> JudgePRM:
    built = prms.create("judge", checkpoint=str(checkpoint), **{**SIGNS, **arguments})
    assert isinstance(built, JudgePRM)
    return built


def test_it_conforms(policy_folder: Path) -> None:
    plugin = create(policy_folder, max_tokens=900)
    assert [check.message for check in run_checks(plugin) if not check.passed] == []
    short = create(policy_folder, template="{{ question }}|{{ solution }}?", max_tokens=60)
    assert_long_prefixes_flagged(short)


def test_a_thought_of_the_chat_template_is_ended_before_the_answer(policy_folder: Path) -> None:
    plugin = create(policy_folder)
    plugin.tokenizer.chat_template = "{{ messages[-1]['content'] }}\n{{ '<think>\n' }}"
    assert plugin.prefix_text(QUESTION, ()).endswith("Answer Yes or No.\n<think>\n</think>\n\n")


def test_with_the_prompt_of_shepherd_it_is_shepherd() -> None:
    asked = create("nano:shepherd", chat=False, template=SHEPHERD)
    shepherd = prms.create("shepherd", checkpoint="nano:shepherd")
    for mine, theirs in zip(asked.score(QUESTION, TRAJECTORIES), shepherd.score(QUESTION, TRAJECTORIES), strict=True):
        np.testing.assert_allclose(mine.logit, theirs.logit, atol=1e-5)
        assert mine.tokens == theirs.tokens


def chat(tokenizer: Any, text: str) -> str:
    shown: str = tokenizer.apply_chat_template(
        [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
    )
    return shown


def test_spellings_of_an_answer_are_added_up(policy_folder: Path) -> None:
    plugin = create(
        policy_folder,
        template="{{ question }}|{{ solution }}?",
        right=["1", "2", "12"],
        wrong=["7", "8", "9"],
    )
    model: Any = AutoModelForCausalLM.from_pretrained(policy_folder)
    tokenizer: Any = AutoTokenizer.from_pretrained(policy_folder)
    ids = tokenizer(chat(tokenizer, f"{QUESTION}|a) 1\n\nb) 2?"), add_special_tokens=False, return_tensors="pt")
    with torch.no_grad():
        chances = model(**ids).logits[0, -1].double().softmax(-1)
    rows = [[tokenizer.convert_tokens_to_ids(each) for each in digits] for digits in ("12", "789")]
    yes, no = (chances[each].sum() for each in rows)
    found = plugin.score(QUESTION, [("a) 1", "b) 2")])[0]
    assert found.reward[-1] == pytest.approx((yes / (yes + no)).item(), abs=1e-5)


def test_a_subclass_needs_three_lines() -> None:
    class Mine(JudgePRM):
        checkpoint, right, wrong = "nano:strong", ["+"], ["-"]

    asked, given = Mine(), create("nano:strong", right=["+"], wrong=["-"])
    asked.check_arguments()
    assert (
        asked.score(QUESTION, TRAJECTORIES)[0].logit.tolist() == given.score(QUESTION, TRAJECTORIES)[0].logit.tolist()
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"template": "{{ question }}"}, "leaves out a step. Write {{ question }}, and {{ solution }}"),
        (
            {"template": "{{ question }} {{ answer }}"},
            "cannot be filled in: UndefinedError: 'answer' is undefined",
        ),
        ({"template": "{{ question"}, "cannot be filled in: TemplateSyntaxError"),
        ({"right": ["+", "-"]}, "'right' and 'wrong' parameters must be lists of different texts"),
        ({"right": []}, "'right' parameter of the prm 'judge'"),
    ],
)
def test_arguments_out_of_range(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentsError) as raised:
        create("nano:strong", **arguments)
    assert message in str(raised.value)


def test_a_model_without_the_answers_or_a_chat_is_refused(policy_folder: Path) -> None:
    with pytest.raises(PluginFailedError, match=r"None of '☺', 'maybe so' is a token of .*Set 'right' to texts"):
        create(policy_folder, right=["☺", "maybe so"]).score(QUESTION, TRAJECTORIES)
    plugin = create(policy_folder)
    plugin.tokenizer.chat_template = None
    with pytest.raises(PluginFailedError, match=r"has no chat template.*or set 'chat' to false"):
        plugin.score(QUESTION, TRAJECTORIES)


def test_all_that_decides_the_scores_is_in_the_identity() -> None:
    variants: Sequence[dict[str, Any]] = (
        {},
        {"template": "{{ question }} {{ solution }}"},
        {"chat": False},
        {"wrong": ["7"]},
    )
    identities = {json.dumps(create("nano:strong", **each).identity()) for each in variants}
    assert len(identities) == len(variants)
    assert json.dumps(create("nano:strong", tree_tokens=7, batch_tokens=7).identity()) in identities


@pytest.mark.parametrize("plugin", ["qwen", "judge"])
def test_thoughts_can_be_left_out_of_what_a_prm_reads(plugin: str) -> None:
    checkpoint = {"qwen": "nano:prm", "judge": "nano:strong"}[plugin]
    own = SIGNS if plugin == "judge" else {}
    without = prms.create(plugin, checkpoint=checkpoint, dtype="float32", read_thoughts=False, **own)
    reading = prms.create(plugin, checkpoint=checkpoint, dtype="float32", **own)
    answer = TRAJECTORIES[0]
    (found,) = without.score(QUESTION, [("<think>\nHmm.", "Wait, no.\n</think>", *answer)])
    (expected,) = reading.score(QUESTION, [answer])
    np.testing.assert_allclose(found.logit, expected.logit[[0, 0, 0, 1, 2]], atol=1e-5)
    (read,) = reading.score(QUESTION, [("<think>\nHmm.", "Wait, no.\n</think>", *answer)])
    assert np.abs(read.logit[1:] - found.logit[1:]).min() > 1e-3
    assert without.identity() != reading.identity()
