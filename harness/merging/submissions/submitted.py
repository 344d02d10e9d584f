"""A submission with its plan and everything that decides where it belongs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prmcal.db.metrics import Leaderboard
from prmcal.errors import BundleError
from prmcal.harness.bundles import Submission, submission_of
from prmcal.harness.execution.failures import Failure, read_failures
from prmcal.harness.merging.submissions.conditions import (
    ByLeaderboard,
    conditions_of,
    fit_conditions_of,
    further_conditions_of,
    measured_of,
    shard_conditions_of,
)
from prmcal.harness.merging.submissions.contents import contents_of
from prmcal.harness.planning.plan import Cell, Plan
from prmcal.harness.planning.saved import read_plan
from prmcal.harness.storage.folder import RunFolder, RunRecord
from prmcal.harness.storage.store import ArtifactRef
from prmcal.registry.messages import reading

__all__ = ["FilesOf", "Submitted", "read_submitted"]

FilesOf = Callable[[ArtifactRef], Mapping[str, Path | bytes]]
"""From an artifact to its files, by their names in its folder."""


@dataclass(frozen=True, eq=False)
class Submitted:
    """A submission, read.

    Attributes
    ----------
    submission : Submission
    folder : Path
        The folder with its submission.json, run.json, plan.json and failures.json.
    record : RunRecord
        The run that measured it.
    plan : Plan
        Its cells and all jobs behind them.
    failures : mapping of str to Failure
        Why shards failed, by their keys.
    contents : mapping of ArtifactRef to str
        The digests of the contents of its artifacts; see :mod:`prmcal.harness.merging.submissions.contents`.
    conditions, further : mapping of str to mapping of str to JSON data
        The conditions of each leaderboard; see :mod:`prmcal.harness.merging.submissions.conditions`.
    fit_conditions, shard_conditions : mapping of str to JSON data
        The conditions of its calibrators, and the sizes of its shards.
    measured : mapping of str to mapping of (str, str, str) to str
        The keys of the jobs with the data that each leaderboard measures, by LLM, data set and split.
    orders : mapping of str to sequence of str
        The names of its plugins of each kind, in the order of its grid.
    files_of : callable
        The files of an artifact that it has.
    """

    submission: Submission
    folder: Path
    record: RunRecord
    plan: Plan
    failures: Mapping[str, Failure]
    contents: Mapping[ArtifactRef, str]
    conditions: ByLeaderboard
    further: ByLeaderboard
    fit_conditions: Mapping[str, Any]
    shard_conditions: Mapping[str, Any]
    measured: Mapping[Leaderboard, Mapping[tuple[str, str, str], str]]
    orders: Mapping[str, Sequence[str]]
    files_of: FilesOf = field(repr=False)

    @property
    def submission_id(self) -> str:
        """The id of the submission."""
        return self.submission.submission_id

    @property
    def measured_at(self) -> str:
        """When its run ended, or began if that is not known: UTC, in ISO format."""
        return self.record.finished_at or self.record.started_at

    @property
    def place(self) -> tuple[str, str]:
        """Its place among all submissions: the older ones come first."""
        return self.measured_at, self.submission_id

    def is_done(self, cell: Cell) -> bool:
        """Return whether it has the result of a cell."""
        return all(ref in self.contents for ref in cell.job.refs)

    def has_failed(self, cell: Cell) -> bool:
        """Return whether it has a reason why a cell has no result."""
        return not self.is_done(cell) and any(ref.key in self.failures for ref in cell.job.refs)


def read_submitted(folder: Path, files_of: FilesOf, where: str) -> Submitted:
    """Read a submission from a folder with its submission.json, run.json, plan.json and failures.json.

    Parameters
    ----------
    folder : Path
    files_of : callable
    where : str
        What the user calls it, for messages.

    Raises
    ------
    BundleError
        If something of it is damaged.
    """
    with reading(f"The submission {where} cannot be read", kind=BundleError):
        submission = submission_of(folder)
        if submission is None:
            raise BundleError(f"{where} has no submission.json.")
        record = RunFolder(folder).record()
        plan = read_plan(folder, record.grid)
        if plan is None or not plan.cells:
            raise BundleError(f"{where} has no plan with cells that belongs to its run.json.")
        return Submitted(
            submission,
            folder,
            record,
            plan,
            read_failures(folder),
            contents_of(submission),
            conditions_of(record, plan),
            further_conditions_of(record),
            fit_conditions_of(record, plan),
            shard_conditions_of(record),
            measured_of(plan),
            _orders(record, plan),
            files_of,
        )


def _orders(record: RunRecord, plan: Plan) -> dict[str, list[str]]:
    orders = {kind: [each.name for each in plugins] for kind, plugins in plan.plugins.items()}
    # In a plan, data that is only used to calibrate comes last, which says nothing about its place.
    tested = [each["name"] for each in record.grid.get("datasets", ())]
    orders["dataset"] = [name for name in dict.fromkeys(tested) if name in orders.get("dataset", ())]
    return orders
