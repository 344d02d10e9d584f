"""``prmcal status``: how far a run is. It reads only the run's folder, so it works at any time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from prmcal.db.text.formats import duration
from prmcal.harness.commands.output import text_table, time_left
from prmcal.harness.costs.estimate import CostModel, Work, remaining_work
from prmcal.harness.execution.rebuild import recorded_failures
from prmcal.harness.execution.run import finished_shards
from prmcal.harness.planning.again import plan_again
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import Store

__all__ = ["render_status"]


@dataclass(frozen=True)
class _Status:
    """The state of a run.

    Attributes
    ----------
    running : bool
        Whether a run holds the folder's lock now.
    shards, done : int
        How many shards the plan has, and how many of them are finished.
    work : list of Work
        One entry for each kind of job.
    seconds_left : float or None
        Worker seconds that the other shards need; None if there is no finished shard to estimate them from.
    reasons : tuple of str
        Why shards failed in the latest run, each reason once.
    """

    directory: Path
    grid: str
    started_at: str
    running: bool
    shards: int
    done: int
    work: list[Work]
    seconds_left: float | None
    reasons: tuple[str, ...]


def render_status(directory: Path) -> str:
    """Return the state of the run in a folder, by kind of job.

    Raises
    ------
    RunError
        If no grid was run in the folder.
    """
    status = _read(directory)
    state = "running" if status.running else ("done" if status.done == status.shards else "not running")
    rows = [
        [each.kind.replace("_", " "), f"{each.reused}/{each.shards}", time_left(each)] for each in status.work
    ]
    lines = [
        f"Grid '{status.grid}' in {status.directory}: {state}, {status.done}/{status.shards} shards. "
        f"Latest run started {status.started_at}.",
        text_table(["jobs", "shards done", "worker time left"], rows),
    ]
    if status.done < status.shards and status.seconds_left is not None:
        lines.append(f"About {duration(status.seconds_left)} of worker time left.")
    lines += [f"failed: {reason}" for reason in status.reasons]
    return "\n".join(lines)


def _read(directory: Path) -> _Status:
    folder = RunFolder(directory)
    record = folder.record()
    plan = plan_again(record)
    store = Store(directory)
    done = finished_shards(plan, store, verify=False)
    cost = CostModel(plan, store.all_manifests())
    shards = {shard.ref: shard for shard in plan.shards()}
    failures = recorded_failures(directory)
    return _Status(
        directory=directory,
        grid=record.grid["name"],
        started_at=record.started_at,
        running=folder.running(),
        shards=len(shards),
        done=len(done),
        work=remaining_work(plan, done, cost),
        seconds_left=cost.seconds([s for ref, s in shards.items() if ref not in done]),
        reasons=tuple(dict.fromkeys(failures.values())),
    )
