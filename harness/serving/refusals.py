"""Errors as replies: every one is a JSON object ``{"error": "a sentence"}`` with a status that fits."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from prmcal.errors import PluginFailedError, PrmcalError
from prmcal.harness.serving.bodies import in_words

__all__ = ["ENDING", "UNEXPECTED", "add_handlers", "refusal", "sentence", "status_of"]

ENDING = "The server is ending. Ask again when it is back."
UNEXPECTED = "The server failed. Its output has the details."

_log = logging.getLogger(__name__)


def refusal(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return a reply with an error."""
    return JSONResponse({"error": message}, status, headers)


def status_of(error: PrmcalError) -> int:
    """Return the status of an error: 502 if a model failed, and 422 if the request was wrong."""
    return 502 if isinstance(error, PluginFailedError) else 422


def sentence(error: Exception) -> str:
    """Return the message of an error. The message of an unexpected one is for the server's output only."""
    if isinstance(error, PrmcalError):
        return str(error)
    _log.error("A request failed", exc_info=error)
    return UNEXPECTED


def add_handlers(app: FastAPI) -> None:
    """Let the app answer every error in the same form."""

    async def ours(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, PrmcalError)
        return refusal(status_of(error), str(error))

    async def invalid(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        errors: Any = error.errors()
        if errors[0]["type"] == "json_invalid":
            return refusal(400, "The body is not JSON. Send a JSON object; /openapi.json describes it.")
        if isinstance(
            errors[0].get("input"), bytes
        ):  # A page of another server could send such a body unasked.
            return refusal(
                415, "The body has another type. Send the header 'content-type: application/json'."
            )
        return refusal(422, in_words(errors))

    async def http(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        messages = {
            400: "The body cannot be read as JSON. Send a JSON object; /openapi.json describes it.",
            404: "There is nothing at this address. GET / lists the addresses.",
            405: "This address has another method. GET / lists the addresses.",
        }
        message = messages.get(error.status_code, str(error.detail))
        return refusal(error.status_code, message, dict(error.headers or {}))

    async def unexpected(_: Request, error: Exception) -> JSONResponse:
        return refusal(500, UNEXPECTED)

    app.add_exception_handler(PrmcalError, ours)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, unexpected)
