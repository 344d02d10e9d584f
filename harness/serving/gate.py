"""The limits on bodies and on concurrent requests. They hold before anything of a request is read as JSON."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from prmcal.harness.serving.limits import Limits
from prmcal.harness.serving.refusals import refusal

__all__ = ["Gate", "Inside"]

_RETRY_SECONDS = 1


@dataclass
class Inside:
    """How many requests are answered now."""

    requests: int = 0


class _TooLargeError(Exception):
    """The body is larger than the limit."""


class Gate:
    """Refuse requests beyond the limits: 413 for a large body, 408 for a slow one, and 503 if there are too many.

    Requests with the method GET always pass, so that a busy server still tells its health.

    Parameters
    ----------
    app : ASGIApp
        It gets the requests that pass, with their whole body.
    limits : Limits
    inside : Inside
        The gate counts the requests that it lets in.
    """

    def __init__(self, app: ASGIApp, limits: Limits, inside: Inside) -> None:
        self._app, self._limits, self._inside = app, limits, inside

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD", "OPTIONS"):
            await self._app(scope, receive, send)
            return
        if self._inside.requests >= self._limits.concurrent:
            message = (
                f"The server answers {self._limits.concurrent} requests already, which is its limit. "
                f"Try again after {_RETRY_SECONDS} s."
            )
            headers = {"retry-after": str(_RETRY_SECONDS), "connection": "close"}
            await refusal(503, message, headers)(scope, receive, send)
            return
        self._inside.requests += 1
        try:
            await self._pass(scope, receive, send)
        finally:
            self._inside.requests -= 1

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        limits, close = self._limits, {"connection": "close"}
        try:
            async with asyncio.timeout(limits.body_seconds):
                body = await self._body(scope, receive)
        except _TooLargeError:
            message = f"The body has more than {limits.body:,} bytes, which is the limit. Send fewer rows at a time."
            await refusal(413, message, close)(scope, receive, send)
            return
        except TimeoutError:
            message = f"The body did not arrive within {limits.body_seconds:g} s."
            await refusal(408, message, close)(scope, receive, send)
            return
        if body is None:
            return

        async def whole() -> Message:
            nonlocal body
            if body is None:
                return await receive()
            message, body = {"type": "http.request", "body": body, "more_body": False}, None
            return message

        await self._app(scope, whole, send)

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        """Return the whole body; None if the client went away before."""
        headers = dict(scope["headers"])
        announced = headers.get(b"content-length", b"0")
        if announced.isdigit() and int(announced) > self._limits.body:
            raise _TooLargeError
        parts, size = [], 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self._limits.body:
                raise _TooLargeError
            if not message.get("more_body", False):
                return b"".join(parts)
