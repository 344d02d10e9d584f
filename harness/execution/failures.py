"""The reasons of failed shards and cells, and what a user can do about them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from prmcal.db.run_folder import FAILURES_FILE
from prmcal.db.text.formats import duration
from prmcal.errors import NoAnswerError, PluginFailedError, PrmcalError
from prmcal.harness.planning.plan import Plan
from prmcal.harness.storage.store import write_atomically
from prmcal.registry.messages import excerpt, message_of

Cause = Literal["network", "plugin", "input", "crash", "time", "error"]
"""The part that failed: the network of a plugin, a plugin, an input such as a damaged file, the worker process, a
shard that took too long, or prmcal."""

_ADVICE: dict[Cause, str] = {
    "network": "Check the server, then run the same command again. It tries only the failed cells again.",
    "plugin": "The traceback is in {log}. Correct the plugin, then run the same command again.",
    "input": "When this is corrected, run the same command again. It tries only the failed cells again.",
    "crash": "The process ran out of memory, or native code crashed. {log} has the last lines that it wrote. Try again "
    "with fewer --workers.",
    "time": "If the plugin does not hang, raise 'shards.time_limit' in the grid file, or make shards smaller. Then run "
    "the same command again.",
    "error": "This is an error in prmcal or in one of its libraries. The traceback is in {log}.",
}


_LONGEST_REASON = 600


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a shard failed.

    Attributes
    ----------
    reason : str
        What happened, in a sentence: on one line, without control characters. It ends with an ellipsis if there is
        more, which is in the log.
    cause : {"network", "plugin", "input", "crash", "time", "error"}
    """

    reason: str
    cause: Cause = "plugin"

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", excerpt(self.reason, _LONGEST_REASON))

    @classmethod
    def of_time(cls, seconds: float) -> Failure:
        """Return the failure of a shard that took longer than it may."""
        return cls(f"It took longer than {duration(seconds)}, the time limit of a shard.", "time")

    @classmethod
    def of(cls, error: Exception, kind: str) -> Failure:
        """Return the failure of a shard of this kind of job that raised an error."""
        if isinstance(error, NoAnswerError):
            return cls(str(error), "network")
        if isinstance(error, PluginFailedError):
            return cls(str(error), "plugin")
        if isinstance(error, PrmcalError):
            return cls(str(error), "input")
        return cls(f"{kind}: {message_of(error)}", "error")


@dataclass(frozen=True)
class FailureGroup:
    """Cells that failed for the same reason.

    Attributes
    ----------
    failure : Failure
        The reason of the first of them. The reasons of the others differ from it in numbers only.
    cells : tuple of str
        Their ids.
    """

    failure: Failure
    cells: tuple[str, ...]

    def advice(self, log: Path) -> str:
        """Return what to do, in one or two sentences. `log` is the log of the run."""
        return _ADVICE[self.failure.cause].format(log=log)


def failed_cells(plan: Plan, failures: Mapping[str, Failure]) -> dict[str, Failure]:
    """Return why cells failed, by their ids.

    Parameters
    ----------
    failures : mapping of str to Failure
        Why shards failed, by their keys. It includes the shards that could not be computed because of another one.
    """
    found = {}
    for cell in plan.cells:
        own = (failures[shard.ref.key] for shard in cell.job.shards if shard.ref.key in failures)
        first = next(own, None)
        if first is not None:
            found[cell.cell_id] = first
    return found


def grouped(cells: Mapping[str, Failure]) -> tuple[FailureGroup, ...]:
    """Group failed cells by their reasons, the largest group first."""
    groups: dict[tuple[str, str], list[str]] = {}
    first: dict[tuple[str, str], Failure] = {}
    for cell, failure in cells.items():
        key = (failure.cause, re.sub(r"\d+", "0", failure.reason))
        groups.setdefault(key, []).append(cell)
        first.setdefault(key, failure)
    found = [FailureGroup(first[key], tuple(ids)) for key, ids in groups.items()]
    return tuple(sorted(found, key=lambda group: -len(group.cells)))


def write_failures(directory: Path, failures: Mapping[str, Failure]) -> None:
    """Write why shards failed, by their keys, into a run's folder."""
    content = {key: {"reason": each.reason, "cause": each.cause} for key, each in failures.items()}
    write_atomically(directory / FAILURES_FILE, json.dumps(content, indent=1, sort_keys=True))


def read_failures(directory: Path) -> dict[str, Failure]:
    """Return why shards failed in the latest run, by their keys."""
    try:
        content = json.loads((directory / FAILURES_FILE).read_text(encoding="utf-8"))
        return dict(_failures(content.items()))
    except (OSError, ValueError, AttributeError, RecursionError):
        return {}


def _failures(items: Iterable[tuple[str, object]]) -> Iterable[tuple[str, Failure]]:
    for key, value in items:
        if isinstance(value, dict):
            cause: Cause = next((each for each in _ADVICE if each == value.get("cause")), "plugin")
            yield key, Failure(str(value.get("reason", "")), cause)
