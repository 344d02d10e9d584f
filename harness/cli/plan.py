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
from prmcal.harness.execution.ending import FailureGroup, failed_cells, grouped, lines_on_failures, read_failures
from prmcal.harness.execution.machine import default_workers, visible_gpus
from prmcal.harness.jobs import parameters
from prmcal.harness.planning import gpu_hours
from prmcal.harness.planning.costs import CostModel, remaining_work, seconds_left
from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.planning.plan import Only, Plan
from prmcal.harness.planning.planner import build_plan
from prmcal.harness.planning.preflight import joined_problems, pair_problems, plan_problems
from prmcal.harness.planning.saved import existing_plan
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import ArtifactRef, Store
from prmcal.harness.terminal import text_table, wrapped
from prmcal.registry.grading.rules import library_changes

_ADVICE = {
    "interrupted": "To continue, run the same command again. Finished work is kept.",
    "partial": "The part that was asked for is finished. For the rest, leave out --only.",
}


def plan(
    grid: options.GridArgument,
    out: Annotated[Path | None, option("DIR", "An output folder: its finished work is counted as done.")] = None,
    only: options.OnlyOption = None,
    limit: options.LimitOption = None,
    plugin: options.PluginOption = None,
) -> None:
    """Show the jobs of a grid and what they cost.

    The costs are samples, tokens and time. Problems that would make cells fail are shown too. No model is loaded and
    nothing is downloaded. Each server gets one request.
    """
    spec = options.load_grid(grid, limit, plugin)
    typer.echo(render_plan(spec, out, options.names_by_kind(only)))


def render_plan(grid: GridSpec, directory: Path | None, only: Only | None = None) -> str:
    """Return the jobs of a grid by kind, their total, and the estimated time.

    Stand-ins replace models and data sets that are not on this machine. The artifacts of the folder count as done, and
    their costs are the basis of the estimate of the time.

    Raises a RunError if a run of the grid would refuse the folder.
    """
    if directory is not None:
        RunFolder(directory).claim(grid.name)
    whole_plan = build_plan(grid, stand_ins=True)
    selected_cells = whole_plan.cells_with(only or {})
    impossible = [*pair_problems(whole_plan)]
    failing_cells = [[cell for cell in selected_cells if problem.ends(cell)] for problem in impossible]
    failing_ids = {cell.cell_id for cells in failing_cells for cell in cells}
    plan = whole_plan.part([cell for cell in selected_cells if cell.cell_id not in failing_ids])
    refs = (shard.ref for shard in whole_plan.shards())
    done = {} if directory is None else Store(directory).manifests(refs, verify=False)
    works = remaining_work(plan, done, CostModel(whole_plan, done))
    models = gpu_hours.model_costs(plan, done)
    workers = default_workers()
    rows = [
        [
            work.kind.replace("_", " "),
            str(work.jobs),
            str(work.shards),
            str(work.reused),
            f"{work.samples:,}" if work.samples else "",
            f"{work.tokens:,}" if work.tokens else "",
            time_left(work.shards - work.reused, work.seconds),
        ]
        for work in works
    ]
    head = ["jobs", "count", "shards", "reused", "samples left", "tokens left", "worker time left"]
    known_seconds = [work.seconds for work in works if work.seconds is not None]
    total = (
        f"{len(plan.jobs)} jobs with {sum(work.shards for work in works)} shards, of which "
        f"{sum(work.reused for work in works)} are finished; {len(plan.cells)} cells"
        f"{f' of the {len(whole_plan.cells)} of the grid' if len(plan.cells) < len(whole_plan.cells) else ''}."
    )
    if done:
        total += f"\n{_left_in_words(plan, done)}"
    if len(known_seconds) == len(works):
        wall_time = duration(sum(known_seconds) / workers)
        total += f"\nAbout {wall_time} with {workers} workers, estimated from finished shards."
    elif not models:
        total += "\nThe time is not known yet: it is estimated from finished shards (--out DIR)."
    paragraphs = [text_table(head, rows), wrapped(total)]
    if models and len(known_seconds) < len(works):
        paragraphs += _gpu_hours(plan, models)
    if plan.repeated:
        repeated = counted(plan.repeated, "question")
        paragraphs.append(wrapped(f"{repeated} with a text that occurs before. It is sampled once."))
    if plan.absent:
        absent = f"Not on this machine: {', '.join(plan.absent)}. The plan includes them"
        paragraphs.append(wrapped(f"{absent}; `prmcal doctor GRID` says what to do."))
    paragraphs += [
        wrapped(f"{problem} Not counted above, as it would fail: {counted(len(cells), 'cell')}.", hanging="  ")
        for problem, cells in zip(impossible, failing_cells, strict=True)
        if cells
    ]
    paragraphs += [wrapped(sentence, hanging="  ") for sentence in joined_problems(plan_problems(grid, plan))]
    return "\n\n".join(paragraphs)


def _left_in_words(plan: Plan, done: Collection[ArtifactRef]) -> str:
    """Say how many shards are sampled, scored and graded. Users see there what an edit of a grid costs."""
    unfinished = [shard.parameters for shard in plan.shards() if shard.ref not in done]
    kinds = parameters.GeneratingParameters, parameters.ScoringParameters, parameters.GradingParameters
    sampling, scoring, grading = (sum(isinstance(work, kind) for work in unfinished) for kind in kinds)
    follow_ups = sum(isinstance(work, parameters.FollowUpParameters) and bool(work.answers) for work in unfinished)
    text = f"Left: {counted(sampling - follow_ups, 'shard')} to sample, {scoring} to score, {grading} to grade."
    if follow_ups:
        text += f" {follow_ups} more sample only follow-ups that are missing where answers are read elsewhere."
    return text


