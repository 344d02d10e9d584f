"""How far a run is: read from its folder alone, so that it works at any moment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from prmcal.harness.costs.estimate import CostModel, Work, remaining_work
from prmcal.harness.execution.rebuild import recorded_failures
from prmcal.harness.execution.run import finished_shards
from prmcal.harness.planning.again import plan_again
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import Store

__all__ = ["Status", "read_status"]


@dataclass(frozen=True)
class Status:
    """The state of a folder.

    Attributes
    ----------
    running : bool
        Whether a run holds the folder now.
    shards, done : int
    work : list of Work
        By kind of job.
    seconds_left : float or None
        Worker seconds of what is left; None while nothing like it was run.
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


def read_status(directory: Path) -> Status:
    """Look at an output folder.

    Raises
    ------
    RunError
        If no grid was run there.
    """
    folder = RunFolder(directory)
    record = folder.record()
    plan = plan_again(record)
    store = Store(directory)
    done = finished_shards(plan, store, verify=False)
    cost = CostModel(plan, store.all_manifests())
    shards = {shard.ref: shard for shard in plan.shards()}
    failures = recorded_failures(directory)
    return Status(
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
