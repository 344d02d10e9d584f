"""The union of submissions by key: one plan, and what tells its rows apart.

Rows have the names of the grids. What differs between rows of the same names is in columns:

- `seed`: the seed of the grid, always;
- `conditions`: in what a row was measured differently from others of its leaderboard, such as ``seed 2; bins 5``. Only
  rows with the same LLM, PRM, data set and conditions compete;
- `version`: how the calibrator or the strategy differs from those of the newest row with the same conditions;
- `conflict`: whether another submission has other bytes under a key behind the row.

Other bytes of a shard that a GPU or a server computed are no conflict. They are a replicate, as another seed is.
Everything is a function of the set of submissions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    """A row of a merged leaderboard. The module says what `seed` and `version` are.

    Attributes
    ----------
    cell : Cell
        With its id on the leaderboard, and its conditions.
    base_id : str
        Its id by the names in the grids.
    conflict : bool
    alike : str
        What rows share that differ only in the seed, or are replicates; empty if it contradicts an earlier row.
    done : mapping of Submitted to Cell
        The submissions that have its result, in their order, with their own cells.
    """

    cell: Cell
    base_id: str
    seed: int | None
    version: str
    conflict: bool
    alike: str
    done: Mapping[Submitted, Cell]


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
    conflicts : mapping of ArtifactRef to str
        The artifacts of which submissions have different contents, with that of the first submission.
    replicates : set of ArtifactRef
        Those of them that are no conflicts.
    failures : mapping of str to Failure
        Why shards failed that no submission has.
    curves : mapping of str to str
        The conditions of jobs that fill no cell, by their keys.
    """

    plan: Plan
    cells: Mapping[str, MergedCell]
    submissions: tuple[Submitted, ...]
    conflicts: Mapping[ArtifactRef, str]
    replicates: frozenset[ArtifactRef]
    failures: Mapping[str, Failure]
    curves: Mapping[str, str]

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

    Raises
    ------
    BundleError
        If submissions disagree which values of a metric are better.
    """
    unique = {each.submission_id: each for each in submissions}
    return _Builder(tuple(sorted(unique.values(), key=lambda each: each.place))).union()


@dataclass
class _Group:
    """Submissions whose rows at a place may be compared with each other."""

    conditions: list[str]
    further: str = ""
    repeated: bool = False
    keys: dict[tuple[str, str], str] = field(default_factory=dict)


@dataclass
class _Row:
    """A row while the union is made."""

    group: _Group
    identity: dict[str, Any]
    conflict: bool
    own: dict[Submitted, Cell] = field(default_factory=dict)


class _Builder:
    def __init__(self, submissions: tuple[Submitted, ...]) -> None:
        self.submissions = submissions
        self.conflicts = _conflicts_of(submissions)
        self.replicates = self._replicates()
        self.contents = {each.submission_id: self._behind(each) for each in submissions}
        self.words = Words(submissions)
        self.groups: dict[tuple[_Place, str], list[_Group]] = {}
        self.group_of: dict[tuple[str, _Place], _Group] = {}
        self.rows: dict[tuple[str, str], _Row] = {}

    def union(self) -> Union:
        for submission in self.submissions:
            self._add(submission)
        jobs, added = self._jobs()
        catalogue = Catalogue(self.submissions)
        cells = sorted(
            self._cells(added), key=lambda each: (*catalogue.place_of(each.cell), each.cell.cell_id)
        )
        depths: dict[int, int] = {}
        for job in jobs:  # Every job follows its inputs.
            depths[id(job)] = 1 + max((depths[id(source)] for source in job.inputs), default=0)
        plan = Plan(
            tuple(sorted(jobs, key=lambda job: (depths[id(job)], job.kind, str(job.labels), job.key))),
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
            self.conflicts,
            self.replicates,
            self._failures(),
            self._curves(added),
        )

    def _replicates(self) -> frozenset[ArtifactRef]:
        """Return the artifacts with several contents that the same computation may give, or that follow from such."""
        found: set[ArtifactRef] = set()
        repeatable: set[ArtifactRef] = set()
        for each in self.submissions if self.conflicts else ():
            for shard in each.plan.shards():
                if shard.ref in self.conflicts and shard.ref in each.contents:
                    read = [ref for refs in shard.inputs.values() for ref in refs if ref in self.conflicts]
                    follows = bool(read) and all(ref in found for ref in read)
                    (repeatable if is_repeatable(shard, each.record) and not follows else found).add(
                        shard.ref
                    )
        return frozenset(found - repeatable)

    def _behind(self, submission: Submitted) -> dict[int, tuple[str, bool]]:
        """Return the jobs behind which contents differ, by their identity in memory.

        Each has a hash of what differs from the first submissions, empty if nothing does, and whether it is a conflict.
        """
        found: dict[int, tuple[str, bool]] = {}
        behind: dict[ArtifactRef, tuple[str, bool]] = {}
        for job in submission.plan.jobs if self.conflicts else ():
            for shard in job.shards:
                refs = [ref for role in sorted(shard.inputs) for ref in shard.inputs[role]]
                read = [behind[ref] for ref in refs if ref in behind]
                first = self.conflicts.get(shard.ref, "")
                content = submission.contents.get(shard.ref, first)
                given = [*([content] if content != first else []), *(each for each, _ in read if each)]
                conflict = shard.ref in self.conflicts and shard.ref not in self.replicates
                if first or read:
                    digest = content_key(given) if given else ""
                    behind[shard.ref] = digest, conflict or any(each for _, each in read)
            own = [behind[ref] for ref in job.refs if ref in behind]
            if own:
                digests = [each for each, _ in own if each]
                found[id(job)] = content_key(digests) if digests else "", any(each for _, each in own)
        return found

    def _add(self, submission: Submitted) -> None:
        """Add the rows of a submission: to the first group at each place with the same conditions and no other keys."""
        contents = self.contents[submission.submission_id]
        places: dict[_Place, list[tuple[Cell, str, dict[str, Any]]]] = {}
        for cell in submission.plan.cells:
            if submission.is_done(cell) or submission.has_failed(cell):
                variant = content_key([cell.job.key, contents.get(id(cell.job), ("", False))[0]])
                identity = self.words.version(submission, cell)
                places.setdefault(_place(cell), []).append((cell, variant, identity))
        for place, given in places.items():
            conditions = self.words.conditions(submission, given[0][0])
            keys = {(cell.cell_id, content_key(identity)): variant for cell, variant, identity in given}
            group = self._group(submission, place, conditions, keys)
            for cell, variant, identity in given:
                conflict = contents.get(id(cell.job), ("", False))[1]
                row = self.rows.setdefault((cell.cell_id, variant), _Row(group, identity, conflict))
                row.own[submission] = cell

    def _group(
        self, submission: Submitted, place: _Place, conditions: list[str], keys: dict[tuple[str, str], str]
    ) -> _Group:
        alike = self.groups.setdefault((place, "; ".join(conditions)), [])
        fitting = (
            group for group in alike if all(group.keys.get(name, key) == key for name, key in keys.items())
        )
        found = next(fitting, None)
        if found is None:
            found = _Group(conditions)
            if alike:
                self._tell_apart(found, alike, submission, place)
            alike.append(found)
        found.keys |= keys
        self.group_of[submission.submission_id, place] = found
        return found

    def _tell_apart(
        self, group: _Group, others: Sequence[_Group], submission: Submitted, place: _Place
    ) -> None:
        """Say what tells a group apart from others of the same conditions: a replicate, shards, or its submission."""
        shards = "; ".join(self.words.shards(submission))
        contents = self.contents[submission.submission_id]
        own = [
            contents[id(cell.job)]
            for cell in submission.plan.cells
            if _place(cell) == place and id(cell.job) in contents
        ]
        changed = [conflict for digest, conflict in own if digest]
        if changed and not any(changed):
            group.repeated = True
            group.further = f"replicate {len(others) + 1}"
        elif not changed and shards and shards not in [each.further for each in others]:
            group.further = shards
        else:
            group.further = f"submission {submission.submission_id[:8]}"

    def _cells(self, added: Mapping[int, Job[Parameters]]) -> Iterator[MergedCell]:
        by_name: dict[str, list[tuple[str, _Row]]] = {}
        for (base_id, variant), row in self.rows.items():
            by_name.setdefault(base_id, []).append((variant, row))
        for base_id, rows in by_name.items():
            for variant, row in rows:
                same = [each for _, each in rows if each.group is row.group]
                newest = max(same, key=lambda each: [submission.place for submission in each.own][-1])
                names = differing(each.identity for each in same) if row is not newest else ()
                version = words(row.identity, names)
                conditions = filter(None, [*row.group.conditions, row.group.further])
                done = {each: own for each, own in row.own.items() if each.is_done(own)}
                first, cell = next(iter((done or row.own).items()))
                spread = [each for each in row.group.conditions if not each.startswith(f"{SEED} ")]
                contradicts = bool(row.group.further) and not row.group.repeated
                yield MergedCell(
                    replace(
                        cell,
                        job=added[id(cell.job)],
                        conditions="; ".join(conditions),
                        variant=variant[:8] if len(rows) > 1 else "",
                    ),
                    base_id,
                    first.record.grid.get(SEED),
                    "; ".join(version),
                    row.conflict,
                    "" if contradicts else "\n".join([base_id, *spread, *version]),
                    done,
                )

    def _jobs(self) -> tuple[list[Job[Parameters]], dict[int, Job[Parameters]]]:
        """Return the jobs of all submissions, equal ones once, and the job that stands for each."""
        found: dict[tuple[str, Labels], Job[Parameters]] = {}
        labels: dict[str, Labels] = {}
        added: dict[int, Job[Parameters]] = {}
        for submission in self.submissions:
            for job in submission.plan.jobs:
                shards = tuple(self._shard(submission, shard) for shard in job.shards)
                same = all(mine is theirs for mine, theirs in zip(shards, job.shards, strict=True))
                key = job.key if same else job_key([shard.ref for shard in shards])
                if labels.setdefault(key, job.labels) != job.labels:
                    # The grids have several names for it. In the database, each of them has a job of its own.
                    key = content_key({"job": key, "names": str(job.labels)})
                if (key, job.labels) not in found:
                    inputs = tuple(added[id(source)] for source in job.inputs)
                    found[key, job.labels] = Job(key, job.labels, shards, inputs)
                added[id(job)] = found[key, job.labels]
        return list(found.values()), added

    def _shard(self, submission: Submitted, shard: Shard[Parameters]) -> Shard[Parameters]:
        refs = [shard.ref, *(ref for refs in shard.inputs.values() for ref in refs)]
        if not any(ref in self.conflicts for ref in refs):
            return shard
        inputs = {
            role: tuple(_stored(submission, ref, self.conflicts) for ref in refs)
            for role, refs in shard.inputs.items()
        }
        return replace(shard, ref=_stored(submission, shard.ref, self.conflicts), inputs=inputs)

    def _curves(self, added: Mapping[int, Job[Parameters]]) -> dict[str, str]:
        """Return the conditions of curves. Those of an older version of a calibrator have its words too."""
        found: dict[str, str] = {}
        newest: set[tuple[int, Labels]] = set()
        for submission in reversed(self.submissions):
            for job in submission.plan.jobs:
                place = ("scaling", job.labels.llm, job.labels.prm, job.labels.dataset)
                group = self.group_of.get((submission.submission_id, place))
                key = added[id(job)].key
                if job.kind != "curves" or group is None or key in found:
                    continue
                conditions = list(filter(None, [*group.conditions, group.further]))
                if (id(group), job.labels) in newest:
                    conditions.append(f"job {key[:8]}")
                newest.add((id(group), job.labels))
                found[key] = "; ".join(conditions)
        return found

    def _seconds(self) -> dict[ArtifactRef, float]:
        found: dict[ArtifactRef, float] = {}
        for each in self.submissions:
            for ref, seconds in (each.plan.model_seconds or {}).items():
                found.setdefault(_stored(each, ref, self.conflicts), seconds)
        return found

    def _failures(self) -> dict[str, Failure]:
        done = {ref.key for each in self.submissions for ref in each.contents}
        found: dict[str, Failure] = {}
        for each in self.submissions:
            for key, failure in each.failures.items():
                if key not in done:
                    found.setdefault(key, failure)
        return found


def _conflicts_of(submissions: Iterable[Submitted]) -> dict[ArtifactRef, str]:
    """Return the artifacts of which submissions have different contents, each with that of the first submission."""
    first: dict[ArtifactRef, str] = {}
    found: dict[ArtifactRef, str] = {}
    for each in submissions:
        for ref, content in each.contents.items():
            if first.setdefault(ref, content) != content:
                found[ref] = first[ref]
    return found


def _stored(submission: Submitted, ref: ArtifactRef, conflicts: Mapping[ArtifactRef, str]) -> ArtifactRef:
    """Return the address of an artifact of a submission: its key, and the content if several contents have this key.

    What the submission does not have, because a job failed, has the content of the first submission with it.
    """
    if ref not in conflicts:
        return ref
    return ArtifactRef(ref.kind, f"{ref.key}-{submission.contents.get(ref, conflicts[ref])[:8]}")


def _place(cell: Cell) -> _Place:
    return cell.leaderboard, cell.labels.llm, cell.labels.prm, cell.labels.dataset
