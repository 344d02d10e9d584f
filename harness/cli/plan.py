"""``prmcal plan``: the jobs of a grid and what they cost; ``prmcal status``: how far a run is.

The status needs the run's folder only, so it works at any time.
"""

import json
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from prmcal.db.run_folder import LOG_FILE
from prmcal.db.text.formats import counted, duration, time_left
from prmcal.harness.cli import options
from prmcal.harness.cli.app import ExitCode
from prmcal.harness.cli.options import option
from prmcal.harness.cli.run import lines_on_failures
from prmcal.harness.execution.ending import FailureGroup, failed_cells, grouped, read_failures
from prmcal.harness.execution.machine import default_workers, visible_gpus
from prmcal.harness.jobs.parameters import (
    ALL_GPUS,
    FollowUpParameters,
    GeneratingParameters,
    GradingParameters,
    ScoringParameters,
)
from prmcal.harness.planning import gpu_hours
from prmcal.harness.planning.costs import CostModel, remaining_work, seconds_left
from prmcal.harness.planning.gpu_hours import ModelCost, model_costs
from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.planning.plan import Only, Plan
from prmcal.harness.planning.planner import build_plan
from prmcal.harness.planning.preflight import joined_problems, pair_problems, plan_problems
from prmcal.harness.planning.saved import existing_plan
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import ArtifactRef, Store
from prmcal.harness.terminal import text_table, wrapped
from prmcal.registry.grading.rules import library_changes


def plan(
    grid: options.GridArgument,
    out: Annotated[Path | None, option("DIR", "An output folder: its finished work is counted as done.")] = None,
    only: options.OnlyOption = None,
    limit: options.LimitOption = None,
    plugin: options.PluginOption = None,
) -> None:
    """Show the jobs of a grid and what they cost.

    The costs are samples, tokens and time. What would make cells fail is shown too. No model is loaded and
    nothing is downloaded. Each server gets one request.
    """
    spec = options.read(grid, limit, plugin)
    typer.echo(render_plan(spec, out, options.names_by_kind(only)))


def render_plan(grid: GridSpec, directory: Path | None, only: Only | None = None) -> str:
    """Return the jobs of a grid by kind, their total, and the estimated time.

    Stand-ins take the place of models and data sets that are not on this machine. The artifacts of the folder count as
    done, and their costs are the basis of the estimate of the time.

    Raises a RunError if a run of the grid would refuse the folder.
    """
    if directory is not None:
        RunFolder(directory).claim(grid.name)
    whole = build_plan(grid, stand_ins=True)
    asked = whole.cells_with(only or {})
    impossible = [*pair_problems(whole)]
    failing = [[cell for cell in asked if problem.ends(cell)] for problem in impossible]
    in_vain = {cell.cell_id for cells in failing for cell in cells}
    plan = whole.part([cell for cell in asked if cell.cell_id not in in_vain])
    refs = (shard.ref for shard in whole.shards())
    done = {} if directory is None else Store(directory).manifests(refs, verify=False)
    work = remaining_work(plan, done, CostModel(whole, done))
    models = model_costs(plan, done)
    workers = default_workers()
    rows = [
        [
            each.kind.replace("_", " "),
            str(each.jobs),
            str(each.shards),
            str(each.reused),
            f"{each.samples:,}" if each.samples else "",
            f"{each.tokens:,}" if each.tokens else "",
            time_left(each.shards - each.reused, each.seconds),
        ]
        for each in work
    ]
    head = ["jobs", "count", "shards", "reused", "samples left", "tokens left", "worker time left"]
    known = [each.seconds for each in work if each.seconds is not None]
    total = (
        f"{len(plan.jobs)} jobs with {sum(each.shards for each in work)} shards, of which "
        f"{sum(each.reused for each in work)} are finished; {len(plan.cells)} cells"
        f"{f' of the {len(whole.cells)} of the grid' if len(plan.cells) < len(whole.cells) else ''}."
    )
    if done:
        total += f"\n{_left_in_words(plan, done)}"
    if len(known) == len(work):
        total += f"\nAbout {duration(sum(known) / workers)} with {workers} workers, estimated from finished shards."
    elif not models:
        total += "\nThe time is not known yet: it is estimated from finished shards (--out DIR)."
    parts = [text_table(head, rows), wrapped(total)]
    if models and len(known) < len(work):
        parts += [_models(models), wrapped(_wall_time(plan, models)), wrapped(gpu_hours.EXPLANATION)]
    if plan.repeated:
        parts.append(
            wrapped(f"{counted(plan.repeated, 'question')} with a text that occurs before. It is sampled once.")
        )
    if plan.absent:
        absent = f"Not on this machine: {', '.join(plan.absent)}. The plan includes them"
        parts.append(wrapped(f"{absent}; `prmcal doctor GRID` says what to do."))
    parts += [
        wrapped(f"{problem} Not counted above, as it would fail: {counted(len(cells), 'cell')}.", hanging="  ")
        for problem, cells in zip(impossible, failing, strict=True)
        if cells
    ]
    parts += [wrapped(sentence, hanging="  ") for sentence in joined_problems(plan_problems(grid, plan))]
    return "\n\n".join(parts)


