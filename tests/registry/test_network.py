"""Plugins behind a network: what is asked again, for how long, and what is not. With real servers on this machine."""

from __future__ import annotations

import json
import logging
import re
import socket
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from prmcal import PRM, PrefixScores, ScoringRequest
from prmcal.errors import NoAnswerError, PluginFailedError
from prmcal.registry import conformance, network
from prmcal.registry.conformance import run_checks
from prmcal.registry.network import NetworkFailure, patiently
from tests.registry.llms.completions_server import Server, serving

REQUESTS = [ScoringRequest(f"question {number}", (("a step",),)) for number in range(3)]


class RemotePRM(PRM):
    """A PRM on a server, as an author would write it: it knows nothing of failures."""

    def __init__(self, url: str, patience: float = 60.0) -> None:
        self.url = url
        self.patience = patience
        self.arguments = {"url": url, "patience": patience}

    def score(self, question: str, trajectories: Sequence[Sequence[str]]) -> list[PrefixScores]:
        body = json.dumps({"seed": question}).encode()
        try:
            with urllib.request.urlopen(f"{self.url}/completions", body, timeout=60) as reply:
                json.load(reply)
        except urllib.error.HTTPError as refused:
            refused.close()
            raise
        sizes = [len(steps) + 1 for steps in trajectories]
        return [
            PrefixScores(np.zeros(size, np.float32), np.full(size, 0.5), np.zeros(size, bool), tokens=1)
            for size in sizes
        ]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "FIRST_PAUSE", 0.01)


def asked(server: Server) -> list[Any]:
    return [request["seed"] for request in server.requests]


@pytest.mark.parametrize("fault", ["reset", "cut", "429", "500", "503", "503 after 0.1"])
def test_a_prm_whose_server_fails_for_a_while_is_asked_again(fault: str, caplog: pytest.LogCaptureFixture) -> None:
    with serving(fault=lambda number: fault if 1 <= number <= 3 else "") as server:
        prm = RemotePRM(server.url)
        with caplog.at_level(logging.WARNING, network.LOGGER):
            scored = patiently(prm, lambda: prm.score_batch(REQUESTS))
    assert len(scored) == 3
    # What was scored is not scored again.
    assert asked(server) == ["question 0", *["question 1"] * 4, "question 2"]
    assert "its server: attempt 1 failed" in caplog.text
    assert "The next one is in 0 s" in caplog.text


@pytest.mark.parametrize("fault", ["400", "401", "404"])
def test_a_refusal_is_not_repeated(fault: str) -> None:
    with serving(fault=lambda number: fault) as server:
        prm = RemotePRM(server.url)
        with pytest.raises(urllib.error.HTTPError):
            patiently(prm, lambda: prm.score_batch(REQUESTS))
        assert len(server.requests) == 1


def test_a_server_that_is_gone_costs_the_patience_once_and_may_come_back() -> None:
    down = True
    with serving(fault=lambda number: "503" if down else "") as server:
        prm = RemotePRM(server.url, patience=0.1)
        message = r"its server gave no answer in \d+ attempts .*: HTTPError: .*503.*Likely cause: the server has"
        with pytest.raises(NoAnswerError, match=message):
            patiently(prm, lambda: prm.score_batch(REQUESTS))
        before = len(server.requests)
        assert before > 2
        with pytest.raises(NoAnswerError, match="in 1 attempt within"):
            patiently(prm, lambda: prm.score_batch(REQUESTS))
        assert len(server.requests) == before + 1
        down = False
        assert len(patiently(prm, lambda: prm.score_batch(REQUESTS))) == 3


def test_a_check_asks_a_server_again_and_a_dead_one_not_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(fault=lambda number: "503" if number == 1 else "") as server:
        results = {result.name: result for result in run_checks(RemotePRM(server.url))}
    assert results["one score per prefix"].passed
    monkeypatch.setattr(conformance, "_PATIENCE", 0.05)
    with serving(fault=lambda number: "503") as server:
        dead = {result.name: result.message for result in run_checks(RemotePRM(server.url))}
    assert re.search(r"no answer in \d+ attempts .*503.*has an error of its own", dead["one score per prefix"])


def test_a_pause_beyond_the_patience_ends_the_attempts() -> None:
    with serving(fault=lambda number: "429 after 3600") as server:
        prm = RemotePRM(server.url, patience=5.0)
        with pytest.raises(NoAnswerError, match=r"in 1 attempt .*limits the rate of requests: send fewer at a time"):
            prm.score_batch(REQUESTS)
        assert len(server.requests) == 1


def test_the_patience_is_no_part_of_the_keys() -> None:
    assert RemotePRM("http://a", 1.0).identity() == RemotePRM("http://a", 2.0).identity()


def raised(error: Exception, cause: BaseException | None = None) -> Exception:
    try:
        raise error from cause
    except Exception as found:
        return found


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (ConnectionResetError(104, "Connection reset by peer"), "ended the connection"),
        (ConnectionRefusedError(111, "Connection refused"), "nothing answers at the address"),
        (TimeoutError("timed out"), "too slow or hangs"),
        (socket.gaierror(-2, "Name or service not known"), "the name of the server is not known"),
        (
            raised(RuntimeError("my client failed"), ConnectionResetError(104, "reset")),
            "ended the connection",
        ),
        (ValueError("a bug"), None),
        (raised(PluginFailedError("final"), ConnectionResetError(104, "reset")), None),
        (FileNotFoundError("weights"), None),
    ],
)
def test_the_likely_cause_of_an_error(error: Exception, cause: str | None) -> None:
    failure = NetworkFailure.of(error)
    assert (failure is None) == (cause is None)
    if failure is not None and cause is not None:
        assert cause in failure.cause


def test_the_errors_of_http_libraries_are_known() -> None:
    import httpx2
    import requests

    for error in (
        httpx2.ConnectError("refused"),
        httpx2.ReadTimeout("slow"),
        httpx2.RemoteProtocolError("cut"),
        requests.ConnectionError("reset"),
        requests.ReadTimeout("slow"),
    ):
        assert NetworkFailure.of(error) is not None
    assert NetworkFailure.of(httpx2.UnsupportedProtocol("no http")) is None


def test_a_model_that_is_not_on_this_machine_is_not_waited_for() -> None:
    from huggingface_hub.errors import OfflineModeIsEnabled

    assert NetworkFailure.of(OfflineModeIsEnabled("offline")) is None
    assert NetworkFailure.of(raised(OSError("no such model"), OfflineModeIsEnabled("offline"))) is None
