"""The plan of a merged leaderboard: the union of the plans of its submissions, with names that tell variants apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from prmcal.harness.jobs.job import Job, Labels, Shard, job_key
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.merging.naming.catalogue import Catalogue
from prmcal.harness.merging.naming.namespaces import Names, Namespace
from prmcal.harness.merging.submissions.places import conflicts_of, stored
from prmcal.harness.merging.submissions.submitted import Submitted
from prmcal.harness.planning.plan import Cell, Plan
from prmcal.harness.scheduling.failures import Failure
from prmcal.harness.storage.keys import ArtifactRef, content_key

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
    namespace : int
        The place of its namespace.
    without_namespace : str
        Its id without what tells namespaces apart.
    done : list of Submitted
        The submissions that have its result, in their order.
    """

    cell: Cell
    base_id: str
    variant: str
    namespace: int
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
    namespaces : tuple of Namespace
    conflicts : frozenset of ArtifactRef
        The artifacts of which submissions have contents that contradict each other.
    failures : mapping of str to Failure
        Why shards failed that no submission has.
    own : mapping of str to mapping of str to Cell
        For each submission, its own cells by the ids of the plan.
    """

    plan: Plan
    cells: Mapping[str, MergedCell]
    submissions: tuple[Submitted, ...]
    namespaces: tuple[Namespace, ...]
    conflicts: frozenset[ArtifactRef]
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
        self.names = Names(submissions)
        self.jobs: dict[tuple[str, Labels], Job[Parameters]] = {}
        self.labels: dict[str, Labels] = {}
        self.cells: dict[str, MergedCell] = {}
        self.own: dict[str, dict[str, Cell]] = {each.submission_id: {} for each in submissions}

    def union(self) -> Union:
        for submission in self.submissions:
            self._add(submission)
        catalogue = Catalogue(self.submissions, self.names)
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
            tuple(self.names.namespaces),
            self.conflicts,
            self._failures(),
            self.own,
        )

    def _add(self, submission: Submitted) -> None:
        jobs: dict[int, Job[Parameters]] = {}
        for job in submission.plan.jobs:
            jobs[id(job)] = self._job(submission, job, jobs)
        for cell in submission.plan.cells:
            if submission.is_done(cell) or submission.has_failed(cell):
                mine = replace(self.names.cell(submission, cell), job=jobs[id(cell.job)])
                merged = self.cells.setdefault(mine.cell_id, self._merged(submission, cell, mine))
                if submission.is_done(cell):
                    merged.done.append(submission)
                self.own[submission.submission_id][mine.cell_id] = cell

    def _merged(self, submission: Submitted, cell: Cell, mine: Cell) -> MergedCell:
        return MergedCell(
            mine,
            cell.cell_id,
            self.names.variant(submission, cell),
            self.names.number(submission),
            self.names.cell_without_namespace(submission, cell).cell_id,
        )

    def _job(
        self, submission: Submitted, job: Job[Parameters], added: Mapping[int, Job[Parameters]]
    ) -> Job[Parameters]:
        """Return a job with the names and the addresses of the merged leaderboard, the same one for equal jobs."""
        labels = self.names.labels(submission, job.labels)
        shards = tuple(self._shard(submission, shard) for shard in job.shards)
        key = job.key
        if any(mine is not theirs for mine, theirs in zip(shards, job.shards, strict=True)):
            key = job_key([shard.ref for shard in shards])
        if self.labels.setdefault(key, labels) != labels:
            # The job has several names. In the database, each of them has a job of its own.
            key = content_key({"job": key, "names": str(labels)})
        if (key, labels) not in self.jobs:
            inputs = tuple(added[id(source)] for source in job.inputs)
            self.jobs[key, labels] = Job(key, labels, shards, inputs)
        return self.jobs[key, labels]

    def _shard(self, submission: Submitted, shard: Shard[Parameters]) -> Shard[Parameters]:
        refs = [shard.ref, *(ref for refs in shard.inputs.values() for ref in refs)]
        if self.conflicts.isdisjoint(refs):
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
