"""Requests to a server of a calibrated PRM, and what its replies have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx2

from tests.served_run import SECONDS

QUESTION = "Begin at 67, keeping two digits. a) subtract 4, b) add 1, c) subtract 12."
TLS = httpx2.create_ssl_context()  # Each request would else read all certificates.
STEPS = ["a) 67-4=63", "b) 63+1=64"]


def post(address: str, body: Any, **how: Any) -> httpx2.Response:
    return httpx2.post(f"{address}/pooling", json=body, timeout=SECONDS, verify=TLS, **how)


def chat(question: str = QUESTION, steps: Sequence[str] = (), behind: str = "") -> list[dict[str, str]]:
    """The messages of a trajectory, with a text behind each step; those of a question without steps."""
    solution = [{"role": "assistant", "content": "".join(step + behind for step in steps)}] if steps else []
    return [{"role": "user", "content": question}, *solution]


def pooled(address: str, **body: Any) -> list[dict[str, Any]]:
    reply = post(address, body)
    assert reply.status_code == 200, reply.text
    rows: list[dict[str, Any]] = reply.json()["data"]
    return rows


def message_of(reply: httpx2.Response) -> str:
    error = reply.json()["error"]
    assert set(error) == {"message", "type", "code"} and error["code"] == reply.status_code
    return str(error["message"])
