"""Replies that a client must not trust: endless, dribbling, compressed or broken ones, and those with its key."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest

from prmcal import LLM, Prefix, Sampling
from prmcal.errors import NoAnswerError, PluginFailedError
from prmcal.registry.plugins import llms, prms
from prmcal.registry.served import redacted

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
PIECE = b"x" * 65_536
SECONDS = 60
RIGHT: dict[str, Any] = {
    "choices": [{"text": "1", "finish_reason": "stop"}],
    "usage": {"completion_tokens": 1, "prompt_tokens": 1},
}


@dataclass
class Hostile:
    """A server: its address, the requests that it has got, and the bytes that it has sent."""

    url: str
    requests: int = 0
    sent: int = 0


def _read_request(link: socket.socket) -> None:
    """Read a whole request. A connection that is closed with unread bytes is reset, and its reply is lost."""
    request = b""
    while b"\r\n\r\n" not in request:
        request += link.recv(65_536)
    head, _, rest = request.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: *(\d+)", head.lower())
    left = int(length[1]) - len(rest) if length else 0
    while left > 0:
        left -= len(link.recv(left))


@contextmanager
def serving(pieces: Callable[[], Iterator[bytes]]) -> Iterator[Hostile]:
    """Answer every request with these bytes until the client has enough."""
    listening = socket.create_server(("127.0.0.1", 0))
    state = Hostile(f"http://127.0.0.1:{listening.getsockname()[1]}/v1")

    def answer(link: socket.socket) -> None:
        with link, suppress(OSError):
            _read_request(link)
            state.requests += 1
            for piece in pieces():
                link.sendall(piece)
                state.sent += len(piece)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(listening.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield state
    finally:
        listening.close()


def body(content: bytes, *headers: str) -> Callable[[], Iterator[bytes]]:
    """A whole reply with this body."""
    lines = [f"Content-Length: {len(content)}", *headers]
    return lambda: iter([HEAD, "".join(f"{line}\r\n" for line in lines).encode(), b"\r\n", content])


def llm(server: Hostile, **arguments: Any) -> LLM:
    given = {"model": "m", "chat_template": "{{ messages[-1]['content'] }}", "patience": 0.05, **arguments}
    return llms.create("openai", base_url=server.url, **given)


def ask(server: Hostile, **arguments: Any) -> str:
    ((completion,),) = llm(server, **arguments).generate([Prefix("1+1?")], 1, Sampling(), 1)
    return completion.text


def test_an_endless_reply_is_left() -> None:
    def endless() -> Iterator[bytes]:
        yield HEAD + b"\r\n"
        while True:
            yield PIECE

    with serving(endless) as server:
        with pytest.raises(PluginFailedError, match=r"The server http.* sent a reply of more than 64 MiB"):
            ask(server, timeout=float(SECONDS))
        time.sleep(0.1)
        sent = server.sent
        time.sleep(0.5)
        assert server.sent == sent  # The connection is closed.
        assert sent < server.requests * 80 * 2**20


def test_a_reply_that_dribbles_has_the_time_limit_as_a_whole() -> None:
    def dribble() -> Iterator[bytes]:
        yield HEAD + b"\r\n"
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            yield b" "
            time.sleep(0.05)

    start = time.monotonic()
    with serving(dribble) as server:
        message = (
            r"gave no answer in .* no whole reply in 0\.5 s\. Likely cause: the server is too slow or hangs"
        )
        with pytest.raises(NoAnswerError, match=message):
            ask(server, timeout=0.5)
    assert time.monotonic() - start < SECONDS


def test_a_reply_that_is_compressed_unasked_is_not_unpacked() -> None:
    bomb = gzip.compress(bytes(2**28))
    with (
        serving(body(bomb, "Content-Encoding: gzip")) as server,
        pytest.raises(NoAnswerError, match=r"its reply is compressed \(gzip\), unasked"),
    ):
        ask(server)


def changed(**parts: Any) -> bytes:
    choice, usage = {**RIGHT["choices"][0], **parts}, {**RIGHT["usage"], **parts}
    return json.dumps({"choices": [choice], "usage": usage}).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html>",
        b"null",
        b"[]",
        b'"text"',
        b"[" * 100_000,
        b"\xff\xfe",
        json.dumps(RIGHT).encode()[:-5],
        json.dumps(RIGHT).replace("1}", "1e400}").encode(),
        changed(text="\ud800"),
        changed(text=None),
        changed(text=["a"]),
        changed(finish_reason={"a": "b"}),
        changed(completion_tokens=-1),
        changed(completion_tokens=10**30),
        changed(completion_tokens=float("nan")),
        changed(prompt_tokens="many"),
    ],
)
def test_a_broken_reply_is_the_fault_of_the_server(content: bytes) -> None:
    with serving(body(content)) as server:
        with pytest.raises(NoAnswerError, match=r"^the server http.* gave no answer .*: (its|it) ") as caught:
            ask(server)
        assert len(str(caught.value)) < 1000
        assert server.requests >= 1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "high"])
def test_a_judge_takes_no_number_that_is_no_probability(value: float | str) -> None:
    tokens: dict[str, Any] = {"content": [{"token": "Yes", "logprob": value, "top_logprobs": []}]}
    reply: dict[str, Any] = {"choices": [{"logprobs": tokens}], "usage": {"prompt_tokens": 1}}
    with serving(body(json.dumps(reply).encode())) as server:
        judge = prms.create("judge", base_url=server.url, model="m", patience=0.05)
        with pytest.raises(NoAnswerError, match=r"^the server http.*its "):
            judge.score("1+1?", [()])


KEY = "sk-Very+Secret/Key_4711"


@pytest.mark.parametrize(
    "written",
    [
        KEY,
        f"Bearer {KEY}",
        json.dumps(KEY),
        KEY.replace("/", "\\/"),
        "".join(f"\\u{ord(each):04x}" for each in KEY),
        "sk-Very%2BSecret%2fKey_4711",
        KEY.upper(),
        quote(quote(KEY, safe=""), safe=""),
        "".join(f"&#{ord(each)};" for each in KEY),
        html.escape(f"<{KEY}>"),
        KEY.encode().hex(),
        *(base64.b64encode(before + KEY.encode()).decode() for before in (b"", b"a", b"Bearer ", b"user:")),
        base64.urlsafe_b64encode(KEY.encode()).decode(),
        "\n".join(KEY),
        json.dumps(json.dumps("\n\u200b".join(KEY))),
    ],
)
def test_a_key_is_found_however_it_is_written(written: str) -> None:
    text = redacted(f'{{"headers": "{written}"}}', KEY)
    assert "[redacted]" in text
    for each in (KEY, written.strip('"\\')):
        assert each.lower() not in text.lower()


def test_a_text_without_the_key_stays() -> None:
    text = (
        "sk-Very secret: " + base64.b64encode(b"sk-Very+Secret/Kez_4711").decode() + KEY[:-1].encode().hex()
    )
    assert redacted(text, KEY) == text


@pytest.mark.parametrize(
    "head",
    [
        f"{KEY}\r\n\r\n",
        f"HTTP/1.1 200 OK\r\n{KEY}\r\n\r\n",
        f"HTTP/1.1 500 {KEY}\r\nContent-Length: 0\r\n\r\n",
        f"HTTP/1.1 200 OK\r\nContent-Encoding: {KEY}\r\n\r\n",
        f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{KEY}\r\n",
    ],
)
def test_a_key_in_what_is_no_http_is_neither_told_nor_logged(
    head: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SERVER_KEY", f"{KEY}\n")  # A file with a key ends with a line break.
    with (
        caplog.at_level("INFO"),
        serving(lambda: iter([head.encode()])) as server,
        pytest.raises(NoAnswerError) as caught,
    ):
        ask(server, key_variable="SERVER_KEY")
    told = "".join(traceback.format_exception(caught.value)) + caplog.text
    assert KEY.lower() not in told.lower()


@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request", "401 Unauthorized", "503 Busy"])
def test_a_key_that_comes_back_is_in_no_message(
    status: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SERVER_KEY", KEY)
    head = HEAD.replace(b"200 OK", status.encode())
    with serving(lambda: iter([head, b"\r\n", f"you sent Bearer {KEY}".encode()])) as server:
        with pytest.raises(PluginFailedError) as caught:
            ask(server, key_variable="SERVER_KEY", patience=0.8)
        assert KEY not in f"{caught.value}{caplog.text}"
        assert "Bearer [redacted]" in str(caught.value)


def test_a_redirect_says_where_it_leads_without_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_KEY", KEY)
    head = f"HTTP/1.1 308 Moved\r\nLocation: http://other/v1?key={KEY}\r\nContent-Length: 0\r\n\r\n"
    with (
        serving(lambda: iter([head.encode()])) as server,
        pytest.raises(PluginFailedError, match=r"308: http://other/v1\?key=\[redacted\]\. Requests are not"),
    ):
        ask(server, key_variable="SERVER_KEY")


@pytest.mark.parametrize("address", ["http://me:password@localhost/v1", "http://localhost/v1?key=password"])
def test_an_address_with_a_password_is_refused(address: str) -> None:
    with pytest.raises(Exception, match="without a password in it"):
        llms.create("openai", base_url=address, model="m", chat_template="{{ 1 }}")
