"""``prmcal serve`` as a process of its own, with the nano models of a small run, and clients over HTTP."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra 'serve' is not installed")
import httpx2
from hypothesis import example, given, settings
from hypothesis import strategies as st

import prmcal
from prmcal import CalibratedPRM
from tests.conftest import Prmcal
from tests.served_run import CELL, GONE, NAN, SECONDS, served, shared_run

QUESTION = "Begin at 67, keeping two digits. a) subtract 4, b) add 1, c) subtract 12."
STEPS = ["a) 67-4=63", "b) 63+1=64"]
CLIENTS, BODY = 32, 200_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the run."""
    return shared_run(tmp_path_factory)


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """The address of a server of the run."""
    with served(folder, "--cell", CELL, "--max-body", BODY) as (address, _):
        yield address


@pytest.fixture(scope="module")
def here(folder: Path) -> Iterator[CalibratedPRM]:
    """The same calibrated PRM in this process."""
    with prmcal.load(folder, CELL) as prm:
        yield prm


def post(address: str, path: str, body: Any, **how: Any) -> httpx2.Response:
    return httpx2.post(f"{address}/{path}", json=body, timeout=SECONDS, **how)


def score(address: str, *rows: Any) -> list[dict[str, Any]]:
    reply = post(address, "score", {"rows": list(rows)})
    assert reply.status_code == 200, reply.text
    found: list[dict[str, Any]] = reply.json()["rows"]
    return found


def solution_of(reply: httpx2.Response) -> dict[str, Any]:
    """The solution without its time."""
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    del found["spent"]["seconds"]
    return found


def trajectory(client: int) -> dict[str, Any]:
    """The trajectory of a client."""
    return {
        "question": f"Begin at {10 + client}. a) add 1, b) add 2.",
        "steps": [f"a) {10 + client}+1={11 + client}"],
    }


def test_scores_are_those_of_the_calibrated_prm(address: str, here: CalibratedPRM) -> None:
    (row,) = score(address, {"question": QUESTION, "steps": STEPS})
    expected = here.score(QUESTION, STEPS)
    assert row["error"] == ""
    assert row["rewards"]["levels"] == list(here.levels) == list(expected.levels)
    assert len(row["rewards"]["quantiles"]) == 3
    assert row["rewards"]["uncalibrated"] == pytest.approx(expected.uncalibrated, abs=1e-5)
    assert row["rewards"]["point"] == pytest.approx(expected.point, abs=1e-5)


def test_a_row_that_is_wrong_fails_alone(address: str) -> None:
    wrong = {
        "question: it is empty": {"question": " \n"},
        "it has 50,000 characters. The limit is 20,000": {"question": "x" * 50_000},
        "question: Field required": {"steps": []},
        "question: Input should be a valid string. Got 5": {"question": 5},
        "step: Extra inputs are not permitted": {"question": QUESTION, "step": []},
        "steps must be a list of texts": {"question": QUESTION, "steps": [""]},
        "valid dictionary": ["no object"],
        "not finite": {"question": f"{NAN}."},
    }
    right = {"question": QUESTION, "steps": STEPS}
    reply = score(address, right, *wrong.values(), right, {"question": "Сколько будет 2 + 2? 二加二 ٢"})
    for row in (reply[0], reply[-2]):
        assert len(row["rewards"]["point"]) == len(STEPS) + 1
    assert len(reply[-1]["rewards"]["point"]) == 1
    for message, row in zip(wrong, reply[1:-2], strict=True):
        assert row["rewards"] is None
        assert message in row["error"]


def test_a_prm_that_goes_away_is_named_and_comes_back(address: str) -> None:
    (row,) = score(address, {"question": f"{GONE}."})
    assert "The server of the PRM does not answer." in row["error"]
    reply = post(address, "solve", {"question": f"{GONE}."})
    assert reply.status_code == 502
    assert "The server of the PRM does not answer." in reply.json()["error"]
    assert not score(address, {"question": QUESTION})[0]["error"]


