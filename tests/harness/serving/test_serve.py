"""``prmcal serve`` as a process of its own: what it refuses, who may ask it, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Event
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra 'serve' is not installed")
import httpx2
from hypothesis import example, given, settings
from hypothesis import strategies as st

from prmcal import CalibratedPRM
from tests.conftest import Prmcal
from tests.harness.serving.clients import QUESTION, TLS, message_of, pooled, post
from tests.served_run import BODY, CELL, SECONDS, served


@pytest.mark.parametrize(
    ("content", "kind", "status", "message"),
    [
        (b"no json", "application/json", 400, "JSON"),
        (b"\xff\xfe\x00", "application/json", 400, "JSON"),
        (b'{"input": [' * 5000, "application/json", 400, "JSON"),
        (b"", "application/json", 400, "Field required"),
        (b'{"input": "1 + 1"}', "text/plain", 400, "Input should be a valid"),
        (b"[" + b" " * BODY, "application/json", 413, "more than 200,000 bytes"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused(
    address: str, content: bytes, kind: str, status: int, message: str
) -> None:
    reply = httpx2.post(f"{address}/pooling", content=content, headers={"content-type": kind}, timeout=SECONDS)
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


def test_a_request_that_stops_in_the_middle_is_closed_and_an_absurd_length_refused_at_once(address: str) -> None:
    host, port = address.removeprefix("http://").split(":")
    head = f"POST /pooling HTTP/1.1\r\nhost: {host}:{port}\r\ncontent-type: application/json\r\ncontent-length: "
    sent = {
        "": "",
        head: "",
        f"{head}{10**12}\r\n\r\n": "413",
        f"{head}{10**30}\r\n\r\n": "",
        f"{head}9\r\n\r\n[": "408",
    }
    with ExitStack() as stack:
        clients = [
            (stack.enter_context(socket.create_connection((host, int(port)), SECONDS)), text, status)
            for text, status in sent.items()
        ]
        for client, text, _ in clients:
            client.sendall(text.encode())
        for client, _, status in clients:
            reply = b""
            while part := client.recv(2**16):  # until the server closes it
                reply += part
            assert status in reply.decode()
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
@example(body={"input": [10**30]})
@example(body={"input": [2**31 - 1]})
@example(body={"input": [[], [0], "a"]})
@example(body={"input": [1, "a"]})
def test_no_body_breaks_the_server(address: str, body: Any) -> None:
    headers = {"content-type": "application/json"}
    reply = httpx2.post(f"{address}/pooling", content=json.dumps(body), headers=headers, timeout=SECONDS, verify=TLS)
    assert reply.status_code in (200, 400)
    if reply.status_code != 200:
        assert message_of(reply).endswith(".")


def test_what_is_served_is_told_and_no_page_needs_the_internet(address: str, here: CalibratedPRM) -> None:
    told = httpx2.get(f"{address}/health").json()
    assert told["model"] == "nano-weak/nano-prm/quantiles" and told["cell"] == here.name
    assert told["levels"] == list(here.scorer.levels)
    reply = httpx2.get(f"{address}/docs")
    assert reply.status_code == 404 and message_of(reply)
    assert set(httpx2.get(f"{address}/openapi.json").json()["paths"]) == {"/health", "/pooling"}


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
        httpx2.get(f"{address}/health", headers=headers, timeout=SECONDS),
        httpx2.get(f"{address}/openapi.json", headers=headers, timeout=SECONDS),
        post(address, {"input": QUESTION}, headers=headers),
    ):
        assert reply.status_code == 403
        assert "--allowed-hosts" in message_of(reply)


def test_own_names_and_pages_are_answered(address: str) -> None:
    port = address.rpartition(":")[2]
    for name in ("localhost", f"localhost:{port}", f"LOCALHOST.:{port}", f"[::1]:{port}"):
        assert httpx2.get(f"{address}/health", headers={"host": name}).status_code == 200
        own = {"host": name, "origin": f"http://{name}"}
        assert post(address, {"input": QUESTION}, headers=own).status_code == 200


def test_other_machines_need_the_token_and_a_busy_server_refuses_and_finishes_what_it_began(folder: Path) -> None:
    hosts = ("--host", "0.0.0.0", "--allowed-hosts", "prm.example", "--allowed-hosts", "*.lan.example")
    with served(folder, "--cell", CELL, *hosts, "--max-concurrent", 1) as (address, process, said):
        (token,) = re.findall(r"authorization: Bearer (\S+)'", said)
        assert len(token) > 30 and "Other machines" in said
        for wrong in ("x", token[:-1]):
            refused = post(address, {"input": QUESTION}, headers={"authorization": f"Bearer {wrong}"})
            assert refused.status_code == 401 and "authorization: Bearer TOKEN" in message_of(refused)
        assert post(address, {"input": QUESTION}).status_code == 401
        headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}
        assert post(address, {"input": QUESTION}, headers=headers).status_code == 200
        for name in ("prm.example", "a.lan.example:8000", socket.gethostname()):
            assert httpx2.get(f"{address}/health", headers={"host": name}).status_code == 200
        for name in ("lan.example", "prm.example.org"):
            assert httpx2.get(f"{address}/health", headers={"host": name}).status_code == 403

        body = json.dumps({"input": QUESTION}).encode()
        begun, finish = Event(), Event()

        def slowly() -> Iterator[bytes]:
            yield body[:5]
            begun.set()
            finish.wait(SECONDS)
            yield body[5:]

        with ThreadPoolExecutor(1) as pool:
            slow = pool.submit(httpx2.post, f"{address}/pooling", content=slowly(), headers=headers, timeout=SECONDS)
            assert begun.wait(SECONDS)
            while (refused := post(address, {"input": QUESTION}, headers=headers)).status_code == 200:
                pass  # The server has not read the beginning of the slow one.
            assert refused.status_code == 503 and refused.headers["retry-after"] == "1"
            assert "its limit" in message_of(refused)
            assert httpx2.get(f"{address}/health").status_code == 200
            assert process.pid is not None
            os.kill(process.pid, signal.SIGINT)
            finish.set()
            assert slow.result(SECONDS).status_code == 200
        process.join(SECONDS)
        assert process.exitcode == 0


def test_what_cannot_be_served_is_refused_in_one_line(folder: Path, tmp_path: Path, prmcal: Prmcal, port: int) -> None:
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