def _left_in_words(plan: Plan, done: Collection[ArtifactRef]) -> str:
    """Say how many shards are sampled, scored and graded, in which users see what an edit of a grid costs."""
    left = [shard.parameters for shard in plan.shards() if shard.ref not in done]
    sampled = [each for each in left if isinstance(each, GeneratingParameters)]
    missing = [each for each in sampled if isinstance(each, FollowUpParameters) and each.answers is not None]
    scored = sum(isinstance(each, ScoringParameters) for each in left)
    graded = sum(isinstance(each, GradingParameters) for each in left)
    text = f"Left: {counted(len(sampled) - len(missing), 'shard')} to sample, {scored} to score, {graded} to grade."
    if missing:
        text += f" {len(missing)} more sample only follow-ups that are missing where answers are read elsewhere."
    return text


def _wall_time(plan: Plan, models: Sequence[ModelCost]) -> str:
    """Say how long a run takes on the GPUs of this machine, or on as many as its largest model needs."""
    needed = [shard.gpus for shard in plan.shards() if shard.gpus < ALL_GPUS]
    gpus = max(1, len(visible_gpus()), *needed)
    seconds = 3600 * sum(each.gpu_hours for each in models) / gpus
    return f"On {counted(gpus, 'GPU')} the run takes at least {duration(seconds)}, if its models take the hours above."


def _models(models: Sequence[ModelCost]) -> str:
    rows = [[each.name, f"{each.billions:g}", f"{each.tokens / 1e6:,.0f}", f"{each.gpu_hours:,.1f}"] for each in models]
    tokens, hours = sum(each.tokens for each in models), sum(each.gpu_hours for each in models)
    rows.append(["all", "", f"{tokens / 1e6:,.0f}", f"{hours:,.1f}"])
    return text_table(["model", "10^9 parameters", "10^6 tokens", "GPU-hours"], rows)


_ADVICE = {
    "interrupted": "To continue, run the same command again. Finished work is kept.",
    "partial": "The part that was asked for is finished. For the rest, leave out --only.",
}


def status(
    directory: options.RunArgument,
    output_format: Annotated[str, option("FORMAT", "table or json.", "--format")] = "table",
) -> None:
    """Show the progress of a run, the time left, and why cells failed.

    It also works during the run.
    """
    options.one_of("--format", output_format, ("table", "json"))
    found, failures = read_status(directory)
    typer.echo(json.dumps(found, indent=1) if output_format == "json" else _text(found, failures))
    raise typer.Exit(ExitCode.FAILED_CELLS if failures else ExitCode.DONE)


