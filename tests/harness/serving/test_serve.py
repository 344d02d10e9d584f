"""``prmcal serve`` as a process of its own: what it refuses, who may ask it, and how it ends."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra 'serve' is not installed")
import httpx2
from hypothesis import example, given, settings
from hypothesis import strategies as st
from openai import APIError, AsyncOpenAI, AuthenticationError

from prmcal import CalibratedPRM
from tests.conftest import Prmcal
from tests.harness.serving.clients import QUESTION, ask, chat, client, message_of, pooled, post
from tests.served_run import BODY, CELL, SECONDS, served


@pytest.mark.parametrize(
    ("content", "kind", "status", "message"),
    [
        (b"no json", "application/json", 400, "not JSON"),
        (b"\xff\xfe\x00", "application/json", 400, "JSON"),
        (b'{"input": [' * 5000, "application/json", 400, "JSON"),
        (b"", "application/json", 400, "Field required"),
        (b'{"input": "1 + 1"}', "text/plain", 415, "content-type: application/json"),
        (b"[" + b" " * BODY, "application/json", 413, "more than 200,000 bytes"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused(
    address: str, content: bytes, kind: str, status: int, message: str
) -> None:
    reply = httpx2.post(
        f"{address}/pooling", content=content, headers={"content-type": kind}, timeout=SECONDS
    )
    assert reply.status_code == status
    assert message in message_of(reply)


def test_a_body_of_unknown_length_is_limited(address: str) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(BODY):
            yield b" " * 1000

    headers = {"content-type": "application/json"}
    with suppress(httpx2.WriteError):  # The server can close the connection before the whole body is sent.
        reply = httpx2.post(f"{address}/pooling", content=endless(), headers=headers, timeout=SECONDS)
        assert reply.status_code == 413
    assert pooled(address, input=QUESTION)


names = st.sampled_from(["input", "messages", "role", "content", "user", "question"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner),
    max_leaves=8,
)


@settings(max_examples=25)
@given(body=values)
@example(body={"input": "\ud800"})
@example(body={"messages": [{"role": "user", "content": "\ud800"}]})
@example(body={"messages": [{"role": "user", "content": QUESTION}], "target": float("nan")})
@example(body={"messages": [{"role": "user", "content": QUESTION}], "seed": 10**30})
@example(body={"input": [10**30]})
@example(body={"input": [2**31 - 1]})
@example(body={"input": [[], [0], "a"]})
@example(body={"input": [1, "a"]})
def test_no_body_breaks_the_server(address: str, body: Any) -> None:
    for path in ("pooling", "v1/chat/completions"):
        headers = {"content-type": "application/json"}
        content = json.dumps(body)
        reply = httpx2.post(f"{address}/{path}", content=content, headers=headers, timeout=SECONDS)
        assert reply.status_code in (200, 400)
        if reply.status_code != 200:
            assert message_of(reply).endswith(".")


def test_what_is_served_is_told_and_no_page_needs_the_internet(address: str, here: CalibratedPRM) -> None:
    told = httpx2.get(address).json()
    assert (told["llm"], told["prm"], told["calibrator"]) == (here.llm, here.prm, here.calibrator)
    assert told["levels"] == list(here.levels)
    assert httpx2.get(f"{address}/health").json()["status"] == "ready"
    for gone in ("scores", "docs"):
        reply = httpx2.get(f"{address}/{gone}")
        assert reply.status_code == 404 and "GET / lists" in message_of(reply)
    described = httpx2.get(f"{address}/openapi.json").json()["paths"]
    assert set(described) == {"/", "/health", "/v1/models", "/pooling", "/v1/chat/completions"}
    for path in ("/pooling", "/v1/chat/completions"):
        assert described[path]["post"]["summary"] and described[path]["post"]["description"]


FOREIGN: tuple[Any, ...] = (
    {"host": "rebound.example"},
    {"host": "127.0.0.1.rebound.example"},
    {"host": "localhost@rebound.example"},
    {"host": ""},
    {"host": "127.0.0.1:8000.rebound.example"},
    {"host": "localhost,rebound.example"},
    {"origin": "http://rebound.example"},
    {"origin": "http://[::1].rebound.example"},
    {"origin": "http://localhost/rebound.example"},
    [("origin", "http://localhost"), ("origin", "http://rebound.example")],
    {"origin": "null"},
    {"origin": "http://localhost.rebound.example:8000"},
)
"""Headers of requests that the page of a stranger makes a browser send, also through a name that was bent to us."""


@pytest.mark.parametrize("headers", FOREIGN)
def test_pages_of_strangers_neither_read_nor_compute(headers: Any, address: str) -> None:
    for reply in (
        httpx2.get(address, headers=headers, timeout=SECONDS),
        httpx2.get(f"{address}/openapi.json", headers=headers, timeout=SECONDS),
        post(address, "pooling", {"input": QUESTION}, headers=headers),
        post(address, "v1/chat/completions", {"messages": chat()}, headers=headers),
    ):
        assert reply.status_code == 403
        assert "--allowed-hosts" in message_of(reply)


def test_own_names_and_pages_are_answered(address: str) -> None:
    port = address.rpartition(":")[2]
    for name in ("localhost", f"localhost:{port}", f"LOCALHOST.:{port}", f"[::1]:{port}"):
        assert httpx2.get(address, headers={"host": name}).status_code == 200
        own = {"host": name, "origin": f"http://{name}"}
        assert post(address, "pooling", {"input": QUESTION}, headers=own).status_code == 200


def test_other_machines_need_the_token_and_what_runs_is_finished_before_the_end(folder: Path) -> None:
    hosts = ("--host", "0.0.0.0", "--allowed-hosts", "prm.example", "--allowed-hosts", "*.lan.example")
    with served(folder, "--cell", CELL, *hosts, "--grace", SECONDS) as (address, process):
        assert process.stdout is not None
        lines = "".join(process.stdout.readline() for _ in range(2))
        (token,) = re.findall(r"authorization: Bearer (\S+)'", lines)
        assert len(token) > 30
        for wrong in ("x", token[:-1]):
            with pytest.raises(AuthenticationError, match="authorization: Bearer TOKEN"):
                ask(client(address, wrong))
        for path in ("pooling", "v1/chat/completions"):
            assert post(address, path, {}).status_code == 401
        for name in ("prm.example", "a.lan.example:8000", socket.gethostname()):
            assert httpx2.get(f"{address}/health", headers={"host": name}).status_code == 200
        for name in ("lan.example", "prm.example.org"):
            assert httpx2.get(f"{address}/health", headers={"host": name}).status_code == 403

        assert httpx2.get(f"{address}/health").json()["alarm"] == ""
        with client(address, token) as openai:
            for number in range(20):
                longer = f"{QUESTION} {'Take your time. ' * 9} {number}"
                found = ask(openai, longer, reference="51", max_samples=1).prmcal
                assert found["correct"] in (None, True, False)
            assert "the length of the question in characters is higher" in found["alarm"]
            assert httpx2.get(f"{address}/health").json()["alarm"] == found["alarm"]

            with ThreadPoolExecutor(1) as pool:
                reply = pool.submit(ask, openai, strategy="best-of-n", max_samples=16)
                while not reply.done() and httpx2.get(f"{address}/health").json()["requests"] == 0:
                    time.sleep(0.01)
                process.send_signal(signal.SIGINT)
                assert len(reply.result(SECONDS).prmcal["trajectories"]) == 16
        assert process.wait(SECONDS) == 0


# It draws one sample after the other and is never sure.
ENDLESS: dict[str, Any] = {"target": 0.999999999, "max_samples": 512}


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that happens soon on any machine that works."""
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


