"""What ``prmcal plan`` prints."""

from __future__ import annotations

from collections.abc import Sequence

from prmcal.db.text.formats import duration
from prmcal.harness.commands.render import text_table, time_left
from prmcal.harness.costs import disk, gpu_hours
from prmcal.harness.costs.disk import Space
from prmcal.harness.costs.estimate import Work
from prmcal.harness.costs.gpu_hours import ModelCost
from prmcal.harness.planning.plan import Plan

__all__ = ["render_plan"]


def render_plan(
    plan: Plan, work: Sequence[Work], workers: int, models: Sequence[ModelCost], space: Space
) -> str:
    """The plan by kind of job, the totals, and the models by what they cost where nothing was run yet."""
    rows = [
        [
            each.kind.replace("_", " "),
            str(each.jobs),
            str(each.shards),
            str(each.reused),
            f"{each.samples:,}" if each.samples else "",
            f"{each.tokens:,}" if each.tokens else "",
            time_left(each),
        ]
        for each in work
    ]
    head = ["jobs", "count", "shards", "reused", "samples left", "tokens left", "worker time left"]
    known = [each.seconds for each in work if each.seconds is not None]
    lines = [
        text_table(head, rows),
        f"{len(plan.jobs)} jobs, {sum(each.shards for each in work)} shards, {sum(each.reused for each in work)} of "
        f"them there already; {len(plan.cells)} cells.",
    ]
    if len(known) == len(work):
        lines.append(f"About {duration(sum(known) / workers)} with {workers} workers, as past shards went.")
    elif models:
        lines += ["", _models(models), gpu_hours.EXPLANATION]
    else:
        lines.append("No estimate of the time yet: it comes from shards that were run before (--out DIR).")
    if space.artifacts:
        lines += ["", _space(space)]
    if plan.absent:
        lines.append(
            f"Not on this machine, and planned for all the same: {', '.join(plan.absent)}. `prmcal doctor GRID` says "
            "what to do."
        )
    return "\n".join(lines)


def _space(space: Space) -> str:
    parts = {"hidden states": space.hidden, "solutions": space.solutions, "all else": space.rest}
    text = f"Disk: about {_gigabytes(space.artifacts)} in the run's folder ("
    text += ", ".join(f"{name} {_gigabytes(size)}" for name, size in parts.items() if size) + ")"
    text += f", and {_gigabytes(space.models)} of models to download" if space.models else ""
    if not space.hidden:
        return text + "."
    return f"{text}. Memory: the largest fit of ats reads {_gigabytes(space.memory)}. {disk.EXPLANATION}"


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:,.0f} GB" if size >= 10e9 else f"{size / 1e9:,.2g} GB"


def _models(models: Sequence[ModelCost]) -> str:
    rows = [
        [each.name, f"{each.billions:g}", f"{each.tokens / 1e6:,.0f}", f"{each.gpu_hours:,.1f}"]
        for each in models
    ]
    total = [
        "all",
        "",
        f"{sum(each.tokens for each in models) / 1e6:,.0f}",
        f"{sum(m.gpu_hours for m in models):,.1f}",
    ]
    return text_table(["model", "10^9 parameters", "10^6 tokens", "GPU-hours"], [*rows, total])
