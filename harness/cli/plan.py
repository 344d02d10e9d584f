"""``prmcal plan``: the jobs of a grid, and what they cost: samples, tokens, time and space."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from prmcal.db.text.formats import duration
from prmcal.errors import PrmcalError
from prmcal.harness.cli.options import (
    GridArgument,
    LimitOption,
    OnlyOption,
    PluginOption,
    names_by_kind,
    option,
    read,
    time_left,
)
from prmcal.harness.execution.machine import default_workers
from prmcal.harness.planning import gpu_hours
from prmcal.harness.planning.costs import CostModel, remaining_work
from prmcal.harness.planning.gpu_hours import ModelCost, Space, model_costs, space_needed
from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.planning.plan import Only
from prmcal.harness.planning.planner import build_plan
from prmcal.harness.storage.store import Store
from prmcal.harness.terminal import text_table, wrapped
from prmcal.registry.messages import printable
from prmcal.registry.plugins import llms

_END = 40
"""In characters. How much of the end of a prompt is shown with its white space."""


def plan(
    grid: GridArgument,
    out: Annotated[
        Path | None, option("DIR", "An output folder: its finished work is counted as done.", "--out")
    ] = None,
    only: OnlyOption = None,
    limit: LimitOption = None,
    plugin: PluginOption = None,
    prompt: Annotated[
        bool, typer.Option("--prompt", help="Show what each LLM reads for the first question instead.")
    ] = False,
) -> None:
    """Show the jobs of a grid and what they cost.

    The costs are samples, tokens, time and disk space. No model is loaded and nothing is downloaded.
    """
    spec = read(grid, limit, plugin)
    typer.echo(render_prompts(spec) if prompt else render_plan(spec, out, names_by_kind(only)))


def render_prompts(grid: GridSpec) -> str:
    """Return the prompt of the first question for each LLM, and how it ends. Only tokenizers are loaded."""
    plan = build_plan(grid, stand_ins=True)
    data = plan.datasets[0]
    question = data.questions[0].text
    parts = [f"The first question of {data.name}, {data.split}:", printable(question)]
    for planned in plan.plugins[llms.kind]:
        try:
            prompt = planned.reference.build(llms).prompt(question)
        except PrmcalError as error:
            parts += ["", wrapped(f"The prompt of {planned.name} is not known: {error}")]
            continue
        if prompt:
            parts += [
                "",
                f"The prompt of {planned.name}, which ends with {prompt[-_END:]!r}:",
                printable(prompt),
            ]
        else:
            parts += ["", f"{planned.name} does not tell its prompt."]
    return "\n".join(parts)


def render_plan(grid: GridSpec, directory: Path | None, only: Only | None = None) -> str:
    """Return the jobs of a grid by kind, their total, and the estimated time and space.

    Stand-ins take the place of models and data sets that are not on this machine. The artifacts of the folder count as
    done, and their costs are the basis of the estimate of the time.
    """
    whole = build_plan(grid, stand_ins=True)
    plan = whole.part(whole.cells_with(only)) if only else whole
    past = {} if directory is None else Store(directory).all_manifests()
    done = {shard.ref: past[shard.ref] for shard in plan.shards() if shard.ref in past}
    work = remaining_work(plan, done, CostModel(whole, past))
    models, space = model_costs(plan, done), space_needed(plan, done)
    workers = default_workers(grid)
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
    lines = [
        text_table(head, rows),
        "",
        wrapped(
            f"{len(plan.jobs)} jobs with {sum(each.shards for each in work)} shards, of which "
            f"{sum(each.reused for each in work)} are finished; {len(plan.cells)} cells"
            f"{f' of the {len(whole.cells)} of the grid' if only else ''}."
        ),
    ]
    if len(known) == len(work):
        lines.append(
            wrapped(
                f"About {duration(sum(known) / workers)} with {workers} workers, estimated from finished shards."
            )
        )
    elif models:
        lines += ["", _models(models), "", wrapped(gpu_hours.EXPLANATION)]
    else:
        lines.append(wrapped("The time is not known yet: it is estimated from finished shards (--out DIR)."))
    if space.artifacts:
        lines += ["", wrapped(_space(space))]
    if plan.absent:
        absent = (
            f"Not on this machine: {', '.join(plan.absent)}. The plan includes them; `prmcal doctor GRID` says what "
            "to do."
        )
        lines += ["", wrapped(absent)]
    return "\n".join(lines)


def _space(space: Space) -> str:
    parts = {"hidden states": space.hidden, "solutions": space.solutions, "all else": space.rest}
    text = f"Disk: about {_gigabytes(space.artifacts)} in the run's folder ("
    text += ", ".join(f"{name} {_gigabytes(size)}" for name, size in parts.items() if size) + ")"
    text += f", and {_gigabytes(space.models)} of models to download" if space.models else ""
    if not space.hidden:
        return text + "."
    return f"{text}. Memory: the largest fit reads {_gigabytes(space.memory)}. {gpu_hours.DISK_EXPLANATION}"


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:,.0f} GB" if size >= 10e9 else f"{size / 1e9:,.2g} GB"


def _models(models: Sequence[ModelCost]) -> str:
    rows = [
        [each.name, f"{each.billions:g}", f"{each.tokens / 1e6:,.0f}", f"{each.gpu_hours:,.1f}"]
        for each in models
    ]
    tokens, hours = sum(each.tokens for each in models), sum(each.gpu_hours for each in models)
    rows.append(["all", "", f"{tokens / 1e6:,.0f}", f"{hours:,.1f}"])
    return text_table(["model", "10^9 parameters", "10^6 tokens", "GPU-hours"], rows)
