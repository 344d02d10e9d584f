"""The jobs that measure, and the searches that some of them measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeGuard, TypeVar

from prmcal.errors import GridError
from prmcal.harness.jobs.job import Job, Labels
from prmcal.harness.jobs.parameters import (
    CalibrationMetricsParameters,
    CurvesParameters,
    LeagueParameters,
    MeasuringParameters,
    Parameters,
    Resampling,
    SearchParameters,
    SearchResultsParameters,
    StrategyParameters,
)
from prmcal.harness.planning.grid import GridSpec, PluginSpec
from prmcal.harness.planning.parts import Calibrated, Scored, StrategyInputs, make_job, make_shard
from prmcal.harness.planning.plan import PlannedPlugin
from prmcal.harness.planning.resolved import GridQuestions, build_plugin
from prmcal.harness.storage.store import content_key, seed_from_key
from prmcal.registry.contracts.metric import Metric
from prmcal.registry.contracts.search import SearchStrategy
from prmcal.registry.contracts.strategy import Strategy
from prmcal.registry.plugins import strategies

Measuring = TypeVar("Measuring", bound=MeasuringParameters)


def calibration_metrics_job(
    grid: GridSpec, calibrated: Calibrated, metrics: Sequence[PlannedPlugin[Metric]]
) -> Job[CalibrationMetricsParameters]:
    """Compare calibrated rewards with success rates by some metrics."""
    sampled, bins, terminal = calibrated.scored.sampled, grid.measurement.bins, grid.measurement.terminal
    return _measuring_job(
        calibrated.labels,
        sampled.data,
        CalibrationMetricsParameters(
            bins,
            terminal,
            _resampling(grid, sampled.data),
            sampled.data.whole,
            tuple(each.reference for each in metrics),
        ),
        {
            "bins": bins,
            "terminal": terminal,
            "metrics": [[each.name, each.identity] for each in metrics],
        },
        {"calibrated": calibrated.rewards, "success": sampled.success},
    )


def curves_job(grid: GridSpec, scored: Scored, calibrated: Calibrated | None = None) -> Job[CurvesParameters]:
    """Compute accuracy against budget: of fixed n, or of IAS with a calibrator."""
    data, samples = scored.sampled.data, grid.scaling.samples
    inputs: dict[str, Job[Parameters]] = {"rollout": scored.sampled.rollout, "score": scored.scores}
    if calibrated is not None:
        inputs["calibrated"] = calibrated.rewards
    return _measuring_job(
        (calibrated or scored).labels,
        data,
        CurvesParameters(samples, _resampling(grid, data), data.whole),
        {"samples": samples},
        inputs,
    )


def strategy_job(
    grid: GridSpec, inputs: StrategyInputs, strategy: PlannedPlugin[Strategy], target: float | None
) -> Job[StrategyParameters]:
    """Compute what a strategy achieves on the pool."""
    data, samples = inputs.sampled.data, grid.scaling.samples
    return _measuring_job(
        inputs.labels,
        data,
        StrategyParameters(
            samples, target, inputs.level, strategy.reference, _resampling(grid, data), data.whole
        ),
        {"samples": samples, "target": target, "level": inputs.level, "strategy": strategy.identity},
        inputs.roles(strategy.built),
    )


def league_job(
    grid: GridSpec, inputs: StrategyInputs, strategy: PlannedPlugin[Strategy]
) -> Job[LeagueParameters]:
    """Compute the whole curve of a strategy, beside that of best-of-n with the scores of a PRM."""
    if inputs.scored is None:
        raise ValueError("A league needs the scores of a PRM.")
    data, samples = inputs.sampled.data, grid.scaling.samples
    return _measuring_job(
        inputs.labels,
        data,
        LeagueParameters(samples, inputs.level, strategy.reference, _resampling(grid, data), data.whole),
        {"samples": samples, "level": inputs.level, "strategy": strategy.identity},
        {**inputs.roles(strategy.built), "score": inputs.scored.scores},
    )


def search_results_job(
    grid: GridSpec, inputs: StrategyInputs, search: Job[SearchParameters], fixed: Job[SearchParameters]
) -> Job[SearchResultsParameters]:
    """Measure a search, and divide its budget by that of its baseline."""
    data = inputs.sampled.data
    return _measuring_job(
        inputs.labels,
        data,
        SearchResultsParameters(_resampling(grid, data), data.whole),
        {},
        {"search": search, "fixed": fixed},
    )


def is_search(strategy: PlannedPlugin[Strategy]) -> TypeGuard[PlannedPlugin[SearchStrategy]]:
    """Return whether the strategy generates step by step."""
    return isinstance(strategy.built, SearchStrategy)


def baseline_of(strategy: PlannedPlugin[SearchStrategy]) -> PlannedPlugin[SearchStrategy]:
    """Return the search of fixed width whose budget this one's is divided by.

    Raises
    ------
    PluginError, GridError
        If there is no such search.
    """
    name = strategy.built.baseline
    spec = PluginSpec(name=name.replace(" ", "-"), plugin=name, arguments=strategy.built.settings)
    found = build_plugin(strategies, spec)
    if not is_search(found):
        raise GridError(
            f"The search '{strategy.name}' has the 'baseline' '{name}', which is not a SearchStrategy."
        )
    return found


def search_job(
    grid: GridSpec, inputs: StrategyInputs, strategy: PlannedPlugin[SearchStrategy], target: float | None
) -> Job[SearchParameters]:
    """Search all questions with the models themselves: LLM, PRM, and the calibrator if there is one in the inputs."""
    if inputs.scored is None:
        raise GridError(f"The search '{strategy.name}' must have \"scores\" in its 'reads'.")
    llm, prm, data = inputs.sampled.llm, inputs.scored.prm, inputs.sampled.data
    calibrator = inputs.calibrated.calibrator if inputs.calibrated else None
    fits: list[Job[Parameters]] = [inputs.calibrated.fit] if inputs.calibrated else []
    sampling = grid.sampling.sampling()
    plain = asdict(sampling)
    shards = [
        make_shard(
            {
                "sampling": plain,
                "target": target,
                "level": inputs.level,
                "llm": llm.identity,
                "prm": prm.identity,
                **({"calibrator": calibrator.identity} if calibrator else {}),
                "strategy": strategy.identity,
                "data": data.key(questions),
                "seed": grid.seed,
            },
            SearchParameters(
                sampling,
                target,
                inputs.level,
                llm.reference,
                prm.reference,
                calibrator.reference if calibrator else None,
                strategy.reference,
                strategy.built.width * strategy.built.expansions,
                questions,
            ),
            {"fit": fits[0].refs} if fits else {},
            resource=f"search:{llm.name}+{prm.name}",
        )
        for questions in data.slices()
    ]
    return make_job(inputs.labels, shards, fits)


def _measuring_job(
    labels: Labels,
    data: GridQuestions,
    parameters: Measuring,
    decisive: Mapping[str, Any],
    inputs: Mapping[str, Job[Parameters]],
) -> Job[Measuring]:
    """Make a job of one shard that runs no model. `decisive` are those of its parameters that its key contains."""
    shard = make_shard(
        {
            "parameters": decisive,
            "bootstrap": asdict(parameters.bootstrap),
            "data": data.key(data.whole),
        },
        parameters,
        {role: job.refs for role, job in inputs.items()},
    )
    return make_job(labels, [shard], list(inputs.values()))


def _resampling(grid: GridSpec, data: GridQuestions) -> Resampling:
    """Return how questions are resampled. The seed depends only on the questions, so that comparisons are paired."""
    seed = seed_from_key(content_key([data.content(data.whole.questions)]))
    return Resampling(grid.measurement.replicates, seed)
