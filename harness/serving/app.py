"""The server from its start to its end: its addresses, the gate before them, and solutions as streams.

A stream has one event on a line, as JSON (``application/x-ndjson``). The field ``event`` of each says what it is:

    step      a step that was generated, with the rewards of the prefix that it ends
    solution  the last line: the answer and all that belongs to it
    error     the last line if the question failed: ``error`` is a sentence
"""

import asyncio
import json
import math
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI, Response
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from prmcal import __version__
from prmcal.errors import PrmcalError
from prmcal.harness.inference.calibrated_prm import CalibratedPRM, Together
from prmcal.harness.inference.results import PrefixRewards, Solution, Step
from prmcal.harness.serving import bodies
from prmcal.harness.serving.access import Access


class Gate:
    """Refuse requests without access with 403 or 401, and those beyond the limits.

    A large body gets 413 and a slow one 408. If there are too many requests, they get 503, but for those with the
    method GET, so that a busy server still tells its health. A request that is cancelled, because the server ends, gets
    503, or an ``error`` as the last line of its stream.

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
        names = headers.get("host", ""), headers.get("origin"), headers.get("authorization", "")
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
                last = _line("error", {"error": _ENDING}).encode()
                await send({"type": "http.response.body", "body": last})
            else:
                await bodies.refusal(503, _ENDING, close)(scope, receive, send)
        finally:
            self._health.requests -= 1


_ENDING = "The server is ending. Ask again when it is back."
MEDIA_TYPE = "application/x-ndjson"


async def _lines(first: Step | Solution, rest: AsyncIterator[Step | Solution]) -> AsyncIterator[str]:
    """Yield the lines of a stream: the first event, which the caller has waited for, and the others."""
    try:
        event: Step | Solution | None = first
        while event is not None:
            if isinstance(event, Solution) and event.error:
                yield _line("error", {"error": event.error})
            else:
                yield _line("step" if isinstance(event, Step) else "solution", asdict(event))
            event = await anext(rest, None)
    except Exception as error:
        yield _line("error", {"error": bodies.sentence(error)})


def _line(event: str, data: dict[str, Any]) -> str:
    return json.dumps({"event": event, **data}, allow_nan=False) + "\n"


_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": bodies.Problem, "description": description}
    for status, description in (
        (400, "The body is not JSON."),
        (401, "The token is absent or wrong."),
        (403, "The header Host or Origin is foreign."),
        (413, "The body is larger than the limit."),
        (422, "The request is wrong."),
        (502, "A model failed or did not answer."),
        (503, "There are too many requests, or the server is ending."),
    )
}
_STREAM = {
    "description": "The solution. With `stream`, a stream of events: `step` for each step, then `solution` or `error`.",
    "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
}


def create_app(
    prm: CalibratedPRM, access: Access, limits: bodies.Limits, on_failure: Callable[[Exception], None]
) -> FastAPI:
    """Return the application. Its models are loaded when it starts; `on_failure` is called if this fails."""
    scoring: Together[tuple[str, Sequence[str]], PrefixRewards] = Together(prm.score_each, limits.batch)
    health = bodies.Health(status="loading", requests=0, version=__version__)

    async def load() -> None:
        try:
            await asyncio.to_thread(prm.score, "1 + 1", [])
            health.status = "ready"
        except Exception as error:
            health.status, health.error = "failed", bodies.sentence(error)
            on_failure(error)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        loading = asyncio.create_task(load())
        yield
        loading.cancel()

    app = FastAPI(
        title="A calibrated PRM",
        description="Scores prefixes of solutions with the probability that they lead to a right answer, and answers "
        "questions with as many samples as they need.",
        version=__version__,
        # The interactive pages would load scripts from other servers.
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.add_middleware(Gate, access=access, limits=limits, health=health)
    bodies.add_handlers(app)

    async def checked(question: str) -> None:
        """Score a bare question, so that one that no model can read is refused as such."""
        wrong = _wrong(bodies.ScoreRow(question=question), limits)
        if wrong:
            raise PrmcalError(wrong)
        (bare,) = await scoring.ask([(question, ())])
        if isinstance(bare, PrmcalError):
            raise bare
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

    @app.post("/score", summary="Score all prefixes of trajectories", responses=_PROBLEMS)
    async def score(body: bodies.ScoreBody) -> bodies.ScoreReply:
        """Return the PRM's rewards and the calibrated ones, for the bare question and after every step.

        Requests that wait together are scored together. A row that is wrong has an error; other rows are not affected.
        """
        if len(body.rows) > limits.rows:
            raise PrmcalError(
                f"rows: a request has at most {limits.rows} trajectories. Got {len(body.rows)}. Send several requests."
            )
        replies = [bodies.ScoredRow(error=_wrong(row, limits)) for row in body.rows]
        right = [(reply, row) for reply, row in zip(replies, body.rows, strict=True) if not reply.error]
        scored = await scoring.ask([(row.question, row.steps) for _, row in right])
        for (reply, _), each in zip(right, scored, strict=True):
            if isinstance(each, PrmcalError):
                reply.error = str(each)
            else:
                reply.rewards = each
        return bodies.ScoreReply(rows=replies)

    @app.post("/samples", summary="Count the samples that a question needs", responses=_PROBLEMS)
    async def samples(body: bodies.SamplesBody) -> bodies.SamplesReply:
        """Return N_IAS: so many samples hold a right one with the target probability."""
        await checked(body.question)
        found = await asyncio.to_thread(prm.samples, body.question, target=body.target, level=body.level)
        return bodies.SamplesReply(samples=found)

    @app.post(
        "/solve", summary="Answer a question", response_model=Solution, responses={**_PROBLEMS, 200: _STREAM}
    )
    async def solve(body: bodies.SolveBody) -> Any:
        """Answer a question with as many samples as it needs, or say that the answer is not known (`abstained`)."""
        if (body.max_samples or 0) > limits.samples:
            raise PrmcalError(
                f"max_samples: the limit of this server is {limits.samples}. Got {body.max_samples}."
            )
        await checked(body.question)
        if not body.stream:
            (solution,) = await asyncio.to_thread(
                prm.solve_many, [body.question], [body.reference], **body.settings()
            )
            return bodies.refusal(502, solution.error) if solution.error else solution
        events = prm.astream(body.question, reference=body.reference, **body.settings())
        first = await anext(events)  # A setting that is wrong still has a status of its own.
        return StreamingResponse(_lines(first, events), media_type=MEDIA_TYPE)

    return app


def _wrong(row: bodies.ScoreRow | bodies.Problem, limits: bodies.Limits) -> str:
    """Return what is wrong with a row; nothing if it can be scored."""
    if isinstance(row, bodies.Problem):
        return row.error
    if not row.question.strip():
        return "question: it is empty. Give the text of a question."
    if len(row.question) > limits.characters:
        return f"question: it has {len(row.question):,} characters. The limit is {limits.characters:,}."
    return ""


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
