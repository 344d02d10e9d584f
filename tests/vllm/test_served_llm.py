"""The LLM `openai-chat` and the PRM `judge` with vLLM's own server: one model as text, as a chat and as a judge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from prmcal import LLM, Prefix, Sampling
from prmcal.errors import PluginFailedError
from prmcal.registry.conformance import checks_of
from prmcal.registry.conformance import llm as llm_checks
from prmcal.registry.conformance import plugin as plugin_checks
from prmcal.registry.plugins import llms, prms
from tests.vllm.server import free_port, serving

QUESTION = "Start with 37 and keep two digits. a) add 15, b) subtract 8, c) multiply by 3."
STARTED = Prefix(QUESTION, ("a) 37+15=52", "b) 52-8=44"))
PREFIXES = (Prefix(QUESTION), Prefix(QUESTION, STARTED.steps[:1]), STARTED)


SETTINGS = ("--max-model-len", "512", "--max-logprobs", "400")


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of the strongest of the shipped policies."""
    port, log = free_port(), tmp_path_factory.mktemp("chat") / "log"
    with serving("nano:strong", "nano-strong", port, log, *SETTINGS):
        yield f"http://127.0.0.1:{port}/v1"


def llm(address: str) -> LLM:
    return llms.create("openai-chat", base_url=address, model="nano-strong", continues="vllm", patience=5.0)


@pytest.mark.parametrize("stop", [(), ("\n\n",)])
def test_a_continued_message_is_the_prompt_of_the_completions_interface(stop: tuple[str, ...], chat: str) -> None:
    completions = llms.create("openai", base_url=chat, model="nano-strong", tokenizer="nano:strong", patience=5.0)
    sampling = Sampling(max_tokens=100, stop=stop)
    found = llm(chat).generate(PREFIXES, 6, sampling, 3)
    assert found == completions.generate(PREFIXES, 6, sampling, 3)
    assert len({each.text for of_prefix in found for each in of_prefix}) > 3


@pytest.mark.parametrize("check", plugin_checks.CHECKS + llm_checks.CHECKS)
def test_the_served_llm_conforms(check: Any, chat: str) -> None:
    built = llm(chat)
    assert check in checks_of(built)
    check(built)


def test_a_server_for_an_llm_is_no_prm(chat: str) -> None:
    served = prms.create(
        "pooling-http", base_url=chat.removesuffix("/v1"), model="nano-strong", tokenizer="nano:strong"
    )
    with pytest.raises(PluginFailedError, match=r"refused a request with 404.*'base_url'"):
        served.score("1+1?", [()])


@pytest.mark.parametrize("chat_of", [True, False])
def test_a_served_judge_scores_as_the_model_on_this_machine(chat_of: bool, chat: str) -> None:
    given: dict[str, Any] = {"right": ["+", " +"], "wrong": ["-", " -"], "chat": chat_of}
    served = prms.create("judge", base_url=chat, model="nano-strong", top_logprobs=300, patience=5.0, **given)
    local = prms.create("judge", checkpoint="nano:strong", dtype="float32", device="cpu", **given)
    trajectories = [STARTED.steps, ("a) 37+15=42",), ()]
    found, expected = (each.score(QUESTION, trajectories) for each in (served, local))
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine.logit, theirs.logit, atol=1e-3)
    (long,) = served.score(QUESTION, [("a) 37+15=52", "7+" * 600)])
    assert long.over_long.tolist() == [False, False, True]
