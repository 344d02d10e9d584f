"""The LLM `transformers` samples from the model's distribution and keeps its contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prmcal import Prefix, Sampling
from prmcal.errors import PluginFailedError
from prmcal.registry.conformance import checks_of
from prmcal.registry.conformance import llm as llm_checks
from prmcal.registry.conformance import plugin as plugin_checks
from prmcal.registry.llms.prompts import PromptFormat
from prmcal.registry.llms.sampling import sample_tokens
from prmcal.registry.llms.transformers import TransformersLLM
from prmcal.registry.plugins import llms

QUESTION = "Start with 37 and keep two digits. a) add 15, b) subtract 8."
PREFIXES = (
    Prefix(QUESTION),
    Prefix(QUESTION, ("a) 37+15=52",)),
    Prefix("Start with 01 and keep two digits. a) add 1."),
)


@pytest.fixture(scope="module")
def policy(policy_folder: Path) -> Iterator[TransformersLLM]:
    """The tiny policy as the registry builds it."""
    built = llms.create("transformers", checkpoint=str(policy_folder))
    assert isinstance(built, TransformersLLM)
    yield built
    built.close()


@pytest.mark.parametrize("check", plugin_checks.CHECKS + llm_checks.CHECKS)
def test_it_conforms(check: Any, policy: TransformersLLM) -> None:
    assert check in checks_of(policy)
    check(policy)


def test_the_first_samples_of_many_are_those_of_few(policy: TransformersLLM) -> None:
    few = policy.generate(PREFIXES, 2, Sampling(max_tokens=20), seed=3)
    many = policy.generate(PREFIXES, 6, Sampling(max_tokens=20), seed=3)
    assert [of_prefix[:2] for of_prefix in many] == few


def test_samples_do_not_depend_on_the_size_of_batches(policy_folder: Path, policy: TransformersLLM) -> None:
    narrow = llms.create("transformers", checkpoint=str(policy_folder), batch_tokens=200)
    sampling = Sampling(max_tokens=40)
    assert narrow.generate(PREFIXES, 5, sampling, seed=1) == policy.generate(PREFIXES, 5, sampling, seed=1)


def test_the_global_random_state_is_left_alone(policy: TransformersLLM) -> None:
    before = torch.get_rng_state()
    policy.generate(PREFIXES, 2, Sampling(max_tokens=5), seed=1)
    assert torch.equal(before, torch.get_rng_state())


def test_near_zero_temperature_is_greedy_decoding(policy: TransformersLLM, policy_folder: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(policy_folder)
    model = AutoModelForCausalLM.from_pretrained(policy_folder).eval()
    chat = f"<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\na) 37+15=52\n\n"
    ids = tokenizer(chat, return_tensors="pt").input_ids
    expected = model.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=24, pad_token_id=0
    )[0, ids.shape[1] :]
    completions = policy.generate(PREFIXES, 2, Sampling(temperature=1e-4, max_tokens=24), seed=9)
    for completion in completions[1]:
        assert completion.text == tokenizer.decode(expected, skip_special_tokens=True)
        assert completion.tokens == len(expected)


def test_first_tokens_follow_the_models_distribution(policy: TransformersLLM, policy_folder: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(policy_folder)
    model = AutoModelForCausalLM.from_pretrained(policy_folder).eval()
    chat = f"<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n"
    with torch.no_grad():
        logits = model(**tokenizer(chat, return_tensors="pt")).logits[0, -1]
    probabilities = torch.softmax(logits / 0.7, dim=0).double().numpy()
    samples = 4000
    drawn = policy.generate(PREFIXES[:1], samples, Sampling(temperature=0.7, max_tokens=1), seed=5)[0]
    for token in np.argsort(-probabilities)[:5]:
        text = tokenizer.decode([token], skip_special_tokens=True)
        same_text = [t for t in range(len(probabilities)) if tokenizer.decode([t], skip_special_tokens=True) == text]
        p = probabilities[same_text].sum()
        share = sum(completion.text == text for completion in drawn) / samples
        assert abs(share - p) < 5 * np.sqrt(p * (1 - p) / samples)


def test_text_and_reason_at_a_stop_string(policy: TransformersLLM) -> None:
    free = policy.generate(PREFIXES, 8, Sampling(max_tokens=40), seed=2)
    stopped = policy.generate(PREFIXES, 8, Sampling(max_tokens=40, stop=("e", "1")), seed=2)
    met = 0
    for whole, cut in zip((c for part in free for c in part), (c for part in stopped for c in part), strict=True):
        found = [whole.text.find(stop) for stop in ("e", "1") if stop in whole.text]
        assert cut.text == (whole.text[: min(found)] if found else whole.text)
        if found:
            met += 1
            assert cut.finish_reason == "stop"
            assert cut.tokens <= whole.tokens
        else:
            assert cut == whole
        assert whole.finish_reason == ("length" if whole.tokens == 40 else "end")
    assert met > 5


def test_a_prefix_without_room_is_a_clear_failure(policy: TransformersLLM) -> None:
    with pytest.raises(PluginFailedError, match=r"leaves no room for a completion.*512 tokens"):
        policy.generate([Prefix("7 " * 600)], 1, Sampling(max_tokens=5), seed=0)


def test_a_completion_ends_where_the_context_does(policy: TransformersLLM) -> None:
    used = len(PromptFormat("native").ids(policy._tokenizer, Prefix("7" * 480)))
    completions = policy.generate([Prefix("7" * 480)], 8, Sampling(max_tokens=500), seed=0)[0]
    assert max(completion.tokens for completion in completions) <= 512 - used
    assert all(c.tokens == 512 - used for c in completions if c.finish_reason == "length")


def test_a_model_without_a_chat_template_is_refused(policy_folder: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(policy_folder, tmp_path / "base")
    (tmp_path / "base" / "chat_template.jinja").unlink()
    base = llms.create("transformers", checkpoint=str(tmp_path / "base"))
    with pytest.raises(PluginFailedError, match="no chat template"):
        base.generate(PREFIXES, 1, Sampling(), seed=0)


@given(
    weights=st.lists(st.integers(0, 20), min_size=1, max_size=8).filter(any),
    uniform=st.floats(0, 1, exclude_max=True),
    top_p=st.sampled_from([1.0, 0.9, 0.5, 0.1]),
)
def test_a_draw_is_inside_the_nucleus(weights: list[int], uniform: float, top_p: float) -> None:
    probabilities = np.array(weights) / sum(weights)
    with np.errstate(divide="ignore"):
        logits = torch.tensor(np.log(probabilities))[None]
    token = int(sample_tokens(logits, torch.tensor([uniform], dtype=torch.float64), 1.0, top_p))
    likelier = probabilities[probabilities > probabilities[token] + 1e-6].sum()
    assert probabilities[token] > 0
    assert likelier < top_p + 1e-5
