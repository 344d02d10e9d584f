"""The plan of a merged leaderboard: the union of the plans of its submissions, with names that tell variants apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from prmcal.db.metrics import Leaderboard
from prmcal.errors import BundleError
from prmcal.harness.execution.failures import Failure
from prmcal.harness.jobs.job import Job, Labels, Shard, job_key
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.merging.naming.catalogue import Catalogue
from prmcal.harness.merging.naming.names import Names
from prmcal.harness.merging.naming.namespaces import Namespace
from prmcal.harness.merging.submissions.places import conflicts_of, stored
from prmcal.harness.merging.submissions.submitted import Submitted
from prmcal.harness.planning.plan import Cell, Plan
from prmcal.harness.storage.store import ArtifactRef, content_key
from prmcal.registry.messages import shown

__all__ = ["MergedCell", "Union", "union_of"]


@dataclass
class MergedCell:
    """A cell of a merged leaderboard.

    Attributes
    ----------
    cell : Cell
        With the names of the merged leaderboard.
    base_id : str
        Its id by the names in the grids.
    variant : str
        What tells it apart from other cells with this id; empty if nothing does.
    namespace : Namespace
    in_conflict : bool
        Whether it contradicts another cell.
    without_namespace : str
        Its id without what tells namespaces and conflicts apart.
    done : list of Submitted
        The submissions that have its result, in their order.
    """

    cell: Cell
    base_id: str
    variant: str
    namespace: Namespace
    in_conflict: bool
    without_namespace: str
    done: list[Submitted] = field(default_factory=list)


@dataclass(frozen=True)
class Union:
    """A merged leaderboard before it is written.

    Attributes
    ----------
    plan : Plan
    cells : mapping of str to MergedCell
        By their ids in the plan.
    submissions : tuple of Submitted
        In their order.
    namespaces : mapping of str to sequence of Namespace
        Those of each leaderboard.
    base_names : mapping of (str, str) to str
        The names of plugins in the grids, by their kinds and their names on the leaderboard.
    conflicts : mapping of ArtifactRef to str
        The artifacts of which submissions have contents that contradict each other, with that of the first submission.
    failures : mapping of str to Failure
        Why shards failed that no submission has.
    own : mapping of str to mapping of str to Cell
        For each submission, its own cells by the ids of the plan.
    """

    plan: Plan
    cells: Mapping[str, MergedCell]
    submissions: tuple[Submitted, ...]
    namespaces: Mapping[Leaderboard, Sequence[Namespace]]
    base_names: Mapping[tuple[str, str], str]
    conflicts: Mapping[ArtifactRef, str]
    failures: Mapping[str, Failure]
    own: Mapping[str, Mapping[str, Cell]]

    def own_cells(self, submission: Submitted) -> Mapping[str, Cell]:
        """Return the cells of a submission in its own plan, by their ids on the merged leaderboard."""
        return self.own[submission.submission_id]

    def stored(self, submission: Submitted, ref: ArtifactRef) -> ArtifactRef:
        """Return the address of an artifact of a submission in the merged folder."""
        return stored(submission, ref, self.conflicts)


def union_of(submissions: Iterable[Submitted]) -> Union:
    """Return the union of submissions, which is a function of their set."""
    ordered = tuple(
        sorted({each.submission_id: each for each in submissions}.values(), key=lambda each: each.place)
    )
    return _Builder(ordered).union()


class _Builder:
    def __init__(self, submissions: tuple[Submitted, ...]) -> None:
        self.submissions = submissions
        self.conflicts = conflicts_of(submissions)
        self.names = Names(submissions, self.conflicts)
        self.jobs: dict[tuple[str, Labels], Job[Parameters]] = {}
        self.labels: dict[str, Labels] = {}
        self.cells: dict[str, MergedCell] = {}
        self.keys: dict[str, tuple[str, str]] = {}
        self.own: dict[str, dict[str, Cell]] = {each.submission_id: {} for each in submissions}

    def union(self) -> Union:
        for submission in self.submissions:
            self._add(submission)
        llms = {job.labels.llm for job in self.jobs.values()}
        catalogue = Catalogue(self.submissions, self.names, llms)
        jobs = tuple(sorted(self.jobs.values(), key=_JobPlace(self.jobs.values(), catalogue)))
        cells = sorted(self.cells.values(), key=lambda each: _cell_place(each.cell, catalogue))
        plan = Plan(
            jobs,
            tuple(each.cell for each in cells),
            catalogue.plugins(),
            catalogue.datasets(),
            catalogue.metrics(),
            model_seconds=self._seconds(),
        )
        return Union(
            plan,
            {each.cell.cell_id: each for each in cells},
            self.submissions,
            self.names.namespaces,
            catalogue.base_names,
            self.conflicts,
            self._failures(),
            self.own,
        )

    def _add(self, submission: Submitted) -> None:
        named = [(cell, self.names.cell(submission, cell)) for cell in submission.plan.cells]
        new = [cell for cell, mine in named if mine.cell_id not in self.cells]
        jobs: dict[tuple[int, _Reader], Job[Parameters]] = {}
        for job, readers in _wanted(submission, new, self.names):
            for reader in readers:
                jobs[id(job), reader] = self._job(submission, job, reader, jobs)
        for cell, mine in named:
            self._check_key(submission, cell, mine)
            if submission.is_done(cell) or submission.has_failed(cell):
                if mine.cell_id not in self.cells:
                    job = jobs[id(cell.job), (cell.leaderboard, self.names.conflict(submission, cell.job))]
                    self.cells[mine.cell_id] = self._merged(submission, cell, replace(mine, job=job))
                if submission.is_done(cell):
                    self.cells[mine.cell_id].done.append(submission)
                self.own[submission.submission_id][mine.cell_id] = cell

    def _check_key(self, submission: Submitted, cell: Cell, mine: Cell) -> None:
        """Check that a name stands for one result, as it does if the names in the grids have no parentheses."""
        key = job_key([stored(submission, ref, self.conflicts) for ref in cell.job.refs])
        first, known = self.keys.setdefault(mine.cell_id, (submission.submission_id, key))
        if known != key:
            raise BundleError(
                f"The submissions {first} and {submission.submission_id} have different results under the name "
                f"{shown(mine.cell_id)}. Merge only one of them."
            )

    def _merged(self, submission: Submitted, cell: Cell, mine: Cell) -> MergedCell:
        return MergedCell(
            mine,
            cell.cell_id,
            self.names.variant(submission, cell),
            self.names.namespace(submission, cell.leaderboard),
            bool(self.names.conflict(submission, cell.job)),
            self.names.cell_without_namespace(submission, cell).cell_id,
        )

    def _job(
        self,
        submission: Submitted,
        job: Job[Parameters],
        reader: _Reader,
        added: Mapping[tuple[int, _Reader], Job[Parameters]],
    ) -> Job[Parameters]:
        """Return a job with the names and the addresses of the merged leaderboard, the same one for equal jobs."""
        labels = self.names.labels(submission, job.labels, *reader)
        shards = tuple(self._shard(submission, shard) for shard in job.shards)
        key = job.key
        if any(mine is not theirs for mine, theirs in zip(shards, job.shards, strict=True)):
            key = job_key([shard.ref for shard in shards])
        if self.labels.setdefault(key, labels) != labels:
            # The job has several names. In the database, each of them has a job of its own.
            key = content_key({"job": key, "names": str(labels)})
        if (key, labels) not in self.jobs:
            inputs = tuple(added[id(source), reader] for source in job.inputs)
            self.jobs[key, labels] = Job(key, labels, shards, inputs)
        return self.jobs[key, labels]

    def _shard(self, submission: Submitted, shard: Shard[Parameters]) -> Shard[Parameters]:
        refs = [shard.ref, *(ref for refs in shard.inputs.values() for ref in refs)]
        if not any(ref in self.conflicts for ref in refs):
            return shard
        inputs = {
            role: tuple(stored(submission, ref, self.conflicts) for ref in refs)
            for role, refs in shard.inputs.items()
        }
        return replace(shard, ref=stored(submission, shard.ref, self.conflicts), inputs=inputs)

    def _seconds(self) -> dict[ArtifactRef, float]:
        found: dict[ArtifactRef, float] = {}
        for each in self.submissions:
            for ref, seconds in (each.plan.model_seconds or {}).items():
                found.setdefault(stored(each, ref, self.conflicts), seconds)
        return found

    def _failures(self) -> dict[str, Failure]:
        done = {ref.key for each in self.submissions for ref in each.contents}
        found: dict[str, Failure] = {}
        for each in self.submissions:
            for key, failure in each.failures.items():
                if key not in done:
                    found.setdefault(key, failure)
        return found


_Reader = tuple[Leaderboard, str]
"""A leaderboard with a row that was computed from a job, and what the name of this row tells of a conflict."""


def _wanted(
    submission: Submitted, cells: Iterable[Cell], names: Names
) -> Iterable[tuple[Job[Parameters], Iterable[_Reader]]]:
    """Return the jobs behind cells in their order, each with what reads it.

    Jobs that are behind no cell at all, such as curves, describe the pool, so the scaling leaderboard needs them. Jobs
    that are only behind other cells are left out.
    """
    plan = submission.plan
    found: dict[int, dict[_Reader, None]] = {}
    for cell in cells:
        found.setdefault(id(cell.job), {})[cell.leaderboard, names.conflict(submission, cell.job)] = None
    behind_cells = {id(cell.job) for cell in plan.cells}
    for job in reversed(plan.jobs):
        if id(job) not in behind_cells:
            found.setdefault(id(job), {})["scaling", names.conflict(submission, job)] = None
        for source in job.inputs:
            found.setdefault(id(source), {}).update(found.get(id(job), {}))
            behind_cells.add(id(source))
    return [(job, found[id(job)]) for job in plan.jobs if found.get(id(job))]


class _JobPlace:
    """The place of a job: every job follows its inputs, and the order does not depend on that of the submissions."""

    def __init__(self, jobs: Iterable[Job[Parameters]], catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._depths: dict[int, int] = {}
        for job in jobs:  # Every job follows its inputs here, too.
            self._depths[id(job)] = 1 + max((self._depths[id(source)] for source in job.inputs), default=0)

    def __call__(self, job: Job[Parameters]) -> tuple[object, ...]:
        places = self._catalogue.places(job.labels)
        return self._depths[id(job)], job.kind, *places, job.labels.split, job.key


def _cell_place(cell: Cell, catalogue: Catalogue) -> tuple[object, ...]:
    """Return the place of a cell, in the order in which a grid plans its cells."""
    level, target = (-1.0 if each is None else each for each in (cell.level, cell.target))
    strategy = catalogue.place("strategy", cell.strategy)
    return (*catalogue.places(cell.labels), cell.leaderboard, level, strategy, target, cell.cell_id)
