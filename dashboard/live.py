"""The server of `prmcal serve` that page "Try it" asks."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from typing import Any

import httpx2

__all__ = ["LiveError", "served", "solving"]

_TIMEOUT = httpx2.Timeout(20.0, read=600.0)  # Seconds. A large model can take long for a step.


class LiveError(Exception):
    """The server cannot be reached, or it refused the request. The message is a sentence."""


def served(address: str) -> dict[str, Any]:
    """Return what the server serves: its fields ``cell``, ``llm``, ``prm``, ``calibrator``, ``levels`` and ``limits``.

    Raises
    ------
    LiveError
        If it does not answer.
    """
    try:
        reply = httpx2.get(f"{address}/", timeout=_TIMEOUT)
        reply.raise_for_status()
        found: dict[str, Any] = reply.json()
        return found
    except (httpx2.HTTPError, ValueError) as error:
        raise _gone(address) from error


def solving(address: str, request: Mapping[str, Any]) -> Generator[dict[str, Any], None, None]:
    """Yield the events of a question as they come: steps, and at last the solution.

    The server stops its work if the iterator is closed before.

    Raises
    ------
    LiveError
        If the server cannot be reached, goes away, or refuses the question, or if a model fails.
    """
    try:
        body = {**request, "stream": True}
        with httpx2.stream("POST", f"{address}/solve", json=body, timeout=_TIMEOUT) as reply:
            if reply.status_code != 200:
                raise LiveError(json.loads(reply.read())["error"])
            for line in reply.iter_lines():
                event: dict[str, Any] = json.loads(line)
                if event["event"] == "error":
                    raise LiveError(event["error"])
                yield event
                if event["event"] == "solution":
                    return
    except (httpx2.HTTPError, ValueError) as error:
        raise _gone(address) from error
    raise _gone(address)


def _gone(address: str) -> LiveError:
    return LiveError(
        f"The server at {address}, which this page asks, does not answer. Start the dashboard again with --live."
    )
