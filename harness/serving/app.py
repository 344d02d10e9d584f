"""The server from its start to its end: its addresses, and the gate before them."""

import asyncio
import math
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import asdict
from types import FrameType
from typing import Any, TypeVar

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from prmcal import __version__
from prmcal.errors import PluginFailedError, PrmcalError
from prmcal.harness.inference.calibrated_prm import CalibratedPRM
from prmcal.harness.inference.results import Solution
from prmcal.harness.serving import bodies, forms
from prmcal.harness.serving.access import Access

T = TypeVar("T")


class Gate:
    """Refuse requests without access with 403 or 401, and those beyond the limits.

    A large body gets 413 and a slow one 408. If there are too many requests, they get 503, but for those with the
    method GET, so that a busy server still tells its health. A request that is cancelled, because the server ends, gets
    503, or an ``error`` as the last event of its stream.

    `app` gets the requests that pass. The gate counts its requests in `health`.
    """

    def __init__(self, app: ASGIApp, access: Access, limits: bodies.Limits, health: bodies.Health) -> None:
        self._app, self._access, self._limits, self._health = app, access, limits, health

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
            await bodies.refusal(*refused, {"connection": "close"})(scope, receive, send)
            return
        if not computes:
            await self._app(scope, receive, send)
            return
        limits, close = self._limits, {"connection": "close"}
        if self._health.requests >= limits.concurrent:
            message = f"The server answers {limits.concurrent} requests already, which is its limit. Try again in 1 s."
            await bodies.refusal(503, message, {"retry-after": "1", **close})(scope, receive, send)
            return
        size, whole = 0, False
        end = asyncio.get_running_loop().time() + limits.body_seconds

        async def limited() -> Message:
            nonlocal size, whole
            if whole:
                return await receive()
            try:
                async with asyncio.timeout_at(end):
                    message = await receive()
            except TimeoutError:
                text = f"The body did not arrive within {limits.body_seconds:g} s."
                raise HTTPException(408, text, close) from None
            size += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if size > limits.body:
                text = f"The body has more than {limits.body:,} bytes, which is the limit. Send fewer rows at a time."
                raise HTTPException(413, text, close)
            return message

        begun = False

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        self._health.requests += 1
        try:
            await self._app(scope, limited, noted)
        except asyncio.CancelledError:
            if begun:
                last = forms.line(bodies.described(503, _ENDING)).encode()
                await send({"type": "http.response.body", "body": last})
            else:
                await bodies.refusal(503, _ENDING, close)(scope, receive, send)
        finally:
            self._health.requests -= 1


_ENDING = "The server is ending. Ask again when it is back."


async def _unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of some work. It is cancelled if the client goes away."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    task, watch = asyncio.create_task(work), asyncio.create_task(gone())
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise asyncio.CancelledError
        return task.result()
    finally:
        task.cancel()
        watch.cancel()


