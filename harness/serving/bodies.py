"""Requests and replies: what they hold, how large they may be, and errors as replies.

Every error is a JSON object ``{"error": "a sentence"}`` with a status that fits. The OpenAPI document is made from the
bodies.
"""

from __future__ import annotations

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
from prmcal.harness.inference.results import PrefixRewards

_QUESTION = "Begin at 67, keeping two digits. a) subtract 4, b) add 1, c) subtract 12."
_STEPS = ["a) 67-4=63", "b) 63+1=64"]

Probability = Annotated[float, Field(gt=0.0, lt=1.0, allow_inf_nan=False)]
Question = Annotated[str, Field(description="The text of the question.", examples=[_QUESTION])]
Target = Annotated[Probability, Field(description="The target probability C.")]
Level = Annotated[
    Probability,
    Field(description="The quantile level beta of the calibrated reward that decides the number of samples."),
]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Problem(BaseModel):
    """Why a request was refused or failed."""

    error: str = Field(description="What was wrong and what to do, as a sentence.")


class Invalid(BaseModel):
    """A row of a request that is not of the right form. The other rows are not affected."""

    error: str


class ScoreRow(_Body):
    """A trajectory."""

    question: Question
    steps: list[str] = Field(
        default=[],
        description="The steps x_1, ..., x_T so far. Without steps, only the bare question is scored.",
        examples=[_STEPS],
    )


def _row(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    try:
        return validate(value)
    except ValidationError as error:
        return Invalid(error=in_words(error.errors()))


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


class SolveBody(_Body):
    """A question to answer. What is left out is as in the grid of the run."""

    question: Question
    target: Target | None = None
    level: Level | None = None
    max_samples: int | None = Field(default=None, ge=1, le=4096, description="The largest number of samples.")
    abstain_below: Probability | None = Field(
        default=None,
        description="Do not answer if the probability that the answer is right is below this bound.",
    )
    strategy: str | None = Field(
        default=None,
        description="The strategy, by its name in `prmcal list strategy`.",
        examples=["best-of-n + IAS"],
    )
    seed: int = Field(default=0, ge=0, lt=2**63, description="The same seed gives the same samples.")
    stream: bool = Field(
        default=False,
        description="Whether the reply is a stream of events, each a JSON object on its own line: steps as they are "
        "generated, and then the solution or an error.",
    )

    def options(self) -> dict[str, Any]:
        """Return the keyword arguments of ``solve``, without the question."""
        return self.model_dump(exclude={"question", "stream"})


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
    """Whether the server can answer."""

    status: str = Field(description="`ready`, `loading` or `failed`.", examples=["ready"])
    requests: int = Field(
        description="How many requests are answered now, apart from those with the method GET."
    )
    version: str = Field(description="The version of prmcal.")
    error: str = Field(default="", description="Why the models could not be loaded; empty if nothing failed.")


class Served(BaseModel):
    """What the server serves."""

    cell: str = Field(description="The cell or the folder whose calibrator is used.")
    chosen_by: str = Field(description="The rule by which the cell was chosen; empty if it was asked for.")
    llm: str = Field(description="The LLM; empty if the server only scores.")
    prm: str
    calibrator: str
    levels: list[float] = Field(description="The levels of the calibrated rewards, ascending.")
    limits: dict[str, int | float] = Field(description="The limits on requests.")
    addresses: dict[str, str] = Field(description="The addresses of this server, and what each does.")
    version: str = Field(description="The version of prmcal.")


def in_words(errors: Any) -> str:
    """Return the first of pydantic's errors as a sentence, and how many others there are."""
    first, *others = errors
    place = ".".join(str(each) for each in first["loc"] if each != "body")
    value = repr(first.get("input"))
    shown = value if len(value) <= 80 else f"{value[:77]}..."
    text = f"{place or 'The body'}: {first['msg']}. Got {shown}."
    return f"{text} There are {len(others)} more errors." if others else text


@dataclass(frozen=True)
class Limits:
    """The limits of a server. Requests beyond them are refused before a model sees them.

    Attributes
    ----------
    body : int
        Bytes of the body of a request.
    concurrent : int
        Requests that are answered at one time.
    rows : int
        Trajectories of one request.
    characters : int
        Characters of a question.
    batch : int
        Trajectories that are scored together, from all requests that wait.
    body_seconds : float
        Within this time the body of a request must have arrived.
    grace_seconds : float
        Time for running requests after the signal that ends the server.

    Raises
    ------
    PrmcalError
        If a limit is not positive.
    """

    body: int = 2**20
    concurrent: int = 64
    rows: int = 256
    characters: int = 20_000
    batch: int = 64
    body_seconds: float = 30.0
    grace_seconds: float = 20.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise PrmcalError(f"The limit '{name}' must be above 0. Got {value}.")


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
