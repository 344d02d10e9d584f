"""The jobs that others build on: trajectories, success rates, scores, hidden states, fits and calibrated rewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, TypeVar

from prmcal.harness.jobs.job import Job, Labels, Shard
from prmcal.harness.jobs.parameters import (
    CalibratedParameters,
    CalibratorParameters,
    FitParameters,
    HiddenParameters,
    ImportedParameters,
    Parameters,
    PluginReference,
    QuestionSlice,
    RolloutParameters,
    ScoreParameters,
    SuccessParameters,
)
from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.planning.parts import Sampled, Scored, make_job, make_shard
from prmcal.harness.planning.plan import PlannedPlugin
from prmcal.harness.planning.resolved import GridQuestions
from prmcal.harness.storage.store import ArtifactRef
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.dataset import FollowedUpDataset
from prmcal.registry.contracts.models import LLM, PRM

Reading = TypeVar("Reading", bound=CalibratorParameters)


def rollout_job(
    grid: GridSpec, llm: PlannedPlugin[LLM], data: GridQuestions, trajectories: int
) -> Job[RolloutParameters]:
    """Sample and grade the trajectories of a data set."""
    return _rollout_of(grid, llm, data, _blocks(trajectories, grid.shards.trajectories))


def further_rollout_job(
    grid: GridSpec, llm: PlannedPlugin[LLM], data: GridQuestions, drawn: int, trajectories: int
) -> Job[RolloutParameters]:
    """Sample and grade the trajectories of a data set that come after the first `drawn` ones.

    The blocks double the number of trajectories, as far as the shards of the grid may. So a job that stops at 32 and
    one that stops at 64 share what both have.
    """
    blocks = []
    first = drawn
    while first < trajectories:
        last = min(2 * first, first + grid.shards.trajectories, trajectories)
        blocks.append(range(first, last))
        first = last
    return _rollout_of(grid, llm, data, blocks)


def _rollout_of(
    grid: GridSpec, llm: PlannedPlugin[LLM], data: GridQuestions, blocks: Sequence[range]
) -> Job[RolloutParameters]:
    sampling = grid.sampling.sampling()
    plain = asdict(sampling)
    shards = [
        make_shard(
            {
                "llm": llm.identity,
                "data": data.key(questions),
                "trajectories": [block.start, block.stop],
                "sampling": plain,
                "seed": grid.seed,
            },
            RolloutParameters(llm.reference, questions, block, sampling),
            {},
            resource=f"llm:{llm.name}",
        )
        for block in blocks
        for questions in data.slices()
    ]
    return make_job(_labels(llm, data), shards)


def success_job(
    grid: GridSpec,
    llm: PlannedPlugin[LLM],
    rollout: Job[RolloutParameters],
    measured: int,
    follow_ups: int,
    most_prefixes: int | None,
) -> Job[SuccessParameters]:
    """Follow up all prefixes of the first `measured` trajectories, or at most `most_prefixes` of each."""
    sampling = grid.sampling.sampling()
    limit = {} if most_prefixes is None else {"most_prefixes": most_prefixes}
    plain = asdict(sampling)
    shards = [
        make_shard(
            {
                "llm": llm.identity,
                "trajectories": [trajectories.start, trajectories.stop],
                "follow_ups": [block.start, block.stop],
                "sampling": plain,
                "seed": grid.seed,
                **limit,
            },
            SuccessParameters(
                llm.reference, source.parameters.data, trajectories, block, sampling, most_prefixes
            ),
            {"rollout": [source.ref]},
            resource=f"llm:{llm.name}",
        )
        for source in rollout.shards
        if (trajectories := _first(source, measured))
        for block in _blocks(follow_ups, grid.shards.trajectories)
    ]
    return make_job(rollout.labels, shards, [rollout])


def imported_job(
    grid: GridSpec, llm: PlannedPlugin[LLM], data: GridQuestions, published: FollowedUpDataset
) -> Job[ImportedParameters]:
    """Read published trajectories of an LLM with their success rates, in place of the other two jobs."""
    calibration = grid.calibration
    content = published.content(llm.name)
    shards = [
        make_shard(
            {
                "trajectories": [0, calibration.trajectories],
                "follow_ups": [0, calibration.follow_ups],
                "data": data.key(questions),
                "published": content,
            },
            ImportedParameters(
                range(calibration.trajectories), range(calibration.follow_ups), llm.reference, questions
            ),
            {},
        )
        for questions in data.slices()
    ]
    return make_job(_labels(llm, data), shards)


def score_job(sampled: Sampled, prm: PlannedPlugin[PRM]) -> Job[ScoreParameters]:
    """Score all prefixes of all trajectories."""
    shards = [
        make_shard(
            {"prm": prm.identity},
            ScoreParameters(prm.reference, source.parameters.data, source.parameters.trajectories),
            {"rollout": [source.ref]},
            resource=f"prm:{prm.name}",
        )
        for source in sampled.rollout.shards
    ]
    return make_job(replace(sampled.labels, prm=prm.name), shards, [sampled.rollout])


def hidden_job(
    sampled: Sampled, prm: PlannedPlugin[PRM], scores: Job[ScoreParameters]
) -> Job[HiddenParameters]:
    """Compute the hidden states of the measured trajectories."""
    shards = [
        make_shard(
            {"prm": prm.identity, "measured": sampled.measured},
            HiddenParameters(prm.reference, source.parameters.data, trajectories),
            {"rollout": [source.ref], "score": [scored.ref]},
            resource=f"prm:{prm.name}",
        )
        for source, scored in zip(sampled.rollout.shards, scores.shards, strict=True)
        if (trajectories := _first(source, sampled.measured))
    ]
    return make_job(scores.labels, shards, [sampled.rollout, scores])


def fit_job(grid: GridSpec, calibrator: PlannedPlugin[Calibrator], scored: Scored) -> Job[FitParameters]:
    """Fit a calibrator to scored trajectories."""
    success, terminal = scored.sampled.success, grid.calibration.terminal
    parameters = FitParameters(*_reading(calibrator, scored), terminal, grid.calibration.most_prefixes)
    shard = _read(parameters, calibrator, scored, {"terminal": terminal}, {"success": success.refs})
    labels = replace(scored.labels, calibrator=calibrator.name)
    return make_job(labels, [shard], [*_sources(calibrator, scored), success])


def asked_levels(grid: GridSpec, calibrator: Calibrator) -> tuple[float, ...]:
    """Return the levels of the grid that a calibrator of any level has to predict besides its own, ascending."""
    return tuple(sorted(set(grid.scaling.levels) - set(calibrator.levels))) if calibrator.any_level else ()


def calibrated_job(
    grid: GridSpec, calibrator: PlannedPlugin[Calibrator], scored: Scored, fit: Job[FitParameters]
) -> Job[CalibratedParameters]:
    """Predict the rewards of scored trajectories with a fitted calibrator, also at the levels that the grid asks for.

    Only a calibrator of any level has levels in its key: those that are not its own.
    """
    asked = asked_levels(grid, calibrator.built)
    parameters = CalibratedParameters(*_reading(calibrator, scored), asked)
    shard = _read(parameters, calibrator, scored, {"levels": list(asked)} if asked else {}, {"fit": fit.refs})
    labels = replace(scored.labels, calibrator=calibrator.name)
    return make_job(labels, [shard], [fit, *_sources(calibrator, scored)])


def _reading(
    calibrator: PlannedPlugin[Calibrator], scored: Scored
) -> tuple[PluginReference, PluginReference, QuestionSlice, range]:
    """Return the fields of CalibratorParameters: who reads which trajectories."""
    sampled = scored.sampled
    return calibrator.reference, scored.prm.reference, sampled.data.whole, range(sampled.measured)


def _read(
    parameters: Reading,
    calibrator: PlannedPlugin[Calibrator],
    scored: Scored,
    decisive: Mapping[str, Any],
    inputs: Mapping[str, Sequence[ArtifactRef]],
) -> Shard[Reading]:
    """Make a shard in which a calibrator reads the measured trajectories.

    `decisive` are those of its own parameters that its key contains.
    """
    reads, sampled, prm = calibrator.built.reads, scored.sampled, scored.prm
    shards = [
        (source.ref, scores.ref)
        for source, scores in zip(sampled.rollout.shards, scored.scores.shards, strict=True)
        if _first(source, sampled.measured)
    ]
    read: dict[str, Sequence[ArtifactRef]] = {"score": [scores for _, scores in shards]}
    if reads == "hidden" and scored.hidden is not None:
        read["hidden"] = scored.hidden.refs
    if reads == "prm":
        read["rollout"] = [source for source, _ in shards]
    return make_shard(
        {"calibrator": calibrator.identity, "measured": sampled.measured, **decisive},
        parameters,
        {**read, **inputs},
        resource=f"prm:{prm.name}" if reads == "prm" else "",
    )


def _sources(calibrator: PlannedPlugin[Calibrator], scored: Scored) -> list[Job[Parameters]]:
    """Return the jobs whose artifacts a calibrator reads."""
    extra = {"hidden": scored.hidden, "prm": scored.sampled.rollout}.get(calibrator.built.reads)
    return [scored.scores, *([extra] if extra is not None else [])]


def _blocks(count: int, size: int) -> list[range]:
    return [range(start, min(start + size, count)) for start in range(0, count, size)]


def _first(source: Shard[RolloutParameters | ImportedParameters], measured: int) -> range:
    """Return which trajectories of a shard are among the first `measured`; an empty range if none are."""
    trajectories = source.parameters.trajectories
    return range(trajectories.start, min(trajectories.stop, measured))


def _labels(llm: PlannedPlugin[LLM], data: GridQuestions) -> Labels:
    return Labels(llm=llm.name, dataset=data.dataset.name, split=data.split)