def create_app(
    prm: CalibratedPRM, access: Access, limits: bodies.Limits, on_failure: Callable[[Exception], None]
) -> FastAPI:
    """Return the application. Its models are loaded when it starts; `on_failure` is called if this fails."""
    prm.waiting.most = limits.batch
    health = bodies.Health(status="loading", requests=0, version=__version__)
    form, since = forms.Form(prm.form), int(time.time())
    model = "/".join(filter(None, (prm.llm, prm.prm, prm.calibrator)))

    async def load() -> None:
        try:
            await asyncio.to_thread(prm.score, "1 + 1", [])
            health.status = "ready"
        except Exception as error:
            health.status, health.error = "failed", bodies.problem(error)["error"]["message"]
            on_failure(error)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        loading = asyncio.create_task(load())
        yield
        loading.cancel()

    app = FastAPI(
        title="A calibrated PRM",
        description="Scores the steps of solutions with the probability that they lead to a right answer, in vLLM's "
        "form, and answers questions with as many samples as they need, in OpenAI's form.",
        version=__version__,
        responses={"4XX": {"description": "The request is wrong, or has no access."}},
        # The interactive pages would load scripts from other servers.
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.add_middleware(Gate, access=access, limits=limits, health=health)
    bodies.add_handlers(app)

    async def readable(question: str) -> None:
        """Score a bare question, so that one that no model can read is refused as such."""
        limits.check(question)
        (bare,) = await prm.ascore_many([(question, ())])
        if bare.point[0] is None:
            raise PrmcalError(f"question: it is too long for the PRM. It has {len(question):,} characters.")

    @app.get("/", summary="What is served")
    async def served() -> dict[str, Any]:
        names = ("llm", "prm", "calibrator", "chosen_by", "levels")
        routes = [route for route in app.routes if isinstance(route, APIRoute)]
        return {
            "cell": prm.name,
            **{name: getattr(prm, name) for name in names},
            "limits": asdict(limits),
            "addresses": {f"{', '.join(route.methods)} {route.path}": route.summary for route in routes},
            "version": __version__,
        }

    @app.get("/health", summary="Whether the server can answer", responses={503: {"model": bodies.Health}})
    async def healthy(response: Response) -> bodies.Health:
        response.status_code = 200 if health.status == "ready" else 503
        health.alarm = prm.alarm
        return health

    @app.get("/v1/models", summary="The model that is served")
    async def models() -> dict[str, Any]:
        own = {"id": model, "object": "model", "created": since, "owned_by": "prmcal"}
        return {"object": "list", "data": [own]}

    @app.post("/pooling", summary="Score the steps of trajectories, as vLLM does")
    async def pool(body: forms.PoolingBody, request: Request) -> dict[str, Any]:
        """Return the calibrated rewards of every step, and beside them the PRM's own and those of the bare question.

        Requests that wait together are scored together.
        """
        bodies.check_unknown(body.model_extra or {}, forms.FOLLOWED_BY_POOLING)
        asked = form.read(body)
        if len(asked) > limits.rows:
            raise PrmcalError(
                f"input: a request has at most {limits.rows} trajectories. Got {len(asked)}. Send several requests."
            )
        for question, _ in asked:
            limits.check(question)
        found = await _unless_gone(request, prm.ascore_many(asked))
        logits = body.use_activation is False
        rows = [
            {**form.row(place, each, logits), "samples": prm.samples_of(each, body.target, body.level)}
            for place, each in enumerate(found)
        ]
        tokens = sum(each.tokens for each in found)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {**bodies.head(model), "object": "list", "data": rows, "usage": usage}

    @app.post("/v1/chat/completions", summary="Answer a question, as OpenAI does")
    async def complete(body: forms.ChatBody, request: Request) -> Any:
        """Answer a question with as many samples as it needs, or say that the answer is not known (`refusal`)."""
        question = body.question(prm.defaults.sampling)
        if (body.max_samples or 0) > limits.samples:
            raise PrmcalError(
                f"max_samples: the limit of this server is {limits.samples}. Got {body.max_samples}."
            )
        await readable(question)
        answering = forms.Answering(model, await asyncio.to_thread(prm.prompt_tokens, question))
        asked = {"reference": body.reference, **body.settings()}
        if not body.stream:
            return answering.reply(await _unless_gone(request, prm.asolve(question, **asked)))
        events = prm.astream(question, **asked)
        first = await anext(events)  # A setting that is wrong still has a status of its own.
        if isinstance(first, Solution) and first.error:
            raise PluginFailedError(first.error)
        return StreamingResponse(answering.chunks(first, events), media_type=forms.MEDIA_TYPE)

    return app


_SECONDS_TO_TELL = 5
_BACKLOG = 2048


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address. Port 0 stands for any free port.

    Raises a PrmcalError if the address does not exist or is in use.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends replies without delay only if the socket names its protocol. Each would otherwise take 40 ms longer.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise PrmcalError(
            f"The server cannot listen at {host} port {port}: {error.strerror}. Give another --host or --port."
        ) from error
    return listening


def run(prm: CalibratedPRM, access: Access, limits: bodies.Limits, listening: socket.socket) -> None:
    """Answer requests until a signal ends the server, and then the process with 0.

    The first SIGINT or SIGTERM lets running requests finish for some time and then tells them. The second ends at once.

    Raises a PrmcalError if the models cannot be loaded.
    """
    failures: list[Exception] = []

    def fail(error: Exception) -> None:
        failures.append(error)
        server.should_exit = True

    server = _Server(
        uvicorn.Config(
            create_app(prm, access, limits, fail),
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=math.ceil(limits.grace_seconds),
        )
    )
    asyncio.run(_serve(server, listening, failures))
    raise failures[0]


async def _serve(server: uvicorn.Server, listening: socket.socket, failures: list[Exception]) -> None:
    await server.serve([listening])
    if failures:
        return
    if server.server_state.tasks:
        await asyncio.wait(server.server_state.tasks, timeout=_SECONDS_TO_TELL)
    # A thread with a model may still run. Nothing can stop it, and Python would wait for it.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


class _Server(uvicorn.Server):
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end. uvicorn would send itself the signal again when it is done."""
        self.force_exit = self.should_exit
        self.should_exit = True
