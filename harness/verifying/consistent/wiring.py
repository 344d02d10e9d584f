"""Wiring: jobs read the artifacts of their own LLM, PRM, calibrator and questions, and cells show their own jobs."""

from __future__ import annotations

from collections.abc import Iterator

from prmcal.harness.jobs.job import TUNING, Job, Labels, of_other
from prmcal.harness.jobs.parameters import (
    CalibratorParameters,
    FitParameters,
    LeagueParameters,
    MeasuringParameters,
    Parameters,
    StrategyParameters,
)
from prmcal.harness.planning.plan import Cell
from prmcal.harness.storage.keys import ArtifactRef
from prmcal.harness.verifying.consistent.keys import references
from prmcal.harness.verifying.consistent.questions import Place
from prmcal.harness.verifying.findings import Flaw, concluded
from prmcal.harness.verifying.record import Check
from prmcal.harness.verifying.subject import Subject

__all__ = ["check_wiring"]

_ROLES = ("rollout", "score", "calibrated", "pool_rewards", "success")
_KINDS = {
    "rollout": ("rollout", "imported"),
    "success": ("success", "imported"),
    "pool_rewards": ("calibrated",),
    "fixed": ("search",),
}
"""The kinds of the artifacts that a shard reads under a role. Other roles are named as the kind."""


def check_wiring(subject: Subject) -> Check:
    """Check which job reads what.

    A calibrator that was fitted to test questions, and a measurement that leaves out some artifacts, is found here.
    """
    tested = {(cell.labels.dataset, cell.labels.split) for cell in subject.plan.cells}

    def flaws() -> Iterator[Flaw]:
        for job in subject.plan.jobs:
            for message in dict.fromkeys(_flaws_of(subject, job, tested)):
                yield Flaw(f"{job}: {message}", job.refs)
        for cell in subject.plan.cells:
            for message in _flaws_of_cell(cell):
                yield Flaw(f"The cell {cell.cell_id} {message}", cells=(cell.cell_id,))

    n = len(subject.plan.jobs)
    passed = f"All {n:,} jobs read what belongs to them, and all cells show their jobs."
    return concluded(subject, "consistent", "which job reads what", n, flaws(), passed)


def _flaws_of(subject: Subject, job: Job[Parameters], tested: set[Place]) -> Iterator[str]:
    sources = {ref: source for source in job.inputs for ref in source.refs}
    labels = job.labels
    for shard in job.shards:
        given = shard.parameters
        if (given.data.dataset.name, given.data.split) != (labels.dataset, labels.split):
            yield f"one of its shards reads {given.data.dataset.name}/{given.data.split}"
        for name, reference in references(given):
            if name != "strategy" and reference.name != getattr(labels, name):
                yield f"one of its shards runs '{reference.name}'"
        for role, refs in shard.inputs.items():
            if any(ref not in sources for ref in refs):
                yield f"it reads artifacts as '{role}' that are not those of its inputs"
                continue
            inputs = {sources[ref].key: sources[ref] for ref in refs}
            for source in inputs.values():
                yield from _flaws_of_input(subject, job, role, source)
                if not _needed(given, source) <= set(refs):
                    yield f"it leaves out some of the artifacts that it reads as '{role}'"
    if isinstance(job.shards[0].parameters, FitParameters) and (labels.dataset, labels.split) in tested:
        yield f"the calibrator is fitted to {labels.dataset}/{labels.split}, on which cells are tested"


def _needed(given: Parameters, source: Job[Parameters]) -> set[ArtifactRef]:
    """Return the artifacts of a job that a shard which reads them must read."""
    if isinstance(given, MeasuringParameters):
        return set(source.refs)
    if not isinstance(given, CalibratorParameters):
        return set()  # It reads the artifact of its own questions, which the rows show.
    first = given.trajectories.stop
    return {
        shard.ref
        for shard in source.shards
        if getattr(shard.parameters, "trajectories", range(1)).start < first
    }


def _flaws_of_input(
    subject: Subject, job: Job[Parameters], role: str, source: Job[Parameters]
) -> Iterator[str]:
    other, plain = _parts(role)
    tuning = plain.startswith(TUNING)
    plain = plain.removeprefix(TUNING)
    if source.kind not in _KINDS.get(plain, (plain,)):
        yield f"it reads {source.kind} as '{role}'"
    own = {"llm": other or job.labels.llm, "prm": job.labels.prm}
    if plain != "fixed":
        own["calibrator"] = job.labels.calibrator
    for kind, name in own.items():
        theirs = getattr(source.labels, kind)
        if name and theirs and not _same_plugin(subject, kind, name, theirs):
            yield f"as '{role}' it reads what belongs to '{theirs}' in place of '{name}'"
    if not tuning and plain != "fit" and not _same_questions(subject, job.labels, source.labels):
        yield f"as '{role}' it reads the questions of {source.labels.dataset}/{source.labels.split}"


def _parts(role: str) -> tuple[str, str]:
    """Return the other LLM whose artifacts a shard reads under a role, or nothing, and the rest of the role."""
    begin = of_other("")[:-1]
    if role.startswith(begin):
        for rest in (*(f"{TUNING}{each}" for each in _ROLES), *_ROLES):
            if role.endswith(f"_{rest}"):
                return role[len(begin) : -len(rest) - 1], rest
    return "", role


def _same_plugin(subject: Subject, kind: str, one: str, other: str) -> bool:
    """Return whether two names of a grid are one plugin. Searches of equal plugins are one job."""
    identities = {each.name: each.identity for each in subject.plan.plugins.get(kind, ())}
    return one == other or (one in identities and identities[one] == identities.get(other))


def _same_questions(subject: Subject, one: Labels, other: Labels) -> bool:
    hashes = {(each.name, each.split): each.content_hash for each in subject.plan.datasets}
    places = (one.dataset, one.split), (other.dataset, other.split)
    return places[0] == places[1] or (places[0] in hashes and hashes[places[0]] == hashes.get(places[1]))


def _flaws_of_cell(cell: Cell) -> Iterator[str]:
    if cell.labels != cell.job.labels:
        yield f"is filled by the job of {cell.job.labels}"
    given = cell.job.shards[0].parameters
    if isinstance(given, StrategyParameters | LeagueParameters) and given.strategy.name != cell.strategy:
        yield f"is filled by the strategy '{given.strategy.name}'"
    if isinstance(given, StrategyParameters) and given.target != cell.target:
        yield f"has the target {cell.target}, and its job {given.target}"
    if isinstance(given, StrategyParameters | LeagueParameters) and given.level != cell.level:
        yield f"has the level {cell.level}, and its job {given.level}"
