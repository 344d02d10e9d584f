"""What requests and replies share: messages, how large they may be, and errors as replies.

Every error is a JSON object ``{"error": {"message": "a sentence", ...}}`` with a status that fits, as clients of OpenAI
read it. The OpenAPI document is made from the bodies.
"""

import logging
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from prmcal.errors import PluginFailedError, PrmcalError
from prmcal.harness.storage.folder import first_problem
from prmcal.registry.messages import shown

QUESTION = "Begin at 67, keeping two digits. a) subtract 4, b) add 1, c) subtract 12."


class Part(BaseModel):
    """A part of a message. Only texts are read."""

    type: Literal["text"]
    text: str


class Message(BaseModel):
    """A message of a chat."""

    role: str
    content: str | list[Part]

    @property
    def text(self) -> str:
        """The whole text."""
        parts = self.content
        return parts if isinstance(parts, str) else "".join(each.text for each in parts)


class Health(BaseModel):
    """True if the server can answer."""

    status: str = Field(description="`ready`, `loading` or `failed`.", examples=["ready"])
    requests: int = Field(
        description="How many requests are answered now, apart from those with the method GET."
    )
    version: str = Field(description="The version of prmcal.")
    alarm: str = Field(
        default="",
        description="The alarm: questions are no longer like the calibration questions; else empty.",
    )
    error: str = Field(default="", description="Why the models could not be loaded; empty if nothing failed.")


@dataclass(frozen=True)
class Limits:
    """The limits of a server, all above 0. Requests beyond them are refused before a model sees them.

    A request has at most `body` bytes, which arrive within `body_seconds`, and `rows` trajectories. `concurrent` ones
    are answered at one time. A question has at most `characters`, and asks for at most `samples`. `batch` trajectories
    are scored together, from all requests that wait. Running requests have `grace_seconds` after the signal that ends
    the server.
    """

    body: int
    concurrent: int
    rows: int
    characters: int
    samples: int
    batch: int
    grace_seconds: float
    body_seconds: float = 30.0

    def check(self, question: str) -> None:
        """Raise PrmcalError if a question is empty or too long."""
        if not question.strip():
            raise PrmcalError("question: it is empty. Give the text of a question.")
        if len(question) > self.characters:
            raise PrmcalError(
                f"question: it has {len(question):,} characters. The limit is {self.characters:,}."
            )


_HARMLESS = {
    *("model", "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"),
    *("stream_options", "tool_choice", "parallel_tool_calls", "priority", "request_id", "add_special_tokens"),
}
"""Fields of OpenAI and vLLM that change no answer of this server."""


def check_unknown(given: Mapping[str, Any], followed: Mapping[str, Any]) -> None:
    """Raise PrmcalError if a request has a field that would change the answer elsewhere, and is not followed here.

    `followed` has the one value of some fields that the server follows. A field that asks for nothing is harmless.
    """
    for name, value in given.items():
        nothing = value is None or value is False or value in ([], {})
        if nothing or name in _HARMLESS or (name in followed and value == followed[name]):
            continue
        instead = f", or give {followed[name]!r}" if name in followed else ""
        raise PrmcalError(f"{name}: this server cannot follow it. Leave it out{instead}. Got {shown(value)}.")


_log = logging.getLogger(__name__)
_UNEXPECTED = "The server failed. Its output has the details."
_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error"}


def described(status: int, message: str) -> dict[str, Any]:
    """Return the body of a reply with an error."""
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "code": status}}


def problem(error: Exception) -> dict[str, Any]:
    """Return an error as the body of a reply. The message of an unexpected one is for the server's output only."""
    if isinstance(error, PrmcalError):
        return described(502 if isinstance(error, PluginFailedError) else 400, str(error))
    _log.error("A request failed", exc_info=error)
    return described(500, _UNEXPECTED)


def refusal(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return a reply with an error."""
    return JSONResponse(described(status, message), status, headers)


def head(model: str) -> dict[str, Any]:
    """Return the first fields of a reply."""
    return {"id": f"prmcal-{uuid.uuid4().hex}", "created": int(time.time()), "model": model}


_MESSAGES = {
    400: "The body is not JSON. Send a JSON object; /openapi.json describes it.",
    404: "There is nothing at this address. GET / lists the addresses.",
    405: "This address has another method. GET / lists the addresses.",
    415: "The body has another type. Send the header 'content-type: application/json'.",
}


def add_handlers(app: FastAPI) -> None:
    """Let the app answer every error in the same form."""

    @app.exception_handler(PrmcalError)
    async def ours(_: Request, error: PrmcalError) -> JSONResponse:
        found = problem(error)
        return JSONResponse(found, found["error"]["code"])

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return refusal(400, _MESSAGES[400])
        if isinstance(first.get("input"), bytes):  # A page of another server could send such a body unasked.
            return refusal(415, _MESSAGES[415])
        return refusal(400, first_problem(error.errors()))

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> JSONResponse:
        message = _MESSAGES.get(error.status_code, str(error.detail))
        return refusal(error.status_code, message, dict(error.headers or {}))

    @app.exception_handler(Exception)
    async def unexpected(_: Request, error: Exception) -> JSONResponse:
        return refusal(500, _UNEXPECTED)
