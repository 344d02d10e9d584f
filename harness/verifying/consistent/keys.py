"""Keys: they hash to themselves, and what they are made of is what the parameters and the plugins of the plan say."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from prmcal.harness.jobs.job import Shard, job_key, shard_key
from prmcal.harness.jobs.parameters import (
    CalibratedParameters,
    CalibrationMetricsParameters,
    CurvesParameters,
    FitParameters,
    ImportedParameters,
    LeagueParameters,
    MeasuringParameters,
    Parameters,
    PluginReference,
    RolloutParameters,
    SearchParameters,
    StrategyParameters,
    SuccessParameters,
)
from prmcal.harness.share.verify_record import Check
from prmcal.harness.storage.store import content_key, seed_from_key
from prmcal.harness.verifying.findings import Flaw, concluded, place_of
from prmcal.harness.verifying.subject import Subject
from prmcal.registry.messages import shown

__all__ = ["check_identities", "check_keys", "references"]

_concluded = partial(concluded, tier="consistent")


def check_keys(subject: Subject) -> Check:
    """Check that the key of every shard and job is the hash of what the plan says that it is made of."""

    def flaws() -> Iterator[Flaw]:
        for shard in subject.plan.shards():
            if shard_key(shard.ref.kind, shard.version, shard.identity, shard.inputs) != shard.ref.key:
                yield Flaw(
                    f"The key {shard.ref.kind}/{shard.ref.key} is not the hash of its version, identity and inputs",
                    (shard.ref,),
                )
        for job in subject.plan.jobs:
            if job_key(job.refs) != job.key:
                yield Flaw(f"The key of the job {job} is not the hash of its shards", job.refs)

    n = len(subject.plan.shards())
    return _concluded(subject, name="keys", n=n, flaws=flaws(), passed=f"All {n:,} keys hash to themselves.")


def check_identities(subject: Subject) -> Check:
    """Check that the parameters of every shard, and the plugins of the plan, say what its key is made of.

    The parameters are what the functions of jobs read. The key is made of the identity.
    """
    plugins = {
        (kind, each.name): each.identity for kind, found in subject.plan.plugins.items() for each in found
    }
    graders = {(each.name, each.split): each.grader_version for each in subject.plan.datasets}
    seed = subject.record.grid.get("seed")

    def flaws() -> Iterator[Flaw]:
        for shard in subject.plan.shards():
            for name, said, keyed in _differences(shard, plugins, graders, seed):
                yield Flaw(
                    f"{place_of(subject, shard.ref)}: the plan says {name} = {shown(said)}, and the key was made with "
                    f"{shown(keyed)}",
                    (shard.ref,),
                )

    n = len(subject.plan.shards())
    passed = f"The parameters, plugins and seeds of {n:,} shards are those in their keys."
    return _concluded(subject, name="what keys are made of", n=n, flaws=flaws(), passed=passed)


def _differences(
    shard: Shard[Parameters],
    plugins: Mapping[tuple[str, str], Mapping[str, Any]],
    graders: Mapping[tuple[str, str], str],
    seed: Any,
) -> Iterator[tuple[str, Any, Any]]:
    """Yield a name, what the parameters say and what the identity says, where the two differ."""
    identity, data = shard.identity, shard.parameters.data
    for name, reference in references(shard.parameters):
        keyed = identity.get(name, {})
        planned = plugins.get((name, reference.name), keyed)
        if planned != keyed:
            yield name, planned, keyed
        arguments = keyed.get("arguments", {})
        said = {each: value for each, value in reference.arguments.items() if each in arguments}
        for each, value in said.items():
            if _plain(value) != arguments[each]:
                yield f"'{each}' of {reference.name}", value, arguments[each]
        if keyed.get("plugin", reference.plugin) != reference.plugin:
            yield name, reference.plugin, keyed["plugin"]
    for name, said in _decisive(shard, seed).items():
        if name not in identity or _plain(said) != identity[name]:
            yield name, said, identity.get(name)
    questions = identity.get("data")
    grader = graders.get((data.dataset.name, data.split))
    if questions is not None and grader is not None and questions.get("grader", [None])[0] != grader:
        yield "the grader's version", grader, questions.get("grader")
    given = shard.parameters
    if isinstance(given, MeasuringParameters) and questions is not None:
        follows = seed_from_key(content_key([questions.get("questions")]))
        if given.bootstrap.seed != follows:
            yield "the seed of the bootstrap", given.bootstrap.seed, follows


def references(parameters: Parameters) -> Iterator[tuple[str, PluginReference]]:
    """Yield the plugins whose identities the key of a shard contains, with their names in the identity."""
    if isinstance(parameters, ImportedParameters | CurvesParameters):
        return
    skipped = ("prm",) if isinstance(parameters, FitParameters | CalibratedParameters) else ()
    for name in ("llm", "prm", "calibrator", "strategy"):
        found = getattr(parameters, name, None)
        nested = isinstance(parameters, StrategyParameters | LeagueParameters)
        if found is not None and name not in skipped and not nested:
            yield name, found


def _decisive(shard: Shard[Parameters], seed: Any) -> dict[str, Any]:
    """Return what the identity of a shard must contain by its parameters, besides plugins and questions."""
    given = shard.parameters
    match given:
        case RolloutParameters():
            return {
                "trajectories": _ends(given.trajectories),
                "sampling": asdict(given.sampling),
                "seed": seed,
            }
        case SuccessParameters():
            limit = {} if given.most_prefixes is None else {"most_prefixes": given.most_prefixes}
            return {
                "trajectories": _ends(given.trajectories),
                "follow_ups": _ends(given.follow_ups),
                "sampling": asdict(given.sampling),
                "seed": seed,
                **limit,
            }
        case ImportedParameters():
            return {"trajectories": _ends(given.trajectories), "follow_ups": _ends(given.follow_ups)}
        case FitParameters():
            return {"measured": given.trajectories.stop, "terminal": given.terminal}
        case CalibratedParameters():
            levels = {"levels": list(given.levels)} if given.levels else {}
            return {"measured": given.trajectories.stop, **levels}
        case SearchParameters():
            return {
                "sampling": asdict(given.sampling),
                "target": given.target,
                "level": given.level,
                "seed": seed,
            }
        case MeasuringParameters():
            return {"parameters": _measured(given, shard.identity), "bootstrap": asdict(given.bootstrap)}
    return {}


def _measured(given: MeasuringParameters, identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a measurement as they are in its identity, with the plugins' own identities."""
    keyed = identity.get("parameters", {})
    match given:
        case CalibrationMetricsParameters():
            own = dict(keyed.get("metrics", []))
            metrics = [[each.name, _with_arguments(each, own.get(each.name))] for each in given.metrics]
            return {"bins": given.bins, "terminal": given.terminal, "metrics": metrics}
        case CurvesParameters():
            return {"samples": given.samples}
        case StrategyParameters():
            strategy = _with_arguments(given.strategy, keyed.get("strategy"))
            return {
                "samples": given.samples,
                "target": given.target,
                "level": given.level,
                "strategy": strategy,
            }
        case LeagueParameters():
            strategy = _with_arguments(given.strategy, keyed.get("strategy"))
            return {"samples": given.samples, "level": given.level, "strategy": strategy}
    return {}


def _with_arguments(reference: PluginReference, identity: Mapping[str, Any] | None) -> Any:
    """Return an identity with the plugin and the arguments of a reference, as far as it has these arguments."""
    if identity is None:
        return None
    arguments = identity.get("arguments", {})
    given = {name: value for name, value in reference.arguments.items() if name in arguments}
    named = {"plugin": reference.plugin} if "plugin" in identity else {}
    return {**identity, **named, "arguments": {**arguments, **given}}


def _ends(given: range) -> list[int]:
    return [given.start, given.stop]


def _plain(value: Any) -> Any:
    """Return a value as JSON reads it."""
    return json.loads(json.dumps(value))
