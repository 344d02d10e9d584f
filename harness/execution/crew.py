"""What each worker does now: for the progress display, and in a file for `prmcal status`."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from prmcal.db.run_folder import crew_file
from prmcal.db.text.formats import duration
from prmcal.harness.execution.pace import Pace
from prmcal.harness.planning.plan import Plan
from prmcal.harness.scheduling.schedule import Schedule
from prmcal.harness.storage.store import write_atomically

__all__ = ["CrewFile", "WorkerNow", "crew_now", "read_crew"]

_SECONDS_BETWEEN_WRITES = 2.0
_SHARE_FOR_WRITING = 0.005


@dataclass(frozen=True, slots=True)
class WorkerNow:
    """What a worker does.

    Attributes
    ----------
    worker : str
        Its name, and before it the name of its node on a cluster.
    job : str
        The job of its shard; empty if it is idle.
    seconds : float
        How long it has computed this shard.
    tries : int
        How often the shard was begun, this time included.
    note : str
        What the shard tells about its progress.
    """

    worker: str
    job: str = ""
    seconds: float = 0.0
    tries: int = 1
    note: str = ""

    def __str__(self) -> str:
        if not self.job:
            return f"{self.worker}: idle"
        again = f" (try {self.tries})" if self.tries > 1 else ""
        return f"{self.worker}: {self.job}{again}, {duration(self.seconds)}{self.note and f': {self.note}'}"


def crew_now(plan: Plan, schedule: Schedule) -> list[WorkerNow]:
    """Return what each worker does, sorted by their names: those that compute, then idle ones."""
    now = time.monotonic()
    found = [
        WorkerNow(worker)
        if ref is None
        else WorkerNow(
            worker,
            str(plan.job_of(ref)),
            round(now - schedule.started.get(ref, now), 1),
            schedule.deaths[ref] + 1,
            schedule.notes.get(ref, ""),
        )
        for worker, ref in schedule.workers.items()
    ]
    return sorted(found, key=lambda each: (not each.job, len(each.worker), each.worker))


class CrewFile:
    """The file in a run's folder that says what each worker does. It is written every two seconds at most.

    Parameters
    ----------
    directory : Path
        The output folder of the run.
    plan : Plan
    """

    def __init__(self, directory: Path, plan: Plan) -> None:
        self._file = crew_file(directory)
        self._plan = plan
        self._pace = Pace(_SHARE_FOR_WRITING, _SECONDS_BETWEEN_WRITES)

    def update(self, schedule: Schedule) -> None:
        """Write what the workers do now, unless that was done a moment ago."""
        if not self._pace.due:
            return
        with self._pace.work():
            crew = [asdict(each) for each in crew_now(self._plan, schedule)]
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._file, json.dumps(crew))


def read_crew(directory: Path) -> Sequence[WorkerNow]:
    """Return what the workers of a run do now; nothing if no run is going on."""
    try:
        return [WorkerNow(**each) for each in json.loads(crew_file(directory).read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        return []