def test_many_clients_get_their_own_scores(address: str) -> None:
    rows = [trajectory(client) for client in range(CLIENTS)]
    alone = [score(address, row)[0]["rewards"] for row in rows]
    with ThreadPoolExecutor(CLIENTS) as clients:
        together = list(clients.map(lambda row: score(address, row)[0]["rewards"], rows))
    for one, other in zip(alone, together, strict=True):
        assert one["uncalibrated"] == pytest.approx(other["uncalibrated"], abs=1e-5)
    assert len({row["uncalibrated"][1] for row in together}) > CLIENTS / 2


def test_an_answer_is_that_of_the_calibrated_prm(address: str, here: CalibratedPRM) -> None:
    body = {"question": QUESTION, "max_samples": 3, "seed": 2}
    found = solution_of(post(address, "solve", body))
    expected = here.solve(QUESTION, max_samples=3, seed=2)
    assert found["answer"] == expected.answer
    assert [each["text"] for each in found["trajectories"]] == [each.text for each in expected.trajectories]
    assert found["probability"] == pytest.approx(expected.probability, abs=1e-4)
    unsure = solution_of(post(address, "solve", body | {"abstain_below": 0.9999}))
    assert unsure["abstained"] and unsure["answer"] is None


def test_an_alarm_is_part_of_the_replies(folder: Path) -> None:
    with served(folder, "--cell", CELL) as (address, _):
        assert httpx2.get(f"{address}/health", timeout=SECONDS).json()["alarm"] == ""
        for number in range(20):
            longer = f"{QUESTION} {'Take your time. ' * 9} {number}"
            reply = post(address, "solve", {"question": longer, "reference": "51", "max_samples": 1}).json()
            assert reply["correct"] in (None, True, False)
        assert "the length of the question in characters is higher" in reply["alarm"]
        assert httpx2.get(f"{address}/health", timeout=SECONDS).json()["alarm"] == reply["alarm"]


def test_samples_are_counted(address: str, here: CalibratedPRM) -> None:
    reply = post(address, "samples", {"question": QUESTION, "target": 0.9})
    assert reply.json() == {"samples": here.samples(QUESTION, target=0.9)}


def test_a_stream_has_the_steps_and_then_the_solution(address: str) -> None:
    body = {"question": QUESTION, "max_samples": 2, "stream": True}
    reply = post(address, "solve", body)
    assert reply.headers["content-type"].startswith("application/x-ndjson")
    *steps, solution = map(json.loads, reply.text.splitlines())
    assert [each["event"] for each in steps] == ["step"] * len(steps)
    assert solution["event"] == "solution"
    assert steps[0]["step"] == 0
    for place, drawn in enumerate(solution["trajectories"]):
        own = [each["text"] for each in steps if each["trajectory"] == place and each["step"]]
        assert "\n\n".join(own) == drawn["text"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"question": ""}, "question: it is empty"),
        ({"question": QUESTION, "target": 1}, "target: Input should be less than 1. Got 1"),
        ({"question": QUESTION, "max_samples": 0}, "max_samples: "),
        ({"question": QUESTION, "strategy": "best-of-m"}, "best-of-m"),
        ({"question": QUESTION, "level": 0.123}, "0.123"),
        ({"question": NAN}, "not finite"),
    ],
)
def test_a_stream_that_cannot_begin_has_a_status(address: str, body: dict[str, Any], message: str) -> None:
    reply = post(address, "solve", body | {"stream": True} | {"strategy": "best-of-n + IAS"} | body)
    assert reply.status_code == (502 if body["question"] == NAN else 422)
    assert message in reply.json()["error"]


@pytest.mark.parametrize(
    ("content", "kind", "status", "message"),
    [
        (b"no json", "application/json", 400, "not JSON"),
        (b"\xff\xfe\x00", "application/json", 400, "JSON"),
        (b'{"rows": [' * 5000, "application/json", 400, "JSON"),
        (b"", "application/json", 422, "Field required"),
        (b'{"rows": []}', "application/json", 422, "rows: "),
        (b'{"rows": [{"question": "1 + 1"}]}', "text/plain", 415, "content-type: application/json"),
        (b"[" + b" " * BODY, "application/json", 413, "more than 200,000 bytes"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused(
    address: str, content: bytes, kind: str, status: int, message: str
) -> None:
    reply = httpx2.post(f"{address}/score", content=content, headers={"content-type": kind}, timeout=SECONDS)
    assert reply.status_code == status
    assert message in reply.json()["error"]


def test_a_body_of_unknown_length_is_limited(address: str) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(BODY):
            yield b" " * 1000

    with suppress(httpx2.WriteError):  # The server can close the connection before the whole body is sent.
        assert post_content(address, endless()) == 413
    assert not score(address, {"question": QUESTION})[0]["error"]


def post_content(address: str, content: Iterator[bytes]) -> int:
    headers = {"content-type": "application/json"}
    return httpx2.post(f"{address}/score", content=content, headers=headers, timeout=SECONDS).status_code


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["question", "steps", "rows"]), inner)
    ),
    max_leaves=8,
)


