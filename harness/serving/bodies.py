"""Requests and replies: what they hold, how large they may be, and errors as replies.

Every error is a JSON object ``{"error": "a sentence"}`` with a status that fits. The OpenAPI document is made from the
bodies.
"""

import logging
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from starlette.exceptions import HTTPException

from prmcal.errors import PluginFailedError, PrmcalError
from prmcal.harness.inference.asking import Level, Settings, Target, in_words
from prmcal.harness.inference.results import PrefixRewards

_QUESTION = "Begin at 67, keeping two digits. a) subtract 4, b) add 1, c) subtract 12."
_STEPS = ["a) 67-4=63", "b) 63+1=64"]

Question = Annotated[str, Field(description="The text of the question.", examples=[_QUESTION])]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Problem(BaseModel):
    """The reason why a request, or a row of one, was refused or failed."""

    error: str = Field(description="What was wrong and what to do, as a sentence.")


class ScoreRow(_Body):
    """A trajectory."""

    question: Question
    steps: list[str] = Field(
        default=[],
        description="The steps x_1, ..., x_T so far. Without steps, only the bare question is scored.",
        examples=[_STEPS],
    )


def _row(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    """Return a row, or what is wrong with it. The other rows are not affected."""
    try:
        return validate(value)
    except ValidationError as error:
        return Problem(error=in_words(error.errors()))


class ScoreBody(_Body):
    """Trajectories to score."""

    rows: list[Annotated[ScoreRow, WrapValidator(_row)]] = Field(
        description="At least one trajectory.", min_length=1
    )


class ScoredRow(BaseModel):
    """The rewards of a trajectory, or why it has none."""

    rewards: PrefixRewards | None = None
    error: str = Field(
        default="", description="Why it was not scored; empty if it was. Other rows are not affected."
    )


class ScoreReply(BaseModel):
    """A row for each trajectory, in the order of the request."""

    rows: list[ScoredRow]


class SolveBody(Settings):
    """A question to answer. What is left out is as in the grid of the run."""

    question: Question
    reference: str | None = Field(
        default=None,
        description="The right answer, if it is known: for the alarm, and for `correct` in the reply.",
    )
    max_samples: int | None = Field(default=None, ge=1, description="The largest number of samples.")
    stream: bool = Field(
        default=False,
        description="Whether the reply is a stream of events, each a JSON object on its own line: steps as they are "
        "generated, and then the solution or an error.",
    )

    def settings(self) -> dict[str, Any]:
        """Return the settings that are given."""
        return self.model_dump(exclude={"question", "reference", "stream"}, exclude_unset=True)


class SamplesBody(_Body):
    """A question for which samples are counted."""

    question: Question
    target: Target = 0.99
    level: Level | None = None


class SamplesReply(BaseModel):
    """The number of samples that hold a right one with the target probability."""

    samples: int = Field(
        description="N_IAS(p, C), where p is the calibrated reward of the bare question.", ge=1
    )


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


UNEXPECTED = "The server failed. Its output has the details."

_log = logging.getLogger(__name__)


def refusal(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return a reply with an error."""
    return JSONResponse({"error": message}, status, headers)


def sentence(error: Exception) -> str:
    """Return the message of an error. The message of an unexpected one is for the server's output only."""
    if isinstance(error, PrmcalError):
        return str(error)
    _log.error("A request failed", exc_info=error)
    return UNEXPECTED


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
        return refusal(502 if isinstance(error, PluginFailedError) else 422, str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return refusal(400, _MESSAGES[400])
        if isinstance(first.get("input"), bytes):  # A page of another server could send such a body unasked.
            return refusal(415, _MESSAGES[415])
        return refusal(422, in_words(error.errors()))

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> JSONResponse:
        message = _MESSAGES.get(error.status_code, str(error.detail))
        return refusal(error.status_code, message, dict(error.headers or {}))

    @app.exception_handler(Exception)
    async def unexpected(_: Request, error: Exception) -> JSONResponse:
        return refusal(500, UNEXPECTED)
