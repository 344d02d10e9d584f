"""What ``prmcal plan`` prints."""

from __future__ import annotations

from collections.abc import Sequence

from harness.estimate import Work
from harness.gpu_hours import EXPLANATION, ModelCost
from harness.plan import Plan
from harness.progress import duration
from harness.render import text_table, time_left

__all__ = ["render_plan"]


def render_plan(plan: Plan, work: Sequence[Work], workers: int, models: Sequence[ModelCost]) -> str:
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
        lines += ["", _models(models), EXPLANATION]
    else:
        lines.append("No estimate of the time yet: it comes from shards that were run before (--out DIR).")
    if plan.absent:
        lines.append(
            f"Not on this machine, and planned for all the same: {', '.join(plan.absent)}. `prmcal doctor GRID` says "
            "what to do."
        )
    return "\n".join(lines)


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
