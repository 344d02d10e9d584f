"""The LLM `openai` with a real server on this machine: requests, repeated attempts and clear errors."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from prmcal import Prefix, Sampling
from prmcal.errors import NoAnswerError, PluginFailedError
from prmcal.registry import network
from prmcal.registry.conformance import parametrize_with_checks
from prmcal.registry.plugins import llms
from tests.registry.llms.completions_server import SLOW, Policy, Server, reply, serving

TEMPLATE = "Q: {{ messages[-1]['content'] }}\nA: "
PREFIXES = [Prefix("1+1?"), Prefix("1+1?"), Prefix("2+2?", ("a) two", "b) two more"))]
WEAK = "nano:weak"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "FIRST_PAUSE", 0.01)


def plugin(url: str, **arguments: Any) -> Any:
    given = {"chat_template": TEMPLATE, "timeout": 120.0, **arguments}
    return llms.create("openai", base_url=url, model="weak", **given)


def texts(llm: Any, n: int = 3, seed: int = 5, prefixes: list[Prefix] = PREFIXES, **sampling: Any) -> list[list[str]]:
    found = llm.generate(prefixes, n, Sampling(**sampling), seed)
    return [[each.text for each in of_prefix] for of_prefix in found]


@pytest.fixture(scope="module")
def weak() -> Iterator[Server]:
    """The weakest of the shipped policies on a server."""
    with serving(Policy(WEAK)) as server:
        yield server


@parametrize_with_checks([llms.create("openai", base_url="http://localhost/v1", model="weak", tokenizer=WEAK)])
def test_a_served_policy_conforms(plugin: Any, check: Any, weak: Server) -> None:
    # The server has no address yet when the checks are collected.
    check(llms.create("openai", **{**plugin.arguments, "base_url": weak.url}))


def test_a_served_policy_is_asked_as_a_local_one_is(weak: Server) -> None:
    local: Any = llms.create("transformers", checkpoint=WEAK, dtype="float32", device="cpu")
    question = "Start with 37 and keep two digits. a) add 15, b) subtract 8, c) multiply by 3."
    llm = plugin(weak.url, chat_template="native", tokenizer=WEAK)
    before = len(weak.requests)
    for prefix in (Prefix(question), Prefix(question, ("a) 37+15=52", "b) 52-8=44"))):
        ((served,),) = llm.generate([prefix], 1, Sampling(temperature=0.01, max_tokens=48), 1)
        ((here,),) = local.generate([prefix], 1, Sampling(temperature=0.01, max_tokens=48), 1)
        assert (served.text, served.tokens, served.finish_reason) == (
            here.text,
            here.tokens,
            here.finish_reason,
        )
    ids = [request["prompt"] for request in weak.requests[before:]]
    assert len(ids[1]) > len(ids[0])
    assert ids[1][: len(ids[0])] == ids[0]


def test_a_request_says_all_that_decides_the_text() -> None:
    with serving() as server:
        texts(plugin(server.url), n=1, temperature=0.6, top_p=0.9, max_tokens=12, stop=("\n\nQ",))
        texts(plugin(server.url), n=1)
    prompts = {request["prompt"] for request in server.requests}
    assert prompts == {"Q: 1+1?\nA: ", "Q: 2+2?\nA: a) two\n\nb) two more\n\n"}
    first = server.requests[0]
    assert {name: first[name] for name in ("model", "n", "temperature", "top_p", "max_tokens", "stop")} == {
        "model": "weak", "n": 1, "temperature": 0.6, "top_p": 0.9, "max_tokens": 12, "stop": ["\n\nQ"],
    }  # fmt: skip
    assert "stop" not in server.requests[-1]


@pytest.mark.parametrize(
    ("reason", "details", "stop", "expected"),
    [
        ("length", {}, ("x",), "length"),
        ("stop", {}, (), "end"),
        ("stop", {}, ("x",), "stop"),  # The server does not say which of the two it was.
        ("stop", {"stop_reason": None}, ("x",), "end"),
        ("stop", {"stop_reason": 151645}, ("x",), "end"),
        ("stop", {"stop_reason": "x"}, ("x",), "stop"),
        ("stop", {"matched_stop": 2}, ("x",), "end"),
        ("stop", {"matched_stop": "x"}, ("x",), "stop"),
    ],
)
def test_a_reply_says_whether_the_llm_or_a_stop_string_ended_it(
    reason: str, details: dict[str, Any], stop: tuple[str, ...], expected: str
) -> None:
    with serving(lambda request: reply("a text", 3, reason, **details)) as server:
        ((found,),) = plugin(server.url).generate(PREFIXES[:1], 1, Sampling(stop=stop), 0)
    assert found.finish_reason == expected


def test_more_samples_begin_with_the_fewer_and_equal_prefixes_differ() -> None:
    with serving() as server:
        llm = plugin(server.url)
        few, many, other = texts(llm, 2), texts(llm, 5), texts(llm, 2, seed=6)
        assert [each[:2] for each in many] == few
        assert few[0] != few[1]
        assert few != other
        assert texts(llm, 2) == few
        assert llm.generate([], 2, Sampling(), 0) == []


def test_requests_are_made_many_at_a_time_and_no_more_than_that() -> None:
    eight = threading.Barrier(8)

    def together(request: dict[str, Any]) -> dict[str, Any]:
        eight.wait(timeout=600)
        return {
            "choices": [{"text": "x", "finish_reason": "stop"}],
            "usage": {"completion_tokens": 1, "prompt_tokens": 1},
        }

    with serving(together) as server:
        texts(plugin(server.url, concurrency=8), n=16)
        assert server.most_at_once == 8
        assert len(server.requests) == 48


def time_limit(fault: str) -> dict[str, float]:
    """A short time limit only for a server that is slower still."""
    return {"timeout": SLOW / 3} if fault == "slow" else {}


@pytest.mark.parametrize(
    "fault", ["429", "500", "503", "reset", "cut", "slow", "fewer", "aborted", "no JSON", "no usage"]
)
def test_what_fails_once_is_asked_again(fault: str) -> None:
    with serving() as server:
        expected = texts(plugin(server.url))
    with serving(fault=lambda number: fault if number % 3 == 0 else "") as server:
        assert texts(plugin(server.url, **time_limit(fault))) == expected
        assert len(server.requests) > 9


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("429", "it answered 429 .*fault 429"),
        ("500", "it answered 500 .*fault 500"),
        ("cut", "RemoteProtocolError.*Likely cause: the server ended the connection"),
        ("slow", "TimeoutError: no whole reply in .*Likely cause: the server is too slow or hangs"),
        ("fewer", "its reply does not fit the request"),
        ("aborted", "it did not finish a completion .finish_reason 'abort'"),
        ("no JSON", "its reply does not fit the request.*<html>not JSON</html>"),
    ],
)
def test_what_fails_for_good_says_why_and_what_to_do(fault: str, reason: str) -> None:
    message = rf"the server http.* gave no answer in \d+ attempts? within \d+ s: {reason}"
    with serving(fault=lambda number: fault) as server, pytest.raises(NoAnswerError, match=message):
        texts(plugin(server.url, patience=0.05, **time_limit(fault)), n=1)


def test_a_server_that_is_down() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(NoAnswerError, match=r"ConnectError.*Likely cause: nothing answers at the address"):
        texts(plugin(f"http://127.0.0.1:{port}/v1", patience=0.05))


@pytest.mark.parametrize(
    ("fault", "advice"),
    [
        ("307", "Requests are not sent on"),
        ("400", "max_tokens fits the context"),
        ("401", "key_variable"),
        ("404", "base_url"),
    ],
)
def test_a_refused_request_is_not_repeated(fault: str, advice: str) -> None:
    with serving(fault=lambda number: fault) as server:
        with pytest.raises(PluginFailedError, match=rf"refused a request with {fault}: .*fault {fault}.*{advice}"):
            texts(plugin(server.url, concurrency=1), n=1, prefixes=PREFIXES[:1])
        assert len(server.requests) == 1


def test_a_key_comes_from_the_environment_and_goes_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")  # Libraries of HTTP tell what they send.
    monkeypatch.setenv("OPENAI_API_KEY", "other")
    with serving() as server:
        texts(plugin(server.url), n=1)
        assert not any("Authorization" in headers or "authorization" in headers for headers in server.headers)
        llm = plugin(server.url, key_variable="SERVER_KEY")
        with pytest.raises(PluginFailedError, match="The environment variable SERVER_KEY is not set"):
            texts(llm)
        monkeypatch.setenv("SERVER_KEY", "secret")
        before = len(server.headers)
        texts(llm, n=1)
        sent = {key.lower(): value for key, value in server.headers[before].items()}
        assert sent["authorization"] == "Bearer secret"
        assert "secret" not in repr((llm.identity(), llm.arguments))
        assert "send_request_headers" in caplog.text and "secret" not in caplog.text


def test_the_identity_is_the_model_and_how_it_is_asked() -> None:
    here, there = plugin("http://a/v1", concurrency=2), plugin("http://b:8000/v1", patience=9.0)
    assert here.identity() == there.identity()
    for changed in ({"chat_template": "qwen-2.5"}, {"weights": "2"}, {"tokenizer": WEAK}):
        assert plugin("http://a/v1", **changed).identity() != here.identity()