@settings(max_examples=25)
@given(body=values)
@example(body={"rows": [{"question": "\ud800"}]})
@example(body={"question": "\ud800"})
@example(body={"question": QUESTION, "target": float("nan")})
@example(body={"question": QUESTION, "seed": 10**30})
@example(body={"rows": {"question": QUESTION}})
def test_no_body_breaks_the_server(address: str, body: Any) -> None:
    for path in ("score", "samples"):
        content = json.dumps(body)
        headers = {"content-type": "application/json"}
        reply = httpx2.post(f"{address}/{path}", content=content, headers=headers, timeout=SECONDS)
        assert reply.status_code in (200, 400, 422)
        if reply.status_code != 200:
            assert reply.json()["error"].endswith(".")


def test_the_description_is_complete_and_no_page_needs_the_internet(address: str) -> None:
    described = httpx2.get(f"{address}/openapi.json").json()
    assert set(described["paths"]) == {"/", "/health", "/score", "/samples", "/solve"}
    for path in ("/score", "/samples", "/solve"):
        post = described["paths"][path]["post"]
        assert post["summary"] and post["description"]
        assert {"413", "422", "502", "503"} <= set(post["responses"])
    shown = described["components"]["schemas"]["ScoreRow"]["properties"]["question"]
    assert shown["description"] and shown["examples"]
    assert httpx2.get(f"{address}/docs").status_code == 404


def test_what_is_served_is_told(address: str, here: CalibratedPRM) -> None:
    told = httpx2.get(address).json()
    assert (told["llm"], told["prm"], told["calibrator"]) == (here.llm, here.prm, here.calibrator)
    assert told["levels"] == list(here.levels)
    assert httpx2.get(f"{address}/health").json()["status"] == "ready"
    assert "GET / lists" in httpx2.get(f"{address}/scores").json()["error"]


FOREIGN = (
    {"host": "rebound.example"},
    {"host": "127.0.0.1.rebound.example"},
    {"host": "localhost@rebound.example"},
    {"host": ""},
    {"origin": "http://rebound.example"},
    {"origin": "null"},
    {"origin": "http://localhost.rebound.example:8000"},
)
"""Headers of requests that the page of a stranger makes a browser send, also through a name that was bent to us."""


@pytest.mark.parametrize("headers", FOREIGN)
def test_pages_of_strangers_neither_read_nor_compute(headers: dict[str, str], address: str) -> None:
    body = {"rows": [{"question": QUESTION}]}
    for reply in (
        httpx2.get(address, headers=headers, timeout=SECONDS),
        httpx2.get(f"{address}/openapi.json", headers=headers, timeout=SECONDS),
        post(address, "score", body, headers=headers),
        post(address, "solve", {"question": QUESTION}, headers=headers),
    ):
        assert reply.status_code == 403
        assert "--allowed-hosts" in reply.json()["error"]


def test_own_names_and_pages_are_answered(address: str) -> None:
    port = address.rpartition(":")[2]
    for name in ("localhost", f"localhost:{port}", f"LOCALHOST.:{port}", f"[::1]:{port}"):
        assert httpx2.get(address, headers={"host": name}).status_code == 200
        own = {"host": name, "origin": f"http://{name}"}
        assert post(address, "samples", {"question": QUESTION}, headers=own).status_code == 200


def test_a_request_has_at_most_the_samples_of_the_server(address: str) -> None:
    reply = post(address, "solve", {"question": QUESTION, "max_samples": 257})
    assert (reply.status_code, reply.json()["error"]) == (
        422,
        "max_samples: the limit of this server is 256. Got 257.",
    )


