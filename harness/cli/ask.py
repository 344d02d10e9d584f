"""Commands that use a calibrated PRM: ``ask`` answers questions, and ``serve`` scores for other programs."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prmcal.db.text.formats import amount, counted, interval, number
from prmcal.errors import PrmcalError
from prmcal.harness.cli import options
from prmcal.harness.cli.options import argument, option
from prmcal.harness.serving.access import Access, hosts_of, is_local, token_for
from prmcal.harness.terminal import cut, terminal_width, text_table, wrapped
from prmcal.registry.messages import reading
from prmcal.steps import split_steps

if TYPE_CHECKING:
    from prmcal.harness.inference.calibrated_prm import CalibratedPRM
    from prmcal.harness.inference.results import Solution, Trajectory

_EXAMPLE = [
    {"role": "user", "content": "Begin at 67, keeping two digits. a) subtract 4, b) add 1."},
    {"role": "assistant", "content": "a) 67-4=63"},
]
_REACHABLE = (
    "Other machines can reach this server. Whoever has the token can use its models, and it travels unencrypted: put a "
    "proxy with TLS before the server, or leave out --host."
)


def ask(
    run: options.RunArgument,
    question: Annotated[
        str | None, argument("QUESTION", "The question. Without it, or with -, standard input is read.")
    ] = None,
    cell: options.CellOption = None,
    llm: options.LLMOption = None,
    prm: options.PRMOption = None,
    calibrator: options.CalibratorOption = None,
    max_samples: Annotated[int | None, option("N", "The largest number of samples of a question.", min=1)] = None,
    seed: Annotated[int, option("SEED", "Another seed gives other samples.", min=0)] = 0,
    output_format: Annotated[str, option("FORMAT", "text or json.", "--format")] = "text",
) -> None:
    """Answer a new question with a calibrated PRM.

    It draws solutions until the strategy needs no more, and prints the answer with the probability that it is right.
    """
    options.one_of("--format", output_format, ("text", "json"))
    loaded = _loaded(run, cell, llm, prm, calibrator)
    text = str(question)
    if question in (None, "-"):
        with reading("Standard input cannot be read", kind=PrmcalError):
            text = sys.stdin.read()
    solution = loaded.answer(text, max_samples=max_samples, seed=seed)
    if output_format == "json":
        content = {"cell": loaded.name, "chosen_by": loaded.chosen_by, **asdict(solution)}
        typer.echo(json.dumps(content, indent=1, ensure_ascii=False))
    else:
        typer.echo(_rendered(loaded, solution))


def _loaded(run: Path, cell: str | None, llm: str | None, prm: str | None, calibrator: str | None) -> CalibratedPRM:
    # Without it, threads of torch that wait for work spin, which makes a busy machine several times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    from prmcal.harness.inference.loading import load

    return load(run, cell, llm=llm, prm=prm, calibrator=calibrator)


def _rendered(prm: CalibratedPRM, solution: Solution) -> str:
    """Return the answer, then its probability, its cost and its steps."""
    sure = "There is no answer to judge."
    if solution.probability is not None:
        value = _banded(solution.probability, solution.low, solution.high)
        sure = f"{value} that this is right, by the last step before the answer"
    cost = f"{counted(solution.samples, 'sample')}, {amount(solution.generated_tokens)} generated tokens"
    facts = {
        "Probability": sure,
        "Spent": f"{cost}, {solution.seconds:.1f} s",
        "Why": solution.reason,
        "Models": f"{prm.scorer}, for {prm.llm.name}. {prm.chosen_by}".rstrip(),
    }
    lines = ["No answer." if solution.answer is None else cut(solution.answer, terminal_width()), ""]
    lines += [f"{name:13}{wrapped(text, hanging=' ' * 13)}" for name, text in facts.items()]
    return "\n".join([*lines, "", _steps(solution.trajectories[solution.chosen])])


def _banded(value: float, low: float | None, high: float | None) -> str:
    return number(value) if low is None or high is None else f"{number(value)} {interval(low, high)}"


def _steps(trajectory: Trajectory) -> str:
    """Return the table of the steps with their rewards."""
    width, rewards, rows = min(terminal_width(), 100), trajectory.rewards, []
    texts = "(the bare question)", *split_steps(trajectory.text)
    columns = texts, rewards.uncalibrated, rewards.point, rewards.quantiles, rewards.terminal
    several = len(rewards.levels) > 1
    for step, raw, point, quantiles, terminal in zip(*columns, strict=True):
        calibrated = "has the answer" if terminal else "too long for the PRM"
        if not terminal and point is not None and quantiles is not None:
            calibrated = _banded(point, *((quantiles[0], quantiles[-1]) if several else (None, None)))
        rows.append((cut(step, width - 40), "" if raw is None else number(raw), calibrated))
    title = f"Calibrated [{rewards.levels[0]:g}, {rewards.levels[-1]:g}]" if several else "Calibrated"
    return text_table(("Step", "Reward", title), rows, width)


def serve(
    run: options.RunArgument,
    cell: options.CellOption = None,
    llm: options.LLMOption = None,
    prm: options.PRMOption = None,
    calibrator: options.CalibratorOption = None,
    host: Annotated[
        str, option("HOST", "The address that the server listens at. With 0.0.0.0, other machines can reach it.")
    ] = "127.0.0.1",
    port: Annotated[int, option("PORT", "The port; 0 for any free one.", min=0, max=65535)] = 8000,
    max_body: Annotated[int, option("BYTES", "The largest body of a request; a larger one gets 413.", min=1)] = 2**20,
    max_concurrent: Annotated[int, option("N", "Requests that are answered at one time; others get 503.", min=1)] = 64,
    allowed_hosts: options.AllowedHostsOption = None,
) -> None:
    """Serve a calibrated PRM over HTTP.

    POST /pooling scores the steps of trajectories in vLLM's form of a PRM. GET /openapi.json describes it.

    Only this machine can reach the server, unless --host says otherwise. Others must send a token with requests that
    compute. The token is in the environment variable PRMCAL_SERVER_TOKEN. Without this variable, the server makes one
    and prints it.
    """
    if any(importlib.util.find_spec(name) is None for name in ("fastapi", "uvicorn")):
        raise PrmcalError(
            "The server needs FastAPI and uvicorn. Install them in a clone of prmcal: pip install '.[serve]'"
        )
    from prmcal.harness.serving.app import bound_socket, create_app
    from prmcal.harness.serving.app import run as answer_requests

    listening = bound_socket(host, port)
    access = Access(tuple(hosts_of(host, allowed_hosts or ())), token_for(host))
    loaded = _loaded(run, cell, llm, prm, calibrator)
    app = create_app(loaded, access, max_body, max_concurrent)
    address = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"
    authorization = f" -H 'authorization: Bearer {access.token}'" if access.token else ""
    body = shlex.quote(json.dumps({"messages": _EXAMPLE}))
    print(f"Serving {loaded.scorer}, for {loaded.llm.name}, at {address}. Ctrl-C ends it. {loaded.chosen_by}".rstrip())
    print(f"Try it: curl {address}/pooling{authorization} -H 'content-type: application/json' -d {body}", flush=True)
    if not is_local(host):
        print(_REACHABLE, flush=True)
    answer_requests(app, listening)
