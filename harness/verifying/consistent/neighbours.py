"""Which artifacts one process examines one after another: those whose computation shares the most."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import LeagueParameters, Parameters, StrategyParameters
from prmcal.harness.storage.store import ArtifactRef
from prmcal.harness.verifying.consistent.again import is_recomputed
from prmcal.harness.verifying.subject import Subject

__all__ = ["neighbours", "orphans", "strategy_of"]

_TOGETHER = 48
"""Artifacts that a process takes at a time, at most."""

_Group = list[Shard[Parameters]]


def neighbours(subject: Subject) -> list[_Group]:
    """Return the shards to examine, in groups. They are here with all that they read.

    The shards of a group read the same tables, and strategies of a group share what they compute of a question: those
    of one LLM, PRM, calibrator and data set, and in it the result of a strategy and its curve. Curves of strategies
    that need no PRM are equal for all PRMs. Groups of one LLM, PRM and data set follow each other, and the longest work
    comes first, so that all processes end at about the same time.
    """
    without_prm = {
        shard.parameters.strategy.name
        for shard in subject.plan.shards()
        if isinstance(shard.parameters, StrategyParameters) and not subject.plan.job_of(shard.ref).labels.prm
    }
    places: dict[tuple[str, str, str], dict[str, _Group]] = defaultdict(lambda: defaultdict(list))
    for shard in filter(lambda each: _is_here(subject, each), subject.plan.shards()):
        labels = subject.plan.job_of(shard.ref).labels
        prm = "" if strategy_of(shard) in without_prm else labels.prm
        places[labels.dataset, labels.llm, prm][labels.calibrator].append(shard)

    def seconds(shards: Iterable[Shard[Parameters]]) -> float:
        return sum(subject.manifests[each.ref].seconds for each in shards if each.ref in subject.manifests)

    of_place = [
        [part for shards in place.values() for part in _parts(sorted(shards, key=strategy_of))]
        for place in places.values()
    ]
    of_place.sort(key=lambda parts: -sum(map(seconds, parts)))
    return [part for parts in of_place for part in sorted(parts, key=lambda part: -seconds(part))]


def orphans(subject: Subject) -> list[ArtifactRef]:
    """Return the artifacts that are here without what they are computed from, so that nobody can compute them again."""
    return [
        shard.ref
        for shard in subject.plan.shards()
        if shard.ref in subject.manifests
        and not (_is_here(subject, shard) and subject.failed.isdisjoint(ref.key for ref in _inputs(shard)))
    ]


def _is_here(subject: Subject, shard: Shard[Parameters]) -> bool:
    needed = (shard.ref, *_inputs(shard))
    return all(ref in subject.manifests for ref in needed if ref.kind != "fit" or is_recomputed(shard))


def _inputs(shard: Shard[Parameters]) -> list[ArtifactRef]:
    """Return what a shard reads. Hidden states are never submitted."""
    return [ref for refs in shard.inputs.values() for ref in refs if ref.kind != "hidden"]


def strategy_of(shard: Shard[Parameters]) -> str:
    """Return the name of the strategy that a shard measures; empty for other shards."""
    given = shard.parameters
    return given.strategy.name if isinstance(given, StrategyParameters | LeagueParameters) else ""


def _parts(shards: _Group) -> list[_Group]:
    return [shards[first : first + _TOGETHER] for first in range(0, len(shards), _TOGETHER)]
