"""From a grid to its plan: the jobs, and the cells that they fill."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from prmcal.errors import GridError
from prmcal.harness.jobs.job import Job, Labels
from prmcal.harness.jobs.parameters import (
    CalibratedParameters,
    FitParameters,
    HiddenParameters,
    Parameters,
    SearchParameters,
)
from prmcal.harness.planning.chain import (
    asked_levels,
    calibrated_job,
    fit_job,
    hidden_job,
    imported_job,
    rollout_job,
    score_job,
    success_job,
)
from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.planning.measurements import (
    baseline_of,
    calibration_metrics_job,
    curves_job,
    is_search,
    league_job,
    search_job,
    search_results_job,
    strategy_job,
)
from prmcal.harness.planning.parts import OF_TRAJECTORIES, Calibrated, Sampled, Scored, StrategyInputs
from prmcal.harness.planning.plan import Cell, Plan, PlannedPlugin
from prmcal.harness.planning.resolved import (
    GridQuestions,
    ResolvedGrid,
    described_metrics,
    others_of,
    resolve,
)
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.dataset import FollowedUpDataset
from prmcal.registry.contracts.models import LLM, PRM
from prmcal.registry.contracts.pool import PER_CALIBRATOR
from prmcal.registry.contracts.search import SearchStrategy
from prmcal.registry.contracts.strategy import PoolStrategy, Strategy

AnyParameters = TypeVar("AnyParameters", bound=Parameters)


def build_plan(grid: GridSpec, stand_ins: bool = False) -> Plan:
    """Plan a grid. No model is loaded.

    Parameters
    ----------
    grid : GridSpec
    stand_ins : bool
        Whether to plan also with models and data that are not on this machine, without asking the hub. The plan then
        has the right numbers of jobs and samples, but its keys are not those of a run.

    Raises
    ------
    PluginError, DataError, GridError
        If a plugin or a data set of the grid is not available.
    """
    return _Planner(resolve(grid, stand_ins)).plan()


class _Planner:
    def __init__(self, resolved: ResolvedGrid) -> None:
        self.grid = resolved.spec
        self.resolved = resolved
        self.jobs: list[Job[Parameters]] = []
        self.cells: list[Cell] = []
        self.planned: dict[tuple[str, Labels], Job[Any]] = {}
        self.searches: dict[str, Job[SearchParameters]] = {}
        self.hidden: dict[str, Job[HiddenParameters]] = {}
        self.others: dict[tuple[str, Labels, float | None], StrategyInputs] = {}

    def plan(self) -> Plan:
        for llm in self.resolved.llms:
            self._plan_llm(llm)
        return Plan(
            jobs=tuple(self.jobs),
            cells=tuple(self.cells),
            plugins=self.resolved.plugins,
            datasets=tuple(each.planned for each in self.resolved.datasets),
            metrics=described_metrics(
                [(each.name, each.built) for each in self.resolved.metrics],
                [
                    sorted({*calibrator.built.levels, *asked_levels(self.grid, calibrator.built)})
                    for calibrator in self.resolved.calibrators
                ],
                self.grid.measurement.terminal,
            ),
            absent=self.resolved.absent,
        )

    def _plan_llm(self, llm: PlannedPlugin[LLM]) -> None:
        calibration = self._calibration(llm)
        tuning = StrategyInputs(calibration)
        tests = []
        for data in self.resolved.tests:
            sampled = self._test_trajectories(llm, data)
            tests.append(sampled)
            self._strategies(StrategyInputs(sampled, tuning))
        for prm in self.resolved.prms:
            fitted = self._scored(prm, calibration)
            tuning = StrategyInputs(calibration, scored=fitted)
            tested = [self._scored(prm, sampled) for sampled in tests]
            for scored in tested:
                inputs = StrategyInputs(scored.sampled, tuning, scored)
                self._strategies(inputs)
                self._league(inputs)
                self._add(curves_job(self.grid, scored))
            for calibrator in self.resolved.calibrators_for(llm.name, prm.name):
                fit = self._add(fit_job(self.grid, calibrator, fitted))
                known = self._tuning(calibrator, fitted, fit)
                for scored in tested:
                    self._test(calibrator, scored, fit, known)

    def _calibration(self, llm: PlannedPlugin[LLM]) -> Sampled:
        """Plan the trajectories that calibrators are fitted to, with their success rates."""
        spec, data = self.grid.calibration, self.resolved.calibration
        published = data.dataset.built
        if not isinstance(published, FollowedUpDataset):
            return self._sampled(
                llm, data, spec.trajectories, spec.trajectories, spec.follow_ups, spec.most_prefixes
            )
        imported = self._add(imported_job(self.grid, llm, data, published))
        return Sampled(llm, data, spec.trajectories, imported, imported)

    def _test_trajectories(self, llm: PlannedPlugin[LLM], data: GridQuestions) -> Sampled:
        """Plan the pool of test questions, with the success rates of the measured trajectories."""
        measurement, samples = self.grid.measurement, self.grid.scaling.samples
        return self._sampled(
            llm, data, samples, measurement.measured, measurement.follow_ups, measurement.most_prefixes
        )

    def _sampled(
        self,
        llm: PlannedPlugin[LLM],
        data: GridQuestions,
        trajectories: int,
        measured: int,
        follow_ups: int,
        most_prefixes: int | None,
    ) -> Sampled:
        rollout = self._add(rollout_job(self.grid, llm, data, trajectories))
        success = self._add(success_job(self.grid, llm, rollout, measured, follow_ups, most_prefixes))
        return Sampled(llm, data, measured, rollout, success)

    def _scored(self, prm: PlannedPlugin[PRM], sampled: Sampled) -> Scored:
        scores = self._add(score_job(sampled, prm))
        hidden = None
        calibrators = self.resolved.calibrators_for(sampled.llm.name, prm.name)
        if any(calibrator.built.reads == "hidden" for calibrator in calibrators):
            hidden = self._add(hidden_job(sampled, prm, scores))
        return Scored(sampled, prm, scores, hidden)

    def _tuning(
        self, calibrator: PlannedPlugin[Calibrator], fitted: Scored, fit: Job[FitParameters]
    ) -> StrategyInputs:
        """Plan the rewards of the calibration questions, if a strategy that is tuned on them reads rewards."""
        inputs = StrategyInputs(fitted.sampled, scored=fitted)
        reading = [
            strategy
            for strategy in self.resolved.strategies
            if isinstance(strategy.built, PoolStrategy)
            and strategy.built.tuned
            and PER_CALIBRATOR.union({"rewards"}).intersection(strategy.built.reads)
        ]
        if not any(
            self._runs(strategy, replace(fitted.labels, dataset="", calibrator=calibrator.name))
            for strategy in reading
        ):
            return inputs
        rewards = self._add(calibrated_job(self.grid, calibrator, fitted, fit))
        return replace(inputs, calibrated=Calibrated(fitted, calibrator, fit, rewards, rewards))

    def _test(
        self,
        calibrator: PlannedPlugin[Calibrator],
        scored: Scored,
        fit: Job[FitParameters],
        tuning: StrategyInputs,
    ) -> None:
        """Plan everything that is measured of a calibrator on one data set."""
        rewards = self._add(calibrated_job(self.grid, calibrator, scored, fit))
        calibrated = Calibrated(scored, calibrator, fit, rewards)
        metrics = self._add(calibration_metrics_job(self.grid, calibrated, self.resolved.metrics))
        self.cells.append(Cell("calibration", calibrated.labels, metrics))
        self._add(curves_job(self.grid, scored, calibrated))
        calibrated = replace(calibrated, pool_rewards=self._pool_rewards(calibrated))
        for level in [None, *self._levels(calibrator.built)]:
            known = replace(tuning, level=level)
            inputs = StrategyInputs(scored.sampled, known, scored, calibrated, level)
            self._strategies(inputs)
            self._league(inputs)

    def _pool_rewards(self, calibrated: Calibrated) -> Job[CalibratedParameters] | None:
        """Plan the rewards of all trajectories of the pool, if a strategy reads them."""
        scored, samples = calibrated.scored, self.grid.scaling.samples
        if not any(
            OF_TRAJECTORIES.intersection(strategy.built.reads) and self._runs(strategy, calibrated.labels)
            for strategy in self.resolved.strategies
        ):
            return None
        if scored.sampled.measured == samples:
            return calibrated.rewards
        hidden = None
        if calibrated.calibrator.built.reads == "hidden":
            hidden = self._hidden_of_all(scored)
        every = Scored(replace(scored.sampled, measured=samples), scored.prm, scored.scores, hidden)
        return self._add(calibrated_job(self.grid, calibrated.calibrator, every, calibrated.fit))

    def _hidden_of_all(self, scored: Scored) -> Job[HiddenParameters]:
        """Plan the hidden states of all trajectories of the pool, once for all calibrators."""
        if scored.scores.key not in self.hidden:
            every = replace(scored.sampled, measured=self.grid.scaling.samples)
            self.hidden[scored.scores.key] = self._add(hidden_job(every, scored.prm, scored.scores))
        return self.hidden[scored.scores.key]

    def _levels(self, calibrator: Calibrator) -> list[float]:
        """Return the levels beta of the grid. A point estimate has only one, the median, which is used for all."""
        if calibrator.levels == (0.5,) and not calibrator.any_level:
            return [0.5]
        missing = [level for level in self.grid.scaling.levels if level not in calibrator.levels]
        if missing and not calibrator.any_level:
            raise GridError(
                f"'scaling.levels' contains beta = {missing[0]}, which the calibrator '{calibrator.plugin_name}' does "
                f"not predict. It predicts: {', '.join(map(str, calibrator.levels))}. "
                "`prmcal list calibrator` shows the calibrators that predict any level."
            )
        return list(self.grid.scaling.levels)

    def _strategies(self, inputs: StrategyInputs) -> None:
        """Plan every strategy that is run once for these inputs, with every target C if it has one."""
        for strategy in self.resolved.strategies:
            asked = inputs.labels.llm in others_of(strategy)
            if inputs.suits(strategy.built) and self._runs(strategy, inputs.labels) and not asked:
                for target in self.grid.scaling.targets if strategy.built.targeted else [None]:
                    job = self._strategy(inputs, strategy, target)
                    self.cells.append(
                        Cell("scaling", inputs.labels, job, strategy.name, target, inputs.level)
                    )

    def _league(self, inputs: StrategyInputs) -> None:
        """Plan the curve of every strategy that has one for these inputs, with a PRM."""
        if not self.grid.league or inputs.scored is None:
            return
        for strategy in self.resolved.strategies:
            built = strategy.built
            wanted = inputs.suits(built) or (built.once_for == "data" and inputs.calibrated is None)
            if (
                isinstance(built, PoolStrategy)
                and built.in_league
                and wanted
                and self._runs(strategy, inputs.labels)
            ):
                job = self._add(league_job(self.grid, inputs, strategy))
                self.cells.append(Cell("league", inputs.labels, job, strategy.name, None, inputs.level))

    def _runs(self, strategy: PlannedPlugin[Strategy], labels: Labels) -> bool:
        return self.grid.runs(strategy.name, labels.dataset, labels.prm, labels.calibrator)

    def _strategy(
        self, inputs: StrategyInputs, strategy: PlannedPlugin[Strategy], target: float | None
    ) -> Job[Parameters]:
        """Plan what measures a strategy: a job over the pool, or a search and the baseline of its budget."""
        if not is_search(strategy):
            others = {name: self._of_other(name, inputs, strategy) for name in others_of(strategy)}
            return self._add(strategy_job(self.grid, replace(inputs, others=others), strategy, target))
        search = self._search(inputs, strategy, target)
        baseline = baseline_of(strategy)
        fixed = self._search(inputs.at(baseline.built.once_for), baseline, None)
        return self._add(search_results_job(self.grid, inputs, search, fixed))

    def _of_other(
        self, name: str, inputs: StrategyInputs, strategy: PlannedPlugin[Strategy]
    ) -> StrategyInputs:
        """Plan the same inputs of another LLM, before or after it is planned itself."""
        place = (name, inputs.labels, inputs.level)
        if place not in self.others:
            (llm,) = (each for each in self.resolved.llms if each.name == name)
            self.others[place] = self._same_of(llm, inputs, strategy.name)
        return self.others[place]

    def _same_of(self, llm: PlannedPlugin[LLM], inputs: StrategyInputs, strategy: str) -> StrategyInputs:
        calibration = self._calibration(llm)
        sampled = self._test_trajectories(llm, inputs.sampled.data)
        if inputs.scored is None:
            return StrategyInputs(sampled, StrategyInputs(calibration))
        prm = inputs.scored.prm
        fitted, scored = self._scored(prm, calibration), self._scored(prm, sampled)
        if inputs.calibrated is None:
            return StrategyInputs(sampled, StrategyInputs(calibration, scored=fitted), scored)
        calibrator = inputs.calibrated.calibrator
        if calibrator not in self.resolved.calibrators_for(llm.name, prm.name):
            raise GridError(
                f"The strategy '{strategy}' reads rewards of the LLM '{llm.name}', but the calibrator "
                f"'{calibrator.name}' is not fitted for it. Add it to 'llms' of the calibrator, or choose others in "
                "'calibrators' of the strategy."
            )
        fit = self._add(fit_job(self.grid, calibrator, fitted))
        rewards = self._add(calibrated_job(self.grid, calibrator, scored, fit))
        calibrated = Calibrated(scored, calibrator, fit, rewards)
        calibrated = replace(calibrated, pool_rewards=self._pool_rewards(calibrated))
        tuning = replace(self._tuning(calibrator, fitted, fit), level=inputs.level)
        return StrategyInputs(sampled, tuning, scored, calibrated, inputs.level)

    def _search(
        self, inputs: StrategyInputs, strategy: PlannedPlugin[SearchStrategy], target: float | None
    ) -> Job[SearchParameters]:
        """Plan a search. Equal searches are one job, so the baseline of several searches is run once."""
        job = search_job(self.grid, inputs, strategy, target)
        if job.key not in self.searches:
            self.searches[job.key] = self._add(job)
        return self.searches[job.key]

    def _add(self, job: Job[AnyParameters]) -> Job[AnyParameters]:
        """Add a job to the plan. One that is there already, since another LLM's strategy reads it, is returned."""
        place = (job.key, job.labels)
        if place not in self.planned:
            self.planned[place] = job
            self.jobs.append(job)
        return self.planned[place]