async def read_all(stream: Any) -> None:
    """Read all chunks of a stream that is asked for."""
    async for _ in await stream:
        pass


async def leave(address: str, question: str, stream: bool, begun: Callable[[], bool]) -> None:
    """Ask, look at the busy server, and go away before there is an answer."""
    async with AsyncOpenAI(base_url=f"{address}/v1", api_key="-", timeout=SECONDS, max_retries=0) as openai:
        messages: Any = chat(question)
        asked = openai.chat.completions.create(
            model="any", messages=messages, stream=stream, extra_body=ENDLESS
        )
        task = asyncio.ensure_future(read_all(asked) if stream else asked)
        await asyncio.to_thread(until, begun)
        refused = await asyncio.to_thread(post, address, "pooling", {"input": QUESTION})
        assert refused.status_code == 503 and refused.headers["retry-after"] == "1"
        assert "its limit" in message_of(refused)
        assert not task.done()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def test_a_busy_server_refuses_stops_what_nobody_reads_and_ends_in_time(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "scored"
    log.touch()
    monkeypatch.setenv("FAULTY_PRM_LOG", str(log))
    options = ("--max-concurrent", 1, "--grace", 0.5, "--max-samples", 512)
    with served(folder, "--cell", CELL, *options) as (address, process):
        for stream in (False, True):
            question = f"Begin at 67. a) subtract {4 + stream}."

            def scored(question: str = question) -> int:
                return log.read_text().splitlines().count(question)

            asyncio.run(leave(address, question, stream, lambda: scored() > 5))
            until(lambda: httpx2.get(f"{address}/health").json()["requests"] == 0)
            left = scored()
            with client(address) as openai:
                # A question that nobody stops would be scored about as often meanwhile.
                other = ask(openai, **{**ENDLESS, "max_samples": 20})
            assert other.prmcal["spent"]["samples"] == 20
            assert scored() <= left + 2

        with client(address) as openai:
            messages: Any = chat()
            going = openai.chat.completions.create(
                model="any", messages=messages, stream=True, extra_body=ENDLESS
            )
            next(going)
            process.send_signal(signal.SIGTERM)
            with pytest.raises(APIError, match=r"The server is ending\. Ask again when it is back\."):
                list(going)
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
