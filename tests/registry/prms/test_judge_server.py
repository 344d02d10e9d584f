"""The PRM `judge` with a real server on this machine: the scores of the same model without one, and clear errors."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from prmcal.errors import InvalidArgumentsError, PluginFailedError
from prmcal.registry import network
from prmcal.registry.conformance import run_checks
from prmcal.registry.plugins import prms
from prmcal.registry.prms.answers import language_model
from tests.registry.llms.completions_server import Server, serving

STRONG = "nano:strong"
SIGNS: dict[str, Any] = {"right": ["+", " +"], "wrong": ["-", " -"]}
QUESTION = "Start with 37 and keep two digits. a) add 15, b) subtract 8."
TRAJECTORIES = (("a) 37+15=52", "b) 52-8=\\boxed{44}"), ("a) 37+15=42", "b) 42-8=34"), ())
CHAT = "/chat/completions"


class Asked:
    """A shipped model that completes a prompt or a chat by one token, and names the most likely ones."""

    def __init__(self, checkpoint: str) -> None:
        judge: Any = prms.create("judge", checkpoint=checkpoint, dtype="float32", device="cpu")
        self.prm = judge
        self.model = language_model(judge)
        self.lock = threading.Lock()

    def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        import torch

        assert request["max_tokens"] == 1
        tokenizer = self.prm.tokenizer
        if "messages" in request:
            ids = tokenizer.apply_chat_template(request["messages"], add_generation_prompt=True, return_dict=False)
        else:
            ids = tokenizer(request["prompt"])["input_ids"]
        with self.lock, torch.inference_mode():
            chances = self.model(torch.tensor([ids])).logits[0, -1].log_softmax(-1)
        asked = request["top_logprobs"] if "messages" in request else request["logprobs"]
        top = [
            {"token": tokenizer.decode([token]), "logprob": chance.item()}
            for chance, token in zip(*chances.topk(asked), strict=True)
        ]
        form: dict[str, Any] = {"content": [{**top[0], "top_logprobs": top}]}
        if "messages" not in request:
            form = {"top_logprobs": [{each["token"]: each["logprob"] for each in top}]}
        return reply(form, len(ids))


def reply(logprobs: Any, tokens: int = 7) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": "length", "logprobs": logprobs, "message": {"content": "?"}}
    return {"choices": [choice], "usage": {"prompt_tokens": tokens, "completion_tokens": 1}}


def naming(**chances: float) -> dict[str, Any]:
    """The reply of a server to a chat: the probabilities of the tokens that it names."""
    top = [{"token": token, "logprob": float(np.log(chance))} for token, chance in chances.items()]
    return reply({"content": [{**top[0], "top_logprobs": top}]})


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "FIRST_PAUSE", 0.01)


@pytest.fixture(scope="module")
def strong(one_thread: None) -> Iterator[Server]:
    with serving(Asked(STRONG), path=CHAT) as server:
        yield server


def create(url: str, **arguments: Any) -> Any:
    return prms.create("judge", base_url=url, model="strong", **{"timeout": 120.0, **arguments})


def logits(plugin: Any, trajectories: Sequence[Sequence[str]] = TRAJECTORIES) -> np.ndarray[Any, Any]:
    return np.concatenate([scores.logit for scores in plugin.score(QUESTION, trajectories)])


def test_a_served_judge_conforms(strong: Server) -> None:
    judge = create(strong.url, max_tokens=800, top_logprobs=300, **SIGNS)
    assert [result for result in run_checks(judge) if not result.passed and not result.skipped] == []


@pytest.mark.parametrize("chat", [True, False])
def test_its_scores_are_those_of_the_model_on_this_machine(chat: bool, strong: Server) -> None:
    given = {**SIGNS, "chat": chat, "template": "{{ question }}|{{ solution }}?"}
    local = prms.create("judge", checkpoint=STRONG, dtype="float32", device="cpu", **given)
    if chat:
        found = logits(create(strong.url, top_logprobs=300, system_prompt="Judge.", **given))
        local = prms.create("judge", **{**local.arguments, "system_prompt": "Judge."})
    else:
        with serving(Asked(STRONG)) as server:
            found = logits(create(server.url, top_logprobs=300, **given))
            assert {tuple(sorted(each)) for each in server.requests} == {
                ("logprobs", "max_tokens", "model", "prompt", "temperature", "top_p")
            }
    np.testing.assert_allclose(found, logits(local), atol=1e-4)
    assert np.ptp(found) > 0.1


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ({"Yes": 0.5, " yes": 0.2, "No": 0.1, "?": 0.05}, np.log(0.7 / 0.1)),
        ({"Yes": 0.9, "Maybe": 0.06}, np.log(0.9 / 0.04)),
        ({"No": 0.6, "Maybe": 0.1}, np.log(0.1 / 0.6)),
        ({"No": 1.0}, np.log(1e-9)),
    ],
)
def test_an_answer_that_is_not_named_is_as_likely_as_it_can_be(named: dict[str, float], expected: float) -> None:
    with serving(lambda request: naming(**named), path=CHAT) as server:
        assert logits(create(server.url), [()])[0] == pytest.approx(expected, rel=1e-5)


def test_what_the_server_finds_too_long_is_flagged() -> None:
    """Either it says so, as vLLM does, or it counts more tokens than `max_tokens`."""
    with serving(lambda request: reply(naming(Yes=0.7, No=0.2)["choices"][0]["logprobs"], 90), path=CHAT) as server:
        (counted,) = create(server.url, max_tokens=80).score(QUESTION, [("a",)])
        assert counted.over_long.all() and np.isnan(counted.reward).all()
    for message, flagged in (("maximum context length is 80 tokens", True), ("no such model", False)):
        with serving(lambda request: naming(Yes=0.7, No=0.2), lambda number: "400", path=CHAT) as server:
            server.refusal = message
            plugin = create(server.url)
            if flagged:
                assert plugin.score(QUESTION, [("a",)])[0].over_long.all()
            else:
                with pytest.raises(PluginFailedError, match=r"refused a request with 400.*Check 'model'"):
                    plugin.score(QUESTION, [("a",)])


@pytest.mark.parametrize("found", [None, {}, {"content": None}, {"content": []}, {"top_logprobs": None}])
def test_a_server_without_log_probabilities_is_one_clear_error(found: Any) -> None:
    with (
        serving(lambda request: reply(found), path=CHAT) as server,
        pytest.raises(PluginFailedError, match="returned no log-probabilities, which the PRM 'judge' needs"),
    ):
        create(server.url).score(QUESTION, TRAJECTORIES)


def test_an_answer_in_other_words_names_them() -> None:
    with (
        serving(lambda request: naming(The=0.5, Sure=0.3, Hm=0.1), path=CHAT) as server,
        pytest.raises(PluginFailedError, match=r"neither 'Yes' nor 'No'.*'The', 'Sure', 'Hm'\. Set 'right' and"),
    ):
        create(server.url).score(QUESTION, TRAJECTORIES)


def test_its_problems_are_those_of_one_request() -> None:
    with serving(lambda request: reply(None), path=CHAT) as server:
        (problem,) = create(server.url, patience=60.0).problems({QUESTION: 1})
    assert "returned no log-probabilities" in str(problem)
    assert QUESTION in server.requests[0]["messages"][0]["content"] and len(server.requests) == 1
    (unreachable,) = create(server.url, patience=60.0).problems({})
    assert "nothing answers at the address" in str(unreachable)


def test_fields_of_a_request_can_be_added_and_left_out() -> None:
    fields = {
        "chat_template_kwargs": {"enable_thinking": False},
        "max_tokens": None,
        "max_completion_tokens": 1,
    }
    with serving(lambda request: naming(Yes=0.7, No=0.2), path=CHAT) as server:
        create(server.url, fields=fields).score(QUESTION, [()])
    (request,) = server.requests
    assert "max_tokens" not in request and request["max_completion_tokens"] == 1
    assert request["chat_template_kwargs"] == {"enable_thinking": False}


def test_thoughts_can_be_left_out_of_what_it_reads(strong: Server) -> None:
    without = create(strong.url, read_thoughts=False, top_logprobs=300, **SIGNS)
    (found,) = without.score(QUESTION, [("<think>\nHmm.", "Wait, no.\n</think>", *TRAJECTORIES[0])])
    (expected,) = create(strong.url, top_logprobs=300, **SIGNS).score(QUESTION, TRAJECTORIES[:1])
    np.testing.assert_allclose(found.logit, expected.logit[[0, 0, 0, 1, 2]], atol=1e-6)


def test_the_address_is_no_part_of_the_identity_and_what_is_asked_is() -> None:
    first, moved, other = (
        create(url, **arguments).identity()
        for url, arguments in (
            ("http://a/v1", {}),
            ("http://b/v1", {"key_variable": "KEY", "concurrency": 3, "timeout": 9.0, "patience": 2.0}),
            ("http://a/v1", {"template": "{{ question }} {{ solution }}"}),
        )
    )
    assert first == moved != other


def test_a_judge_has_one_model() -> None:
    with pytest.raises(InvalidArgumentsError, match="needs 'base_url' and 'model', and no 'checkpoint'"):
        create("http://localhost/v1", checkpoint=STRONG)
    with pytest.raises(InvalidArgumentsError, match="must be an address such as"):
        create("localhost")
