"""The server from its start to its end: its addresses, and the gate before them."""

import asyncio
import socket
import time
import uuid
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from prmcal import __version__
from prmcal.errors import PluginFailedError, PrmcalError
from prmcal.harness.inference.calibrated_prm import CalibratedPRM
from prmcal.harness.serving.access import Access
from prmcal.harness.serving.pooling import Form, PoolingBody
from prmcal.harness.storage.folder import first_problem

_GRACE_SECONDS, _BACKLOG = 20, 2048
_SECONDS_TO_ASK = 10.0
"""Longer pauses end a request, so that nobody holds connections by sending nothing."""

_REMEDIES = {
    400: "The body is not JSON. Send a JSON object; /openapi.json describes it.",
    404: "There is nothing at this address. /openapi.json lists the addresses.",
}


def _refusal(status: int, message: str, **headers: str) -> JSONResponse:
    """Return a reply with an error, as clients of vLLM read it."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return JSONResponse({"error": {"message": message, "type": kind, "code": status}}, status, headers)


class Gate:
    """Refuse requests without access (403 or 401), large and slow bodies (413, 408), and too many at once (503)."""

    def __init__(self, app: ASGIApp, access: Access, max_body: int, max_concurrent: int) -> None:
        self._app, self._access = app, access
        self._max_body, self._max_concurrent, self._running = max_body, max_concurrent, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers, computes = Headers(scope=scope), scope["method"] not in ("GET", "HEAD", "OPTIONS")
        # Several origins are no origin.
        origin = ", ".join(headers.getlist("origin")) or headers.get("origin")
        names = headers.get("host", ""), origin, headers.get("authorization", "")
        if refused := self._access.refusal(*names, computes):
            await _refusal(*refused, connection="close")(scope, receive, send)
            return
        if computes and self._running >= self._max_concurrent:
            text = f"The server answers {self._max_concurrent} requests already, which is its limit. Try again in 1 s."
            await _refusal(503, text, connection="close", **{"retry-after": "1"})(scope, receive, send)
            return
        large = f"The body has more than {self._max_body:,} bytes, the limit. Send fewer rows."
        length = headers.get("content-length", "0")
        if length.isdigit() and (len(length) > 18 or int(length) > self._max_body):
            await _refusal(413, large, connection="close")(scope, receive, send)
            return
        size, is_whole = 0, False

        async def limited() -> Message:
            nonlocal size, is_whole
            try:
                message = await asyncio.wait_for(receive(), None if is_whole else _SECONDS_TO_ASK)
            except TimeoutError:
                text = f"The body did not come within {_SECONDS_TO_ASK:.0f} s. Send the request again."
                raise HTTPException(408, text, {"connection": "close"}) from None
            size, is_whole = size + len(message.get("body", b"")), not message.get("more_body", False)
            if size > self._max_body:
                raise HTTPException(413, large, {"connection": "close"})
            return message

        self._running += computes
        try:
            await self._app(scope, limited, send)
        finally:
            self._running -= computes


def create_app(prm: CalibratedPRM, access: Access, max_body: int, max_concurrent: int) -> FastAPI:
    """Return the application, and load the PRM."""
    form = Form(prm.scorer.loaded_prm)
    prm.score("1 + 1")
    model = f"{prm.llm.name}/{prm.scorer.prm.name}/{prm.scorer.calibrator_name}"
    # The interactive pages would load scripts from other servers.
    app = FastAPI(title=str(prm), version=__version__, docs_url=None, redoc_url=None)
    app.add_middleware(Gate, access=access, max_body=max_body, max_concurrent=max_concurrent)

    @app.exception_handler(PrmcalError)
    async def failed(_: object, error: PrmcalError) -> JSONResponse:
        return _refusal(502 if isinstance(error, PluginFailedError) else 400, str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(_: object, error: RequestValidationError) -> JSONResponse:
        return _refusal(400, first_problem(error.errors()))

    @app.exception_handler(HTTPException)
    async def impossible(_: object, error: HTTPException) -> JSONResponse:
        text = _REMEDIES.get(error.status_code, str(error.detail))
        return _refusal(error.status_code, text, **(error.headers or {}))

    @app.get("/health")
    async def health() -> dict[str, Any]:
        """Return the served cell."""
        return {"cell": prm.name, "model": model, "levels": prm.scorer.levels, "version": __version__}

    @app.post("/pooling")
    def pooling(body: PoolingBody) -> dict[str, Any]:
        """Return the calibrated rewards of every step, and the PRM's own, also for the bare question."""
        trajectories = prm.score_many(form.read(body))
        logits = body.use_activation is False
        rows = [form.row(place, rewards, logits) for place, rewards in enumerate(trajectories)]
        tokens = sum(rewards.tokens for rewards in trajectories)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        head = {"id": f"prmcal-{uuid.uuid4().hex}", "object": "list", "created": int(time.time())}
        return {**head, "model": model, "data": rows, "usage": usage}

    return app


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address. Port 0 stands for any free port.

    Raises a PrmcalError if the address does not exist or is in use.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends replies without delay only if the socket names its protocol. Each would otherwise take 40 ms longer.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise PrmcalError(
            f"The server cannot listen at {host} port {port}: {error.strerror}. Give another --host or --port."
        ) from error
    return listener


class _Connection(H11Protocol):
    """A connection that is closed after some time without a request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self.loop.call_later(_SECONDS_TO_ASK, self._close_if_silent)

    def _close_if_silent(self) -> None:
        if self.cycle is None:
            self.transport.close()


class _Server(uvicorn.Server):
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end; a second signal ends at once. uvicorn would send itself the signal again when it is done."""
        self.force_exit = self.should_exit
        self.should_exit = True


def run(app: FastAPI, listener: socket.socket) -> None:
    """Answer requests until SIGINT or SIGTERM. Then running requests may finish for some time."""
    config = uvicorn.Config(
        app,
        http=_Connection,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    _Server(config).run([listener])
