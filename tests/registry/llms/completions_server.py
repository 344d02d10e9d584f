"""A server on this machine: OpenAI's interfaces for a shipped model, or any other answers, with optional faults."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from prmcal import Completion
from prmcal.registry.plugins import llms

SLOW = 6.0
"""The time that a slow server takes, in seconds."""

_OF_CHATS = ("messages", "add_generation_prompt", "continue_final_message")

Reply = dict[str, Any]
Fault = Callable[[int], str]


def echo(request: dict[str, Any]) -> Reply:
    """Return a completion without a model. It is different for each request."""
    return reply(f"seed {request['seed']}", 3, "stop")


def reply(text: str, tokens: int, reason: str, **details: Any) -> Reply:
    return {
        "choices": [{"index": 0, "text": text, "finish_reason": reason, **details}],
        "usage": {"completion_tokens": tokens, "prompt_tokens": 7},
    }


def reply_of_vllm(completion: Completion, stops: Sequence[str]) -> Reply:
    """Return what vLLM's server returns for a completion. It says which stop string a completion reached."""
    reason = "length" if completion.finish_reason == "length" else "stop"
    stop = stops[0] if completion.finish_reason == "stop" else None
    return reply(completion.text, completion.tokens, reason, stop_reason=stop)


class Policy:
    """A shipped model. Waiting requests are sampled together, and completions are cached."""

    def __init__(self, checkpoint: str) -> None:
        self.llm: Any = llms.create("transformers", checkpoint=checkpoint, dtype="float32", device="cpu")
        self.lock = threading.Lock()
        self.waiting: dict[str, dict[str, Any]] = {}
        self.known: dict[str, Reply] = {}

    def __call__(self, request: dict[str, Any]) -> Reply:
        key = json.dumps(request, sort_keys=True)
        if key not in self.known:
            self.waiting[key] = request
            with self.lock:
                if key not in self.known:
                    self._sample(request)
        return self.known[key]

    def _sample(self, request: dict[str, Any]) -> None:
        from prmcal.registry.llms.prompts import StopStrings
        from prmcal.registry.llms.sampling import Row, sample_rows

        llm = self.llm
        settings = ("temperature", "top_p", "max_tokens", "stop")
        batch = {
            key: each
            for key, each in list(self.waiting.items())
            if all(each.get(name) == request.get(name) for name in settings)
        }
        limit = request["max_tokens"]
        rows = [
            Row(tuple(each["prompt"]), limit, np.random.default_rng(each["seed"]).random(limit))
            for each in batch.values()
        ]
        stops = StopStrings(llm._tokenizer, request.get("stop", ()))
        sample_rows(
            llm._model,
            rows,
            temperature=request["temperature"],
            top_p=request["top_p"],
            pad_id=llm._pad_id,
            end_ids=llm._end_ids,
            stops=stops,
        )
        for key, row in zip(batch, rows, strict=True):
            completion = llm._completion(row, stops)
            self.known[key] = reply_of_vllm(completion, request.get("stop", ()))
            del self.waiting[key]


class ChatPolicy(Policy):
    """The same model behind chat completions, as vLLM serves it."""

    def __call__(self, request: dict[str, Any]) -> Reply:
        rest = {name: value for name, value in request.items() if name not in _OF_CHATS}
        open_ended = {name: request[name] for name in _OF_CHATS[1:] if name in request}
        prompt = self.llm._tokenizer.apply_chat_template(
            request["messages"], **{"add_generation_prompt": True, **open_ended}, return_dict=False
        )
        found = super().__call__({**rest, "prompt": prompt})
        (choice,) = found["choices"]
        message = {"role": "assistant", "content": choice["text"]}
        others = {name: value for name, value in choice.items() if name != "text"}
        usage = {**found["usage"], "prompt_tokens": len(prompt)}
        return {**found, "choices": [{**others, "message": message}], "usage": usage}


@dataclass
class Server:
    """The requests that a server received.

    `fault` returns the fault for the number of each request: a status such as "503", which "503 after 2" follows with
    the seconds of its Retry-After, or one of the words that the handler knows. `refusal` is what a status
    comes with. A server that does not take `top_k`
    refuses it without a record.
    """

    answer: Callable[[dict[str, Any]], Reply]
    fault: Fault = lambda number: ""
    url: str = ""
    refusal: str = ""
    takes_top_k: bool = False
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


@contextmanager
def serving(
    answer: Callable[[dict[str, Any]], Reply] = echo,
    fault: Fault = lambda number: "",
    base: str = "/v1",
    path: str = "/completions",
) -> Iterator[Server]:
    """Serve on a free port inside the block. Requests to `path` below `base`, the end of the url, are answered."""
    state = Server(answer, fault)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if "top_k" in content and not state.takes_top_k:
                self._send(400, b'{"error": {"message": "unknown field top_k"}}')
                return
            with state.lock:
                number = len(state.requests)
                state.requests.append(content)
                state.headers.append(dict(self.headers))
                state.at_once += 1
                state.most_at_once = max(state.most_at_once, state.at_once)
            fault = state.fault(number) if self.path == base + path else "404"
            try:
                self._answer(fault, content)
            finally:
                with state.lock:
                    state.at_once -= 1

        def _answer(self, fault: str, content: dict[str, Any]) -> None:
            if fault == "slow":
                time.sleep(SLOW)
            if fault == "reset":
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
                self.close_connection = True
                return
            status, _, pause = fault.partition(" after ")
            if status.isdigit():
                self._send(
                    int(status),
                    json.dumps({"error": {"message": state.refusal or f"fault {status}"}}).encode(),
                    pause=pause,
                )
                return
            body = state.answer(content)
            if fault == "fewer":
                body["choices"] = []
            if fault == "aborted":
                body["choices"][0]["finish_reason"] = "abort"
            if fault == "no usage":
                del body["usage"]
            text = b"<html>not JSON</html>" if fault == "no JSON" else json.dumps(body).encode()
            self._send(200, text, cut=fault == "cut")

        def _send(self, status: int, body: bytes, cut: bool = False, pause: str = "") -> None:
            self.send_response(status)
            if pause:
                self.send_header("Retry-After", pause)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if cut else body)
            if cut:
                self.close_connection = True

        def log_message(self, *arguments: Any) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        request_queue_size = 128
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Ignore clients that disconnect."""

    server = Quiet(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_address[1]}{base}"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