def read_status(directory: Path) -> tuple[dict[str, Any], tuple[FailureGroup, ...]]:
    """Return the state of the run in a folder as JSON data, whose keys are stable, and why cells failed.

    The keys are grid, directory, state (running; done; failed: it ended, but cells failed; partial: what it was asked
    for is done; or interrupted), started_at (UTC), running_since (UTC, or null), workers, seconds_left (or null),
    log; shards (total, done, failed, left); cells (total, done, failed, pending); jobs (a list with kind, jobs,
    shards, done, worker_seconds_left); failures (a list with reason, cause, cells, advice); graders (a list of texts).

    Raises a RunError if no grid was run in the folder.
    """
    folder = RunFolder(directory)
    record = folder.record()
    plan = existing_plan(folder)
    done = Store(directory).manifests((shard.ref for shard in plan.shards()), verify=False)
    cost = CostModel(plan, done)
    failures = read_failures(directory)
    unfinished = [shard for shard in plan.shards() if shard.ref not in done]
    failed = sum(shard.ref.key in failures for shard in unfinished)
    failed_now = failed_cells(plan, failures)
    groups = grouped(failed_now)
    finished = {cell.cell_id for cell in plan.cells if all(shard.ref in done for shard in cell.job.shards)}
    part = plan.part(plan.cells_with(record.only))
    asked = {shard.ref for shard in part.shards()}
    waiting = [each for each in unfinished if each.ref in asked and each.ref.key not in failures]
    left = seconds_left(waiting, cost, record.workers)
    log = directory / LOG_FILE
    running = folder.running()
    if running:
        state = "running"
    elif not unfinished:
        state = "done"
    elif groups:
        state = "failed"
    elif part is not plan and all(cell.cell_id in finished for cell in part.cells):
        state = "partial"
    else:
        state = "interrupted"
    found = {
        "grid": record.grid["name"],
        "directory": str(directory),
        "state": state,
        "started_at": record.started_at,
        "running_since": record.started_at if running else None,
        "workers": record.workers,
        "seconds_left": None if left is None else round(left, 1),
        "log": str(log),
        "shards": {
            "total": len(done) + len(unfinished),
            "done": len(done),
            "failed": failed,
            "left": len(unfinished) - failed,
        },
        "cells": {
            "total": len(plan.cells),
            "done": len(finished),
            "failed": len(failed_now),
            "pending": len(plan.cells) - len(finished) - len(failed_now),
        },
        "jobs": [
            {
                "kind": each.kind,
                "jobs": each.jobs,
                "shards": each.shards,
                "done": each.reused,
                "worker_seconds_left": None if each.seconds is None else round(each.seconds, 1),
            }
            for each in remaining_work(plan, done, cost)
        ],
        "failures": [
            {
                "reason": group.failure.reason,
                "cause": group.failure.cause,
                "cells": list(group.cells),
                "advice": group.advice(log),
            }
            for group in groups
        ],
        "graders": _changed_graders(plan),
    }
    return found, groups


def _changed_graders(plan: Plan) -> list[str]:
    """Return in words which libraries of the graders have other versions now than when the plan was made."""
    rules = {
        shard.parameters.rules
        for job in plan.jobs
        for shard in job.shards[:1]
        if isinstance(shard.parameters, GradingParameters)
    }
    rules |= {str(grader.identity.get("rules", "")) for grader in plan.plugins.get("grader", ())}
    return sorted({change for each in rules for change in library_changes(each)})


def _text(found: dict[str, Any], failures: Sequence[FailureGroup]) -> str:
    directory, state, shards, cells = (found[name] for name in ("directory", "state", "shards", "cells"))
    head = f"Grid '{found['grid']}' in {directory}: {state}"
    if state == "running":
        began = datetime.fromisoformat(found["started_at"])
        head += f" for {duration((datetime.now(UTC) - began).total_seconds())}"
    head += f", {_percent(shards['done'], shards['total'])} "
    head += f"({shards['done']:,} of {counted(shards['total'], 'shard')})"
    if state == "running" and found["seconds_left"] is not None:
        head += f", about {duration(found['seconds_left'])} left"
    more = f"Latest run started {found['started_at']}. Log: {found['log']}"
    rows = [
        [
            each["kind"].replace("_", " "),
            f"{each['done']}/{each['shards']}",
            _percent(each["done"], each["shards"]),
            time_left(each["shards"] - each["done"], each["worker_seconds_left"]),
        ]
        for each in found["jobs"]
    ]
    lines = [
        wrapped(f"{head}."),
        "",
        text_table(["jobs", "shards", "done", "worker time left"], rows),
        "",
        wrapped(f"{cells['done']:,} of {counted(cells['total'], 'cell')} done, {cells['failed']:,} failed. {more}"),
    ]
    if found["graders"]:
        changes = ", ".join(found["graders"])
        lines.append(wrapped(f"The next run grades again, since {changes}. It samples and scores nothing."))
    if state in _ADVICE:
        lines.append(wrapped(_ADVICE[state]))
    return "\n".join([*lines, *lines_on_failures(failures, Path(found["log"]))])


def _percent(part: int, whole: int) -> str:
    """Return a share in percent. It is 100% only if nothing is left."""
    return f"{int(100 * part / whole) if whole else 100}%"
