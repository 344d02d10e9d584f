"""The union of submissions by key: one plan, and what tells its rows apart.

Rows have the names of the grids. What differs between rows of the same names is in columns:

- `seed`: the seed of the grid, always;
- `conditions`: in what a row was measured differently from others of its leaderboard, such as ``seed 2; bins 5``. Only
  rows with the same LLM, PRM, data set and conditions compete;
- `version`: how the calibrator or the strategy differs from those of the newest row with the same conditions;
- `conflict`: whether another submission has other bytes under a key behind the row.

Other bytes of a shard whose models are not deterministic are no conflict. They are a replicate, as another seed is.
Everything is a function of the set of submissions.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from prmcal.harness.execution.ending import Failure
from prmcal.harness.jobs.job import Job, Labels, Shard, job_key
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.planning.plan import Cell, Plan
from prmcal.harness.share.conditions import SEED, Catalogue, Words, differing, is_repeatable, words
from prmcal.harness.share.submissions import Submitted
from prmcal.harness.storage.store import ArtifactRef, content_key

_Place = tuple[str, str, str, str]
"""Leaderboard, LLM, PRM and data set."""


@dataclass
class MergedCell:
    """A row of a merged leaderboard. The module says what `seed` and `version` are."""

    cell: Cell
    """With its id on the leaderboard, and its conditions."""
    base_id: str
    """Its id by the names in the grids."""
    seed: int | None
    version: str
    conflict: bool
    alike: str
    """The properties of rows that differ in the seed, or are replicates; empty if it contradicts an earlier row."""
    done: Mapping[Submitted, Cell]
    """The submissions that have its result, in their order, with their own cells."""


@dataclass(frozen=True)
class Union:
    """A merged leaderboard before it is written."""

    plan: Plan
    cells: Mapping[str, MergedCell]
    """By their ids in the plan."""
    submissions: tuple[Submitted, ...]
    """In their order."""
    conflicts: Mapping[ArtifactRef, str]
    """The artifacts of which submissions have different contents, with that of the first submission."""
    replicates: frozenset[ArtifactRef]
    """Those of them that are no conflicts."""
    failures: Mapping[str, Failure]
    """The failures of shards that no submission has."""
    curves: Mapping[str, str]
    """The conditions of jobs that fill no cell, by their keys."""

    def stored(self, submission: Submitted, ref: ArtifactRef) -> ArtifactRef:
        """Return the address of an artifact of a submission in the merged folder."""
        return _stored(submission, ref, self.conflicts)

    def seeds(self) -> list[list[MergedCell]]:
        """Return the groups of at least two rows that differ only in the seed, or are replicates."""
        groups: dict[str, list[MergedCell]] = {}
        for each in self.cells.values():
            if each.alike:
                groups.setdefault(each.alike, []).append(each)
        return [cells for cells in groups.values() if len(cells) > 1]


def union_of(submissions: Iterable[Submitted]) -> Union:
    """Return the union of submissions, which is a function of their set.

    Raises a BundleError if submissions disagree which values of a metric are better.
    """
    unique = {each.submission_id: each for each in submissions}
    return _Builder(tuple(sorted(unique.values(), key=lambda each: each.place))).union()


@dataclass
class _Group:
    """Rows at a place that may be compared with each other: equal conditions, and no two keys for one row.

    `further` tells it apart from other groups with these conditions, which it contradicts unless it is a replicate.
    """

    conditions: list[str]
    further: str = ""
    is_replicate: bool = False
    keys: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return "; ".join(filter(None, [*self.conditions, self.further]))


@dataclass
class _Row:
    """A row while the union is made."""

    group: _Group
    version: dict[str, Any]
    conflict: bool
    own: dict[Submitted, Cell] = field(default_factory=dict)


class _Builder:
    def __init__(self, submissions: tuple[Submitted, ...]) -> None:
        self.submissions = submissions
        self.conflicts = _conflicts_of(submissions)
        self.replicates = _replicates(submissions, self.conflicts)
        self.words = Words(submissions)
        self.labels: dict[str, Labels] = {}
        self.jobs: dict[tuple[str, Labels], Job[Parameters]] = {}
        self.added: dict[int, Job[Parameters]] = {}
        self.differing: dict[int, set[ArtifactRef]] = {}
        self.groups: dict[tuple[_Place, str], list[_Group]] = defaultdict(list)
        self.group_of: dict[tuple[str, _Place], _Group] = {}
        self.rows: dict[str, dict[str, _Row]] = defaultdict(dict)

    def union(self) -> Union:
        seconds: dict[ArtifactRef, float] = {}
        failures: dict[str, Failure] = {}
        done = {ref.key for each in self.submissions for ref in each.contents}
        for each in self.submissions:
            self._add_jobs(each)
            self._add_rows(each)
            for ref, own in (each.plan.model_seconds or {}).items():
                seconds.setdefault(_stored(each, ref, self.conflicts), own)
            for key, failure in each.failures.items():
                if key not in done:
                    failures.setdefault(key, failure)
        catalogue = Catalogue(self.submissions)
        cells = sorted(self._cells(), key=lambda each: (*catalogue.place_of(each.cell), each.cell.cell_id))
        plan = Plan(
            tuple(self.jobs.values()),
            tuple(each.cell for each in cells),
            catalogue.plugins(),
            catalogue.datasets(),
            catalogue.metrics(),
            model_seconds=seconds,
        )
        return Union(
            plan,
            {each.cell.cell_id: each for each in cells},
            self.submissions,
            self.conflicts,
            self.replicates,
            failures,
            self._curves(),
        )

    def _add_jobs(self, submission: Submitted) -> None:
        """Add the jobs of a submission, those that are there already once, and note the job that stands for each."""
        for job in submission.plan.jobs:
            shards = tuple(self._shard(submission, shard) for shard in job.shards)
            key = job_key([shard.ref for shard in shards])
            if self.labels.setdefault(key, job.labels) != job.labels:
                # The grids have several names for it. In the database, each of them has a job of its own.
                key = content_key({"job": key, "names": str(job.labels)})
            if (key, job.labels) not in self.jobs:
                inputs = tuple(self.added[id(source)] for source in job.inputs)
                self.jobs[key, job.labels] = Job(key, job.labels, shards, inputs)
            self.added[id(job)] = self.jobs[key, job.labels]
            self.differing[id(job)] = {ref for ref in job.refs if ref in self.conflicts}.union(
                *(self.differing[id(source)] for source in job.inputs)
            )

    def _shard(self, submission: Submitted, shard: Shard[Parameters]) -> Shard[Parameters]:
        if self.conflicts.keys().isdisjoint([shard.ref, *chain(*shard.inputs.values())]):
            return shard
        inputs = {
            role: tuple(_stored(submission, ref, self.conflicts) for ref in refs)
            for role, refs in shard.inputs.items()
        }
        return replace(shard, ref=_stored(submission, shard.ref, self.conflicts), inputs=inputs)

    def _add_rows(self, submission: Submitted) -> None:
        """Add the rows of a submission: to the first group at each place with the same conditions and no other keys."""
        places: dict[_Place, list[Cell]] = defaultdict(list)
        for cell in submission.plan.cells:
            if submission.is_done(cell) or submission.has_failed(cell):
                places[_place(cell.leaderboard, cell.labels)].append(cell)
        for place, cells in places.items():
            versions = [self.words.version(submission, cell) for cell in cells]
            keys = {
                (cell.cell_id, content_key(version)): self.added[id(cell.job)].key
                for cell, version in zip(cells, versions, strict=True)
            }
            differing = set().union(*(self.differing[id(cell.job)] for cell in cells))
            group = self._group(
                submission, place, self.words.conditions(submission, cells[0]), keys, differing
            )
            self.group_of[submission.submission_id, place] = group
            for cell, version in zip(cells, versions, strict=True):
                conflict = not self.differing[id(cell.job)] <= self.replicates
                rows = self.rows[cell.cell_id]
                row = rows.setdefault(self.added[id(cell.job)].key, _Row(group, version, conflict))
                row.own[submission] = cell

    def _group(
        self,
        submission: Submitted,
        place: _Place,
        conditions: list[str],
        keys: dict[tuple[str, str], str],
        differing: set[ArtifactRef],
    ) -> _Group:
        alike = self.groups[place, "; ".join(conditions)]
        for group in alike:
            if all(group.keys.get(name, key) == key for name, key in keys.items()):
                group.keys |= keys
                return group
        found = _Group(conditions, keys=keys)
        if alike:
            found.is_replicate = bool(differing) and differing <= self.replicates
            number, name = len(alike) + 1, submission.submission_id[:8]
            found.further = f"replicate {number}" if found.is_replicate else f"submission {name}"
        alike.append(found)
        return found

    def _cells(self) -> Iterator[MergedCell]:
        for base_id, rows in self.rows.items():
            for key, row in rows.items():
                same = [each for each in rows.values() if each.group is row.group]
                newest = max(same, key=lambda each: [submission.place for submission in each.own][-1])
                names = differing(each.version for each in same) if row is not newest else ()
                version = words(row.version, names)
                done = {each: own for each, own in row.own.items() if each.is_done(own)}
                first, cell = next(iter((done or row.own).items()))
                spread = [each for each in row.group.conditions if not each.startswith(f"{SEED} ")]
                contradicts = bool(row.group.further) and not row.group.is_replicate
                variant = content_key(key)[:8] if len(rows) > 1 else ""
                yield MergedCell(
                    replace(cell, job=self.added[id(cell.job)], conditions=row.group.text, variant=variant),
                    base_id,
                    first.record.grid.get(SEED),
                    "; ".join(version),
                    row.conflict,
                    "" if contradicts else "\n".join([base_id, *spread, *version]),
                    done,
                )

    def _curves(self) -> dict[str, str]:
        """Return the conditions of curves. Those of an older version of a calibrator have their key too."""
        found: dict[str, str] = {}
        newest: set[tuple[int, Labels]] = set()
        for submission in reversed(self.submissions):
            for job in submission.plan.jobs:
                group = self.group_of.get((submission.submission_id, _place("scaling", job.labels)))
                key = self.added[id(job)].key
                if job.kind == "curves" and group is not None and key not in found:
                    older = f"job {key[:8]}" if (id(group), job.labels) in newest else ""
                    newest.add((id(group), job.labels))
                    found[key] = "; ".join(filter(None, [group.text, older]))
        return found


def _conflicts_of(submissions: Iterable[Submitted]) -> dict[ArtifactRef, str]:
    """Return the artifacts of which submissions have different contents, each with that of the first submission."""
    first: dict[ArtifactRef, str] = {}
    found: dict[ArtifactRef, str] = {}
    for each in submissions:
        for ref, content in each.contents.items():
            if content and first.setdefault(ref, content) != content:
                found[ref] = first[ref]
    return found


def _replicates(
    submissions: Iterable[Submitted], conflicts: Mapping[ArtifactRef, str]
) -> frozenset[ArtifactRef]:
    """Return the artifacts with several contents that the same computation may give, or that follow from such."""
    contradicted: set[ArtifactRef] = set()
    for each in submissions if conflicts else ():
        for shard in each.plan.shards():
            if shard.ref in conflicts and each.contents.get(shard.ref):
                read = conflicts.keys() & {*chain(*shard.inputs.values())}
                if is_repeatable(shard, each) and (not read or read & contradicted):
                    contradicted.add(shard.ref)
    return frozenset(conflicts.keys() - contradicted)


def _stored(submission: Submitted, ref: ArtifactRef, conflicts: Mapping[ArtifactRef, str]) -> ArtifactRef:
    """Return the address of an artifact of a submission: its key, and the content if several contents have this key.

    What the submission does not have has the content of the first submission with it.
    """
    if ref not in conflicts:
        return ref
    return ArtifactRef(ref.kind, f"{ref.key}-{(submission.contents.get(ref) or conflicts[ref])[:8]}")


def _place(leaderboard: str, labels: Labels) -> _Place:
    return leaderboard, labels.llm, labels.prm, labels.dataset
