"""The addresses of the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

from fastapi import FastAPI, Response
from fastapi.responses import StreamingResponse

from prmcal import __version__
from prmcal.errors import PrmcalError
from prmcal.harness.inference.basis.results import PrefixRewards, Solution
from prmcal.harness.inference.calibrated_prm import CalibratedPRM
from prmcal.harness.inference.waiting import Together
from prmcal.harness.serving.bodies import (
    Health,
    Invalid,
    Problem,
    SamplesBody,
    SamplesReply,
    ScoreBody,
    ScoredRow,
    ScoreReply,
    ScoreRow,
    Served,
    SolveBody,
)
from prmcal.harness.serving.ending import Ending, EndingError
from prmcal.harness.serving.gate import Gate, Inside
from prmcal.harness.serving.limits import Limits
from prmcal.harness.serving.refusals import ENDING, add_handlers, refusal, sentence
from prmcal.harness.serving.streaming import MEDIA_TYPE, lines

__all__ = ["create_app"]

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
    async def told(_: Any, error: Exception) -> Response:
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
