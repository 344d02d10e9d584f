"""The LLM `openai-chat` with a real server on this machine: how prefixes are continued, and what a reply means."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from prmcal import Prefix, Sampling
from prmcal.errors import PluginFailedError
from prmcal.registry import network
from prmcal.registry.conformance import parametrize_with_checks
from prmcal.registry.llms.openai import reply_text
from prmcal.registry.plugins import llms
from tests.registry.llms.completions_server import ChatPolicy, Server, serving

WEAK = "nano:weak"
QUESTION = "Start with 37 and keep two digits. a) add 15, b) subtract 8, c) multiply by 3."
STARTED = Prefix(QUESTION, ("a) 37+15=52", "b) 52-8=44"))
serving_chat = partial(serving, path="/chat/completions")


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "FIRST_PAUSE", 0.01)


@pytest.fixture(scope="module")
def weak() -> Iterator[Server]:
    """The weakest of the shipped policies behind chat completions."""
    with serving_chat(ChatPolicy(WEAK)) as server:
        yield server


def plugin(url: str, **arguments: Any) -> Any:
    given = {"continues": "vllm", "timeout": 120.0, **arguments}
    return llms.create("openai-chat", base_url=url, model="weak", **given)


def reply(reason: str = "stop", **message: Any) -> dict[str, Any]:
    return {
        "choices": [{"message": {"role": "assistant", **message}, "finish_reason": reason}],
        "usage": {"completion_tokens": 3, "prompt_tokens": 7},
    }


@parametrize_with_checks([llms.create("openai-chat", base_url="http://localhost/v1", model="weak", continues="vllm")])
def test_a_served_policy_conforms(plugin: Any, check: Any, weak: Server) -> None:
    # The server has no address yet when the checks are collected.
    check(llms.create("openai-chat", **{**plugin.arguments, "base_url": weak.url}))


@pytest.mark.parametrize("prefix", [Prefix(QUESTION), STARTED])
def test_a_prefix_is_continued_as_by_the_same_policy_on_transformers(prefix: Prefix, weak: Server) -> None:
    local: Any = llms.create("transformers", checkpoint=WEAK, dtype="float32", device="cpu")
    cold = Sampling(temperature=0.01, max_tokens=48)
    ((served,),) = plugin(weak.url).generate([prefix], 1, cold, 1)
    ((here,),) = local.generate([prefix], 1, cold, 1)
    assert served == here


@pytest.mark.parametrize(
    ("continues", "last", "others"),
    [
        ("vllm", {}, {"add_generation_prompt": False, "continue_final_message": True}),
        ("prefix", {"prefix": True}, {}),
    ],
)
def test_a_request_says_all_that_decides_the_text(continues: str, last: dict[str, Any], others: dict[str, Any]) -> None:
    with serving_chat(lambda request: reply(content="x")) as server:
        llm = plugin(server.url, continues=continues, system_prompt="Think.")
        llm.generate([STARTED], 2, Sampling(temperature=0.6, top_p=0.9, max_tokens=12, stop=("\n\n",)), 5)
        llm.generate([Prefix(QUESTION)], 1, Sampling(), 5)
    first, second, bare = server.requests
    assert first.pop("seed") != second.pop("seed")
    chat = [{"role": "system", "content": "Think."}, {"role": "user", "content": QUESTION}]
    so_far = {"role": "assistant", "content": "a) 37+15=52\n\nb) 52-8=44\n\n"}
    assert first == second == {
        "model": "weak", "messages": [*chat, so_far | last], "n": 1, "temperature": 0.6, "top_p": 0.9,
        "max_tokens": 12, "stop": ["\n\n"], **others,
    }  # fmt: skip
    assert bare["messages"] == chat
    assert not others.keys() & bare.keys()


def test_without_continuing_only_whole_solutions_are_possible(weak: Server) -> None:
    llm = plugin(weak.url, continues="none")
    ((whole,),) = llm.generate([Prefix(QUESTION)], 1, Sampling(max_tokens=24), 5)
    assert whole.text
    before = len(weak.requests)
    with pytest.raises(PluginFailedError, match=r"Follow-ups.* beam search cannot run.*Set 'continues' to 'vllm'"):
        llm.generate([STARTED], 1, Sampling(), 5)
    assert len(weak.requests) == before


@pytest.mark.parametrize(
    ("message", "so_far", "text"),
    [
        ({"content": "\nso 4"}, "", "\nso 4"),
        ({"content": "so 4", "reasoning_content": None}, "", "so 4"),
        ({"content": None}, "", ""),
        ({"content": "so 4", "reasoning_content": "2+2"}, "", "<think>\n2+2\n</think>\n\nso 4"),
        ({"content": "\n\nso 4", "reasoning": "\n2+2\n"}, "", "<think>\n2+2\n</think>\n\nso 4"),
        ({"content": None, "reasoning": "2+"}, "", "<think>\n2+"),
        ({"content": "so 4", "reasoning": "+2"}, "<think>\n2\n\n", "+2\n</think>\n\nso 4"),
        ({"content": "so 4"}, "<think>\n2+2\n</think>\n\n", "so 4"),
    ],
)
def test_thoughts_are_put_back_in_front_of_the_answer(message: dict[str, Any], so_far: str, text: str) -> None:
    assert reply_text(message, so_far) == text


def test_thoughts_of_a_server_are_in_the_completion() -> None:
    with serving_chat(lambda request: reply("length", content="so", reasoning="2+2")) as server:
        ((found,),) = plugin(server.url).generate([Prefix(QUESTION)], 1, Sampling(), 0)
    assert (found.text, found.tokens, found.finish_reason) == ("<think>\n2+2\n</think>\n\nso", 3, "length")


def test_the_identity_is_the_model_and_what_it_is_asked() -> None:
    here, there = plugin("http://a/v1", concurrency=2), plugin("http://b:8000/v1", key_variable="KEY")
    assert here.identity() == there.identity()
    for changed in ({"continues": "prefix"}, {"weights": "2"}, {"system_prompt": "Think."}):
        assert plugin("http://a/v1", **changed).identity() != here.identity()
