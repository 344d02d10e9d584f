"""The PRM `judge`: a language model's Yes or No, with and without verifications."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit
from transformers import AutoModelForCausalLM, AutoTokenizer

from prmcal import JudgePRM, ScoringRequest
from prmcal.errors import InvalidArgumentsError, PluginFailedError
from prmcal.registry.conformance import run_checks
from prmcal.registry.models.checkpoints import resolve_checkpoint
from prmcal.registry.plugins import prms
from prmcal.registry.prms.judge import _random_numbers
from tests.registry.prms.prm_assertions import assert_long_prefixes_flagged

QUESTION = "Start with 37 and keep two digits. a) add 15, b) subtract 8."
TRAJECTORIES = (("a) 37+15=52", "b) 52-8=\\boxed{44}"), ("a) 37+15=42", "b) 42-8=34"), ())
SHEPHERD = "{{ question }}{% if steps %} {{ steps | join(' ки\\n') }}{% endif %} ки"
SIGNS: dict[str, Any] = {"right": ["+", " +", "Yes"], "wrong": ["-", " -"]}


def create(checkpoint: object, **arguments: Any) -> JudgePRM:
    built = prms.create("judge", checkpoint=str(checkpoint), **{**SIGNS, **arguments})
    assert isinstance(built, JudgePRM)
    return built


@pytest.fixture(scope="module")
def verifier() -> JudgePRM:
    """The strong nano model, which verifies what it reads in 12 tokens."""
    return create("nano:strong", thoughts=3, thought_tokens=12, cue="\n\n=", temperature=1.5, dtype="float32")


@pytest.mark.parametrize("thoughts", [0, 2])
def test_it_conforms(thoughts: int, policy_folder: Path) -> None:
    plugin = create(policy_folder, thoughts=thoughts, thought_tokens=6, max_tokens=900)
    failed = {each.name: each.message for each in run_checks(plugin) if not each.passed}
    assert set(failed) <= ({"hidden states"} if thoughts else set())
    assert "Set 'thoughts' to 0" in failed.get("hidden states", "Set 'thoughts' to 0")


def test_with_the_prompt_of_shepherd_it_is_shepherd() -> None:
    asked = create("nano:shepherd", chat=False, template=SHEPHERD)
    shepherd = prms.create("shepherd", checkpoint="nano:shepherd")
    for mine, theirs in zip(
        asked.score(QUESTION, TRAJECTORIES), shepherd.score(QUESTION, TRAJECTORIES), strict=True
    ):
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
    ids = tokenizer(
        chat(tokenizer, f"{QUESTION}|a) 1\n\nb) 2?"), add_special_tokens=False, return_tensors="pt"
    )
    with torch.no_grad():
        chances = model(**ids).logits[0, -1].double().softmax(-1)
    rows = [[tokenizer.convert_tokens_to_ids(each) for each in digits] for digits in ("12", "789")]
    yes, no = (chances[each].sum() for each in rows)
    found = plugin.score(QUESTION, [("a) 1", "b) 2")])[0]
    assert found.reward[-1] == pytest.approx((yes / (yes + no)).item(), abs=1e-5)


def test_the_reward_is_the_mean_over_verifications(verifier: JudgePRM) -> None:
    """Every verification is written by the plain sampler, one at a time, and judged in a pass of its own."""
    folder = resolve_checkpoint("nano:strong")
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    rows = [[tokenizer.convert_tokens_to_ids(each)] for each in "+-"]
    steps = TRAJECTORIES[0][:1]
    prompt = verifier.prefix_text(QUESTION, steps)
    chances, texts = [], []
    for numbers in _random_numbers(prompt, 3, 12):
        ids = tokenizer(prompt, add_special_tokens=False).input_ids
        written: list[int] = []
        for number in numbers:
            with torch.no_grad():
                logits = model(torch.tensor([ids + written])).logits[0, -1]
            cumulative = (logits.float() / 1.5).softmax(-1).double().cumsum(-1)
            written.append(int(torch.searchsorted(cumulative, number * cumulative[-1], right=True)))
            if written[-1] in verifier._end_ids or "=" in tokenizer.decode(written):
                break
        text = tokenizer.decode(written, skip_special_tokens=True).partition("=")[0]
        texts.append(text)
        read = tokenizer(f"{prompt}{text}\n\n=", add_special_tokens=False, return_tensors="pt")
        with torch.no_grad():
            logits = model(**read).logits[0, -1]
        chances.append(expit((logits[rows[0]] - logits[rows[1]]).item()))
    assert len(set(texts)) > 1
    assert verifier.score(QUESTION, [steps])[0].reward[-1] == pytest.approx(np.mean(chances), abs=1e-5)


def test_a_score_depends_on_the_prefix_alone(verifier: JudgePRM) -> None:
    alone = verifier.score(QUESTION, [TRAJECTORIES[0]])[0].reward
    requests = [
        ScoringRequest("Start with 01. a) add 1.", (("a) 1+1=2",),)),
        ScoringRequest(QUESTION, TRAJECTORIES),
    ]
    together = verifier.score_batch(requests)[1]
    np.testing.assert_allclose(together[0].reward, alone, atol=1e-5)
    assert together[0].reward[0] == together[1].reward[0] == together[2].reward[0]
    assert np.ptp(alone) > 1e-3
    (whole,) = verifier.score_batch([ScoringRequest(QUESTION, TRAJECTORIES[:1], whole_only=True)])
    np.testing.assert_allclose(whole[0].reward, alone[-1:], atol=1e-5)


@pytest.mark.parametrize("thoughts", [0, 2])
def test_over_long_prefixes_are_flagged(thoughts: int, policy_folder: Path) -> None:
    template = "{{ question }}|{{ solution }}?"
    limit = {"max_tokens": 60} if not thoughts else {"max_tokens": 76, "thoughts": 2, "thought_tokens": 12}
    assert_long_prefixes_flagged(create(policy_folder, template=template, cue="\n\n=", **limit))


def test_a_thought_of_the_chat_template_is_ended_before_the_answer(policy_folder: Path) -> None:
    def read(thoughts: int) -> tuple[JudgePRM, str]:
        plugin = create(policy_folder, thoughts=thoughts, thought_tokens=3, cue="\n\n=")
        plugin.tokenizer.chat_template = "{{ messages[-1]['content'] }}\n{{ '<think>\n' }}"
        return plugin, plugin.prefix_text(QUESTION, ())

    assert read(0)[1].endswith("Answer Yes or No.\n<think>\n</think>\n\n")
    plugin, prompt = read(2)
    assert prompt.endswith("Answer Yes or No.\n<think>\n")
    texts: list[str] = []
    tokenize = plugin.tokenize
    plugin.tokenize = lambda text: texts.append(text) or tokenize(text)  # type: ignore[method-assign,func-returns-value]
    plugin.score(QUESTION, [()])
    judged = [text for text in texts if text.startswith(prompt) and text != prompt]
    assert len(judged) == 2 and all(text.endswith("\n</think>\n\n\n\n=") for text in judged)


def test_a_subclass_needs_three_lines() -> None:
    class Mine(JudgePRM):
        checkpoint, right, wrong = "nano:strong", ["+"], ["-"]

    asked, given = Mine(), create("nano:strong", right=["+"], wrong=["-"])
    asked.check_arguments()
    assert (
        asked.score(QUESTION, TRAJECTORIES)[0].logit.tolist()
        == given.score(QUESTION, TRAJECTORIES)[0].logit.tolist()
    )


def test_hidden_states_need_one_text() -> None:
    (states,) = create("nano:strong").hidden_states([ScoringRequest(QUESTION, TRAJECTORIES)])
    assert len(states) == 7
    with pytest.raises(PluginFailedError, match="Set 'thoughts' to 0, or leave out calibrators"):
        create("nano:strong", thoughts=1).hidden_states([ScoringRequest(QUESTION, TRAJECTORIES)])


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
        (
            {"thoughts": 1, "thought_tokens": 4096},
            "'thought_tokens' parameter must be below 'max_tokens', 4096",
        ),
    ],
)
def test_arguments_out_of_range(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentsError) as raised:
        create("nano:strong", **arguments)
    assert message in str(raised.value)


def test_a_model_without_the_answers_or_a_chat_is_refused(policy_folder: Path) -> None:
    with pytest.raises(
        PluginFailedError, match=r"None of '☺', 'maybe so' is a token of .*Set 'right' to texts"
    ):
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
        {"thoughts": 2},
        {"thoughts": 2, "cue": "?"},
        {"thoughts": 2, "temperature": 0.6},
        {"wrong": ["7"]},
    )
    identities = {json.dumps(create("nano:strong", **each).identity()) for each in variants}
    assert len(identities) == len(variants)
    assert json.dumps(create("nano:strong", sample_tokens=7, batch_tokens=7).identity()) in identities


def test_closing_releases_both_models(policy_folder: Path) -> None:
    plugin = create(policy_folder, thoughts=1, thought_tokens=2)
    before = plugin.score(QUESTION, [()])[0].logit.tolist()
    plugin.close()
    assert not {"modules", "_language_model"} & set(vars(plugin))
    assert plugin.score(QUESTION, [()])[0].logit.tolist() == before


@pytest.mark.parametrize("plugin", ["qwen", "judge"])
def test_thoughts_can_be_left_out_of_what_a_prm_reads(plugin: str) -> None:
    checkpoint = {"qwen": "nano:prm", "judge": "nano:strong"}[plugin]
    own = SIGNS | {"thoughts": 1, "thought_tokens": 4} if plugin == "judge" else {}
    without = prms.create(plugin, checkpoint=checkpoint, dtype="float32", read_thoughts=False, **own)
    reading = prms.create(plugin, checkpoint=checkpoint, dtype="float32", **own)
    answer = TRAJECTORIES[0]
    (found,) = without.score(QUESTION, [("<think>\nHmm.", "Wait, no.\n</think>", *answer)])
    (expected,) = reading.score(QUESTION, [answer])
    np.testing.assert_allclose(found.logit, expected.logit[[0, 0, 0, 1, 2]], atol=1e-5)
    (read,) = reading.score(QUESTION, [("<think>\nHmm.", "Wait, no.\n</think>", *answer)])
    assert np.abs(read.logit[1:] - found.logit[1:]).min() > 1e-3
    assert "read_thoughts" not in json.dumps(reading.identity())
    assert without.identity()["read_thoughts"] is False