def test_other_machines_need_the_token(folder: Path) -> None:
    hosts = ("--host", "0.0.0.0", "--allowed-hosts", "prm.example", "--allowed-hosts", "*.lan.example")
    with served(folder, "--cell", CELL, *hosts) as (address, process):
        assert process.stdout is not None
        (token,) = re.findall(r"authorization: Bearer (\S+)'", process.stdout.readline())
        assert len(token) > 30
        body = {"question": QUESTION}
        for wrong in ({}, {"authorization": "Bearer x"}, {"authorization": f"Bearer {token[:-1]}"}):
            for path in ("score", "solve", "samples"):
                reply = post(address, path, body, headers=wrong)
                assert reply.status_code == 401
                assert "authorization: Bearer TOKEN" in reply.json()["error"]
        known = {"authorization": f"Bearer {token}"}
        assert post(address, "samples", body, headers=known).status_code == 200
        for name in ("prm.example", "a.lan.example:8000", socket.gethostname()):
            assert httpx2.get(f"{address}/health", headers={"host": name}).status_code == 200
        for name in ("lan.example", "prm.example.org"):
            assert httpx2.get(f"{address}/health", headers={"host": name}).status_code == 403


def test_a_busy_server_refuses_stops_what_nobody_reads_and_ends_in_time(folder: Path) -> None:
    # It draws one sample after the other and is never sure.
    endless = {"question": QUESTION, "target": 0.999999999, "max_samples": 4096, "stream": True}
    options = ("--max-concurrent", 1, "--grace", 0.5, "--max-samples", 4096)
    with served(folder, "--cell", CELL, *options) as (address, process):
        with httpx2.stream("POST", f"{address}/solve", json=endless, timeout=SECONDS) as stream:
            lines = stream.iter_lines()
            next(lines)
            refused = post(address, "score", {"rows": [{"question": QUESTION}]})
            assert refused.status_code == 503
            assert refused.headers["retry-after"] == "1"
            assert "its limit" in refused.json()["error"]
            assert httpx2.get(f"{address}/health").status_code == 200
        # The client went away. Its 4096 samples would keep the only place for long.
        end = time.monotonic() + SECONDS
        while post(address, "score", {"rows": [{"question": QUESTION}]}).status_code == 503:
            assert time.monotonic() < end
            time.sleep(0.05)
        with httpx2.stream("POST", f"{address}/solve", json=endless, timeout=SECONDS) as stream:
            lines = stream.iter_lines()
            next(lines)
            process.send_signal(signal.SIGTERM)
            *_, last = map(json.loads, lines)
        assert last == {"event": "error", "error": "The server is ending. Ask again when it is back."}
        assert process.wait(SECONDS) == 0


def test_a_request_that_runs_is_finished_before_the_end(folder: Path) -> None:
    body = {"question": QUESTION, "strategy": "best-of-n", "max_samples": 16}
    with served(folder, "--cell", CELL, "--grace", SECONDS) as (address, process):
        replies: list[httpx2.Response] = []
        client = threading.Thread(target=lambda: replies.append(post(address, "solve", body)))
        client.start()
        while client.is_alive() and httpx2.get(f"{address}/health").json()["requests"] == 0:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        client.join(SECONDS)
        assert len(replies[0].json()["trajectories"]) == 16
        assert process.wait(SECONDS) == 0


def test_what_cannot_be_served_is_refused_in_one_line(
    folder: Path, tmp_path: Path, prmcal: Prmcal, port: int
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        refusals = {
            "The server cannot listen at 127.0.0.1": prmcal("serve", folder, "--cell", CELL, "--port", port),
            "no cell": prmcal("serve", folder, "--cell", "calibration/nobody", "--port", 0),
            str(tmp_path / "nothing"): prmcal("serve", tmp_path / "nothing", "--port", 0),
        }
    for message, done in refusals.items():
        assert done.returncode == 2
        assert done.stderr.startswith("prmcal: error: ") and done.stderr.count("\n") == 1
        assert message in done.stderr


def test_without_the_packages_the_command_says_what_to_install(folder: Path) -> None:
    code = f"import sys; sys.modules['fastapi'] = None; sys.argv = ['prmcal', 'serve', {str(folder)!r}]; " + (
        "from prmcal.harness.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install '.[serve]'" in done.stderr
