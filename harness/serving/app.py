"""The addresses of the server, the gate before them, and solutions as streams.

A stream has one event on a line, as JSON (``application/x-ndjson``). The field ``event`` of each says what it is:

    step      a step that was generated, with the rewards of the prefix that it ends
    solution  the last line: the answer and all that belongs to it
    error     the last line if the question failed: ``error`` is a sentence
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from fastapi import FastAPI, Response
from fastapi.responses import StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from prmcal import __version__
from prmcal.errors import PrmcalError
from prmcal.harness.inference.calibrated_prm import CalibratedPRM, Together
from prmcal.harness.inference.results import PrefixRewards, Solution, Step
from prmcal.harness.serving.bodies import (
    ENDING,
    Health,
    Invalid,
    Limits,
    Problem,
    SamplesBody,
    SamplesReply,
    ScoreBody,
    ScoredRow,
    ScoreReply,
    ScoreRow,
    Served,
    SolveBody,
    add_handlers,
    refusal,
    sentence,
)

_T = TypeVar("_T")


class EndingError(Exception):
    """The server ends before the work is done."""


class Ending:
    """The end of the server. Requests wait for their work through it, so that all of them get a reply."""

    def __init__(self) -> None:
        self._begun = asyncio.Event()

    @property
    def begun(self) -> bool:
        """True when it has begun."""
        return self._begun.is_set()

    def begin(self) -> None:
        """End all work that is waited for, now and later."""
        self._begun.set()

    async def before(self, work: Awaitable[_T]) -> _T:
        """Return the result of some work.

        Raises
        ------
        EndingError
            If the server ends before. The work is cancelled.
        """
        task, end = asyncio.ensure_future(work), asyncio.ensure_future(self._begun.wait())
        try:
            await asyncio.wait({task, end}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise EndingError
        finally:  # Also if the client went away.
            end.cancel()
            task.cancel()


_RETRY_SECONDS = 1


@dataclass
class Inside:
    """The number of requests that are answered now."""

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


MEDIA_TYPE = "application/x-ndjson"


async def lines(
    first: Step | Solution, rest: AsyncIterator[Step | Solution], ending: Ending
) -> AsyncIterator[str]:
    """Yield the lines of a stream.

    Parameters
    ----------
    first : Step or Solution
        The first event, which the caller has waited for.
    rest : async iterator
        The other events. It is cancelled if the client goes away, or if the server ends.
    ending : Ending
    """
    try:
        event: Step | Solution | None = first
        while event is not None:
            yield _line(event)
            event = await ending.before(anext(rest, None))
    except EndingError:
        yield _encoded({"event": "error", "error": ENDING})
    except Exception as error:
        yield _encoded({"event": "error", "error": sentence(error)})


def _line(event: Step | Solution) -> str:
    if isinstance(event, Step):
        return _encoded({"event": "step", **asdict(event)})
    if event.error:
        return _encoded({"event": "error", "error": event.error})
    return _encoded({"event": "solution", **asdict(event)})


def _encoded(data: dict[str, Any]) -> str:
    return json.dumps(data, allow_nan=False) + "\n"


Item = tuple[str, Sequence[str]]
"""A question and the steps of a trajectory."""

_ADDRESSES = {
    "POST /score": "rewards of all prefixes of trajectories",
    "POST /samples": "how many samples a question needs",
    "POST /solve": "the answer to a question, at once or step by step",
    "GET /health": "whether the server can answer",
    "GET /openapi.json": "the description of all addresses",
}
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The body is not JSON."},
    413: {"model": Problem, "description": "The body is larger than the limit."},
    422: {"model": Problem, "description": "The request is wrong."},
    502: {"model": Problem, "description": "A model failed or did not answer."},
    503: {"model": Problem, "description": "There are too many requests, or the server is ending."},
}
_STREAM = {
    "description": "The solution. With `stream`, a stream of events: `step` for each step, then `solution` or `error`.",
    "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
}


def create_app(
    prm: CalibratedPRM, limits: Limits, ending: Ending, on_failure: Callable[[Exception], None] | None = None
) -> FastAPI:
    """Return the application. Its models are loaded when it starts.

    Parameters
    ----------
    prm : CalibratedPRM
    limits : Limits
    ending : Ending
        It ends requests that still run when the time for them is over.
    on_failure : callable, optional
        It is called if the models cannot be loaded.
    """
    scoring: Together[Item, PrefixRewards] = Together(prm.score_each, limits.batch)
    health, inside = Health(status="loading", requests=0, version=__version__), Inside()

    async def load() -> None:
        try:
            await asyncio.to_thread(prm.score, "1 + 1", [])
            health.status = "ready"
        except Exception as error:
            health.status, health.error = "failed", sentence(error)
            if on_failure is not None:
                on_failure(error)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        loading = asyncio.create_task(load())
        yield
        if not loading.done():
            ending.begin()

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
    app.add_middleware(Gate, limits=limits, inside=inside)
    add_handlers(app)

    @app.exception_handler(EndingError)
    async def ending_reply(_: Any, error: Exception) -> Response:
        return refusal(503, ENDING)

    async def checked(question: str) -> None:
        """Score a bare question, so that one that no model can read is refused as such."""
        wrong = _wrong_question(question, limits)
        if wrong:
            raise PrmcalError(wrong)
        (bare,) = await ending.before(scoring.ask([(question, ())]))
        if isinstance(bare, PrmcalError):
            raise bare
        if bare.point[0] is None:
            raise PrmcalError(f"question: it is too long for the PRM. It has {len(question):,} characters.")

    @app.get("/", summary="What is served")
    async def served() -> Served:
        return Served(
            cell=prm.name,
            llm=prm.llm,
            prm=prm.prm,
            calibrator=prm.calibrator,
            chosen_by=prm.chosen_by,
            levels=list(prm.levels),
            limits=asdict(limits),
            addresses=_ADDRESSES,
            version=__version__,
        )

    @app.get("/health", summary="Whether the server can answer", responses={503: {"model": Health}})
    async def healthy(response: Response) -> Health:
        response.status_code = 200 if health.status == "ready" else 503
        return health.model_copy(update={"requests": inside.requests})

    @app.post("/score", summary="Score all prefixes of trajectories", responses=_PROBLEMS)
    async def score(body: ScoreBody) -> ScoreReply:
        """Return the PRM's rewards and the calibrated ones, for the bare question and after every step.

        Requests that wait together are scored together. A row that is wrong has an error; other rows are not affected.
        """
        if len(body.rows) > limits.rows:
            raise PrmcalError(
                f"rows: a request has at most {limits.rows} trajectories. Got {len(body.rows)}. Send several requests."
            )
        replies = [ScoredRow(error=_wrong(row, limits)) for row in body.rows]
        right = [(reply, row) for reply, row in zip(replies, body.rows, strict=True) if not reply.error]
        scored = await ending.before(scoring.ask([(row.question, row.steps) for _, row in right]))
        for (reply, _), each in zip(right, scored, strict=True):
            if isinstance(each, PrmcalError):
                reply.error = str(each)
            else:
                reply.rewards = each
        return ScoreReply(rows=replies)

    @app.post("/samples", summary="Count the samples that a question needs", responses=_PROBLEMS)
    async def samples(body: SamplesBody) -> SamplesReply:
        """Return N_IAS: so many samples hold a right one with the target probability."""
        await checked(body.question)
        work = asyncio.to_thread(prm.samples, body.question, target=body.target, level=body.level)
        return SamplesReply(samples=await ending.before(work))

    @app.post(
        "/solve", summary="Answer a question", response_model=Solution, responses={**_PROBLEMS, 200: _STREAM}
    )
    async def solve(body: SolveBody) -> Any:
        """Answer a question with as many samples as it needs, or say that the answer is not known (`abstained`)."""
        await checked(body.question)
        if not body.stream:
            work = asyncio.to_thread(prm.solve_many, [body.question], **body.options())
            (solution,) = await ending.before(work)
            return refusal(502, solution.error) if solution.error else solution
        events = prm.astream(body.question, **body.options())
        first = await ending.before(anext(events))  # An option that is wrong still has a status of its own.
        return StreamingResponse(lines(first, events, ending), media_type=MEDIA_TYPE)

    return app


def _wrong(row: ScoreRow | Invalid, limits: Limits) -> str:
    """Return what is wrong with a row; nothing if it can be scored."""
    if isinstance(row, Invalid):
        return row.error
    return _wrong_question(row.question, limits)


def _wrong_question(question: str, limits: Limits) -> str:
    if not question.strip():
        return "question: it is empty. Give the text of a question."
    if len(question) > limits.characters:
        return f"question: it has {len(question):,} characters. The limit is {limits.characters:,}."
    return ""
