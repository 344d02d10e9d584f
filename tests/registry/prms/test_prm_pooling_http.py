"""The PRM `pooling-http` with a real server on this machine: the scores of `qwen`, and clear errors."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from prmcal import PrefixScores, ScoringRequest
from prmcal.errors import PluginError, PluginFailedError
from prmcal.registry import network
from prmcal.registry.conformance import run_checks
from prmcal.registry.plugins import prms
from tests.registry.llms.completions_server import Server
from tests.registry.prms.pooling_server import Judge, reply, serving_pooling

NANO = "nano:prm"
QUESTION = "Start with 37 and keep two digits. a) add 15, b) subtract 8, c) multiply by 3."
TRAJECTORIES = (
    ("a) 37+15=52", "b) 52-8=44", "c) 44*3=\\boxed{32}"),
    ("a) 37+15=42", "b) 42-8=34"),
    (),
)
LOGITS = [[0.25, 1.5]]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "FIRST_PAUSE", 0.01)


@pytest.fixture(scope="module")
def judge(one_thread: None) -> Iterator[Server]:
    """The shipped PRM on a server, which pools every marker."""
    with serving_pooling(Judge(NANO)) as server:
        yield server


def plugin(url: str, **arguments: Any) -> Any:
    given = {"tokenizer": NANO, "timeout": 120.0, **arguments}
    return prms.create("pooling-http", base_url=url, model="judge", **given)


def logits(found: list[PrefixScores]) -> list[float]:
    return [float(value) for scores in found for value in scores.logit]


def local(markers: str) -> list[float]:
    prm = prms.create("qwen", checkpoint=NANO, markers=markers, dtype="float32", device="cpu")
    return logits(prm.score(QUESTION, TRAJECTORIES))


@pytest.mark.parametrize("markers", ["every", "last"])
def test_a_served_prm_conforms(markers: str, judge: Server) -> None:
    prm = prms.create("pooling-http", base_url=judge.url, model="judge", tokenizer=NANO, markers=markers)
    assert [result for result in run_checks(prm) if not result.passed and not result.skipped] == []


@pytest.mark.parametrize(("markers", "requests"), [("every", 3), ("last", 6)])
def test_scores_are_those_of_the_same_prm_on_transformers(markers: str, requests: int, judge: Server) -> None:
    before = len(judge.requests)
    found = logits(plugin(judge.url, markers=markers).score(QUESTION, TRAJECTORIES))
    np.testing.assert_allclose(found, local(markers), atol=1e-4)
    assert np.ptp(found) > 3
    asked = judge.requests[before:]
    # The bare question is read once, by itself: its marker is in no other sequence.
    assert len({tuple(each["input"]) for each in asked}) == len(asked) == requests
    assert {(each["model"], each["task"], each["use_activation"]) for each in asked} == {
        ("judge", "token_classify", False)
    }


def test_a_server_may_pool_every_token() -> None:
    with serving_pooling(Judge(NANO, pooling="ALL")) as server:
        found = logits(plugin(server.url).score(QUESTION, TRAJECTORIES))
    np.testing.assert_allclose(found, local("every"), atol=1e-4)


def test_a_marker_in_the_text_of_a_step_moves_no_score(judge: Server) -> None:
    steps = ("a) 37+15=52 <extra_0> b)", "b) 52-8=44")
    for markers in ("every", "last"):
        prm = prms.create("qwen", checkpoint=NANO, markers=markers, dtype="float32", device="cpu")
        found = plugin(judge.url, markers=markers).score(QUESTION, [steps])
        np.testing.assert_allclose(logits(found), logits(prm.score(QUESTION, [steps])), atol=1e-4)


def test_too_long_prefixes_are_not_sent(judge: Server) -> None:
    before = len(judge.requests)
    limited = plugin(judge.url, max_tokens=60)
    (scores,) = limited.score("1+1?", [("2", "3" * 60, "4")])
    assert scores.over_long.tolist() == [False, False, True, True]
    assert np.isnan(scores.logit[2:]).all() and np.isfinite(scores.logit[:2]).all()
    assert limited.score("7" * 60, [("2",)])[0].over_long.all()
    assert max(len(each["input"]) for each in judge.requests[before:]) <= 60


def test_whole_trajectories_are_asked_for_alone(judge: Server) -> None:
    before = len(judge.requests)
    request = ScoringRequest(QUESTION, TRAJECTORIES[:1], whole_only=True)
    ((whole,),) = plugin(judge.url, markers="last").score_batch([request])
    assert len(judge.requests) - before == 1
    np.testing.assert_allclose(whole.logit, local("last")[3], atol=1e-4)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[0.1, math.nan]], "returned scores that are not finite numbers, such as NaN.*--dtype"),
        ([[None, 0.1]], "returned scores that are not finite numbers"),
        ([[math.inf, 0.1]], "returned scores that are not finite numbers"),
        ([], r"outputs of shape \(0,\) for \d+ tokens with 1 markers.*\"step_tag_id\": \d+"),
        (LOGITS * 2, r"outputs of shape \(2, 2\) for \d+ tokens with 1 markers"),
        ([0.3], r"outputs of shape \(1,\)"),
        ([[0.1, 0.2, 0.3]], "returned 3 numbers for each token or marker, but the format needs 2"),
        ([[0.25, 0.75]], "returned probabilities, but the request asks for logits"),
    ],
)
def test_replies_that_cannot_be_scores(rows: Any, message: str) -> None:
    with serving_pooling(lambda request: reply(rows)) as server:
        with pytest.raises(PluginFailedError, match=rf"The server {server.url} .*{message}"):
            plugin(server.url).score(QUESTION, [()])
        assert len(server.requests) == 1


def test_an_address_with_v1_says_so(judge: Server) -> None:
    with pytest.raises(PluginFailedError, match=r"404.*at the root, without /v1"):
        plugin(f"{judge.url}/v1").score(QUESTION, [()])


def test_it_works_where_a_loop_runs_already_as_in_a_notebook(judge: Server) -> None:
    async def cell() -> list[float]:
        return logits(plugin(judge.url).score(QUESTION, TRAJECTORIES))

    np.testing.assert_allclose(asyncio.run(cell()), local("every"), atol=1e-4)


def test_hidden_states_are_refused() -> None:
    with pytest.raises(PluginFailedError, match="leave out calibrators that read hidden states"):
        plugin("http://localhost").hidden_states([ScoringRequest(QUESTION, TRAJECTORIES)])


def test_the_identity_is_the_model_and_what_it_reads() -> None:
    def known(**arguments: Any) -> str:
        return json.dumps(plugin("http://a", **arguments).identity())

    same: list[dict[str, Any]] = [
        {"concurrency": 2, "timeout": 1.0, "patience": 9.0, "key_variable": "KEY"},
        {"markers": "every"},
        {"format": {"plugin": "qwen"}},
    ]
    assert all(known(**each) == known() for each in same)
    assert json.dumps(plugin("http://b:8000").identity()) == known()
    other: list[dict[str, Any]] = [
        {"weights": "2"},
        {"markers": "last"},
        {"max_tokens": 9},
        {"tokenizer": "nano:weak"},
        {"format": "shepherd"},
        {"format": {"plugin": "shepherd", "arguments": {"plus": "1"}}},
    ]
    assert len({known(), *(known(**each) for each in other)}) == len(other) + 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"base_url": "localhost:8000"}, "must be an address such as http"),
        ({"tokenizer": "./nowhere"}, "nowhere"),
        ({"format": "qwem"}, "There is no prm 'qwem'. Did you mean 'qwen'"),
        ({"format": "recorded"}, "must be a PRM that derives from prmcal.TransformersPRM"),
        ({"format": "pooling-http"}, "must be a PRM that derives from prmcal.TransformersPRM"),
        ({"format": {"arguments": {}}}, "must be a name, or a mapping"),
        (
            {"format": {"plugin": "qwen", "arguments": {"markers": "last"}}},
            "'markers' is no argument of 'format'",
        ),
        ({"format": "reasoneval", "markers": "last"}, "The format 'reasoneval' has no 'markers'"),
        ({"markers": "some"}, "'markers' parameter of the prm 'pooling-http'"),
        ({"max_tokens": 0}, "'max_tokens' parameter of the .* must be greater than or equal to 1"),
    ],
)
def test_arguments_that_cannot_work(arguments: dict[str, Any], message: str) -> None:
    given = {"base_url": "http://localhost", "model": "m", "tokenizer": NANO, **arguments}
    with pytest.raises(PluginError, match=message):
        prms.create("pooling-http", **given)


def test_thoughts_can_be_left_out_of_what_is_sent(judge: Server) -> None:
    without = {"plugin": "qwen", "arguments": {"read_thoughts": False}}
    thought = [("<think>\nHmm.", "Wait.\n</think>", *steps) for steps in TRAJECTORIES[:1]]
    found = logits(plugin(judge.url, format=without).score(QUESTION, thought))
    np.testing.assert_allclose(found[2:], logits(plugin(judge.url).score(QUESTION, TRAJECTORIES[:1])), atol=1e-4)
    assert found[:2] == [found[2]] * 2
    assert plugin(judge.url, format=without).identity() != plugin(judge.url).identity()
