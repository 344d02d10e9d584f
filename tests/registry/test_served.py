"""Replies of servers that are broken, or that repeat the key, and addresses that may not be stored."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from prmcal import Prefix, Sampling
from prmcal.errors import NoAnswerError, PluginFailedError
from prmcal.registry.plugins import llms, prms

CERTIFICATES = Path(__file__).with_name("certificates")
KEY = "sk-Very+Secret/Key_4711"
RIGHT: dict[str, Any] = {
    "choices": [{"text": "1", "finish_reason": "stop"}],
    "usage": {"completion_tokens": 1, "prompt_tokens": 1},
}


@contextmanager
def serving(content: bytes, status: int = 200, *, certificate: str = "", **headers: str) -> Iterator[str]:
    """Answer every request with these bytes inside the block, by TLS if there is a certificate. Return the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATES / f"{certificate}.pem")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http{'s' if certificate else ''}://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def ask(url: str, **arguments: Any) -> str:
    given = {"model": "m", "chat_template": "{{ messages[-1]['content'] }}", "patience": 0.05, **arguments}
    llm = llms.create("openai", base_url=url, **given)
    ((completion,),) = llm.generate([Prefix("1+1?")], 1, Sampling(), 1)
    return completion.text


@pytest.mark.parametrize(
    ("certificate", "trusted", "why"),
    [
        ("valid", "elsewhere", r"self-signed certificate .*export SSL_CERT_FILE"),
        ("elsewhere", "elsewhere", r"IP address mismatch.*Check 'base_url'"),
        ("expired", "expired", r"certificate has expired .*check the clock of this machine"),
    ],
)
def test_a_certificate_that_is_not_trusted_is_told_at_once(
    monkeypatch: pytest.MonkeyPatch, certificate: str, trusted: str, why: str
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATES / f"{trusted}.pem"))
    with serving(b"", certificate=certificate) as url, pytest.raises(PluginFailedError, match=f"not trusted: .*{why}"):
        ask(url, patience=60.0)


def test_a_certificate_whose_file_is_named_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATES / "valid.pem"))
    with serving(json.dumps(RIGHT).encode(), certificate="valid") as url:
        assert ask(url) == "1"


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
        b"\xff\xfe",
        json.dumps(RIGHT).encode()[:-5],
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
    message = r"^the server http.* gave no answer .*: (its|it) "
    with serving(content) as url, pytest.raises(NoAnswerError, match=message) as caught:
        ask(url)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "high"])
def test_a_judge_takes_no_number_that_is_no_probability(value: float | str) -> None:
    tokens: dict[str, Any] = {"content": [{"token": "Yes", "logprob": value, "top_logprobs": []}]}
    reply: dict[str, Any] = {"choices": [{"logprobs": tokens}], "usage": {"prompt_tokens": 1}}
    with serving(json.dumps(reply).encode()) as url:
        judge = prms.create("judge", base_url=url, model="m", patience=0.05)
        with pytest.raises(NoAnswerError, match=r"^the server http.*its "):
            judge.score("1+1?", [()])


@pytest.mark.parametrize("status", [200, 400, 401, 503])
def test_a_key_that_comes_back_is_in_no_message(
    status: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SERVER_KEY", f"{KEY}\n")  # A file with a key ends with a line break.
    with serving(f"you sent Bearer {KEY}".encode(), status) as url:
        with pytest.raises(PluginFailedError) as caught:
            ask(url, key_variable="SERVER_KEY", patience=0.8)
        assert KEY not in f"{caught.value}{caplog.text}"
        assert "Bearer [redacted]" in str(caught.value)


def test_a_redirect_says_where_it_leads() -> None:
    with (
        serving(b"", 308, Location="http://other/v1") as url,
        pytest.raises(PluginFailedError, match=r"308: http://other/v1\. Requests are not"),
    ):
        ask(url)


@pytest.mark.parametrize("address", ["http://me:password@localhost/v1", "http://localhost/v1?key=password"])
def test_an_address_with_a_password_is_refused(address: str) -> None:
    with pytest.raises(Exception, match="without a password in it"):
        llms.create("openai", base_url=address, model="m", chat_template="{{ 1 }}")