def _gpu_hours(plan: Plan, models: Sequence[gpu_hours.ModelCost]) -> list[str]:
    """Say how long models compute, and how long a run takes on this machine's GPUs or on as many as it needs."""
    rows = [
        [model.name, f"{model.billions:g}", f"{model.tokens / 1e6:,.0f}", f"{model.gpu_hours:,.1f}"] for model in models
    ]
    tokens, hours = sum(model.tokens for model in models), sum(model.gpu_hours for model in models)
    rows.append(["all", "", f"{tokens / 1e6:,.0f}", f"{hours:,.1f}"])
    table = text_table(["model", "10^9 parameters", "10^6 tokens", "GPU-hours"], rows)
    gpus_of_shards = [shard.gpus for shard in plan.shards() if shard.gpus < parameters.ALL_GPUS]
    gpus = max(1, len(visible_gpus()), *gpus_of_shards)
    wall_time = f"On {counted(gpus, 'GPU')} the run takes at least {duration(3600 * hours / gpus)}"
    return [table, wrapped(f"{wall_time}, if its models take the hours above."), wrapped(gpu_hours.EXPLANATION)]


def status(
    directory: options.RunArgument,
    output_format: Annotated[str, option("FORMAT", "table or json.", "--format")] = "table",
) -> None:
    """Show the progress of a run, the time left, and why cells failed.

    It also works during the run.
    """
    options.one_of("--format", output_format, ("table", "json"))
    run_status, failures = read_status(directory)
    typer.echo(json.dumps(run_status, indent=1) if output_format == "json" else _text(run_status, failures))
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
    failed_shards = sum(shard.ref.key in failures for shard in unfinished)
    cells_failed = failed_cells(plan, failures)
    groups = grouped(cells_failed)
    finished_cells = {cell.cell_id for cell in plan.cells if all(shard.ref in done for shard in cell.job.shards)}
    selected_plan = plan.part(plan.cells_with(record.only))
    selected_refs = {shard.ref for shard in selected_plan.shards()}
    waiting_shards = [shard for shard in unfinished if shard.ref in selected_refs and shard.ref.key not in failures]
    remaining_seconds = seconds_left(waiting_shards, cost, record.workers)
    log = directory / LOG_FILE
    running, shards_left = folder.running(), len(unfinished) - failed_shards
    done_cells, total_cells = len(finished_cells), len(plan.cells)
    pending_cells = total_cells - done_cells - len(cells_failed)
    if running:
        state = "running"
    elif not unfinished:
        state = "done"
    elif groups:
        state = "failed"
    elif selected_plan is not plan and all(cell.cell_id in finished_cells for cell in selected_plan.cells):
        state = "partial"
    else:
        state = "interrupted"
    run_status = {
        "grid": record.grid["name"],
        "directory": str(directory),
        "state": state,
        "started_at": record.started_at,
        "running_since": record.started_at if running else None,
        "workers": record.workers,
        "seconds_left": None if remaining_seconds is None else round(remaining_seconds, 1),
        "log": str(log),
        "shards": {"total": len(plan.shards()), "done": len(done), "failed": failed_shards, "left": shards_left},
        "cells": {"total": total_cells, "done": done_cells, "failed": len(cells_failed), "pending": pending_cells},
        "jobs": [
            {
                "kind": work.kind,
                "jobs": work.jobs,
                "shards": work.shards,
                "done": work.reused,
                "worker_seconds_left": None if work.seconds is None else round(work.seconds, 1),
            }
            for work in remaining_work(plan, done, cost)
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
    return run_status, groups


def _changed_graders(plan: Plan) -> list[str]:
    """Return in words which libraries of the graders have other versions now than when the plan was made."""
    rules = {job.shards[0].parameters.rules for job in plan.jobs_of(parameters.GradingParameters)}
    rules |= {str(grader.identity.get("rules", "")) for grader in plan.plugins.get("grader", ())}
    return sorted({change for rule in rules for change in library_changes(rule)})


def _text(run_status: dict[str, Any], failures: Sequence[FailureGroup]) -> str:
    directory, state, shards, cells = (run_status[name] for name in ("directory", "state", "shards", "cells"))
    head = f"Grid '{run_status['grid']}' in {directory}: {state}"
    if state == "running":
        began = datetime.fromisoformat(run_status["started_at"])
        head += f" for {duration((datetime.now(UTC) - began).total_seconds())}"
    head += f", {_percent(shards['done'], shards['total'])} "
    head += f"({shards['done']:,} of {counted(shards['total'], 'shard')})"
    if state == "running" and run_status["seconds_left"] is not None:
        head += f", about {duration(run_status['seconds_left'])} left"
    rows = [
        [
            job["kind"].replace("_", " "),
            f"{job['done']}/{job['shards']}",
            _percent(job["done"], job["shards"]),
            time_left(job["shards"] - job["done"], job["worker_seconds_left"]),
        ]
        for job in run_status["jobs"]
    ]
    table = text_table(["jobs", "shards", "done", "worker time left"], rows)
    latest = f"Latest run started {run_status['started_at']}. Log: {run_status['log']}"
    last = f"{cells['done']:,} of {counted(cells['total'], 'cell')} done, {cells['failed']:,} failed. {latest}"
    lines = [wrapped(f"{head}."), "", table, "", wrapped(last)]
    if run_status["graders"]:
        changes = ", ".join(run_status["graders"])
        lines.append(wrapped(f"The next run grades again, since {changes}. It samples and scores nothing."))
    if state in _ADVICE:
        lines.append(wrapped(_ADVICE[state]))
    return "\n".join([*lines, *lines_on_failures(failures, Path(run_status["log"]))])


def _percent(count: int, total: int) -> str:
    """Return a share in percent. The share is 100% only if nothing is left."""
    return f"{int(100 * count / total) if total else 100}%"
