"""From a grid to its plan: the jobs, and the cells that they fill."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeGuard

from prmcal.db.statistics.bootstrap import Bootstrap
from prmcal.errors import GridError
from prmcal.harness.jobs import parameters
from prmcal.harness.jobs.job import TUNING, Job, JobLabels
from prmcal.harness.planning import plan
from prmcal.harness.planning.chain import Chain
from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.planning.resolved import build_plugin, described_metrics, resolve
from prmcal.harness.planning.settings import PluginSpec
from prmcal.harness.planning.stages import Calibrated, Sampled, Scored, once_for
from prmcal.harness.storage.store import content_key, seed_from_key
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.models import LLM
from prmcal.registry.contracts.strategy import PoolStrategy, SearchStrategy, Strategy
from prmcal.registry.plugins import strategies
from prmcal.registry.splitting import StepSplitting


def roles(strategy: Strategy, tested: Sampled, tuning: Sampled | None = None) -> dict[str, Job[parameters.Parameters]]:
    """Return the jobs whose artifacts a strategy reads, by role.

    `tested` are the trajectories of the test questions, perhaps scored or calibrated. `tuning` are the same for the
    calibration questions, for a strategy that is tuned on them.
    """
    jobs: dict[str, Job[parameters.Parameters]] = {"graded": tested.graded}
    reads = set(strategy.reads)
    if isinstance(tested, Scored) and reads & {"scores", "step_scores"}:
        jobs["score"] = tested.scores
    if isinstance(tested, Calibrated) and "rewards" in reads:
        jobs["calibrated"] = tested.rewards
    if "success" in reads:
        jobs["success"] = tested.success
    if tuning is not None and isinstance(strategy, PoolStrategy) and strategy.tuned:
        jobs |= {f"{TUNING}{role}": job for role, job in roles(strategy, tuning).items()}
    return jobs


def build_plan(grid: GridSpec, stand_ins: bool = False) -> plan.Plan:
    """Plan a grid. No model is loaded.

    With `stand_ins`, stand-ins replace models and data that are not on this machine, and the hub is not asked. The plan
    then has the right numbers of jobs and samples, but other keys than a run.

    Raises a PluginError, a DataError or a GridError if a plugin or a data set of the grid is not available.
    """
    return plan.joined_plans([_Planner(resolve(whole, stand_ins)).build() for whole in grid.wholes()])


class _Planner(Chain):
    """Plans the measurements on the trajectories of each LLM, besides the chain of jobs before them."""

    def build(self) -> plan.Plan:
        self.cells: list[plan.PlannedCell] = []
        for llm in self.resolved.llms:
            self._plan_llm(llm)
        calibrators = [calibrator.built for calibrator in self.resolved.calibrators]
        jobs, cells = plan.without_unread_scores(self.jobs, self.cells)
        return plan.Plan(
            jobs=jobs,
            cells=cells,
            plugins=self.resolved.plugins,
            datasets=tuple(data.planned for data in self.resolved.datasets),
            metrics=described_metrics(
                [(metric.name, metric.built) for metric in self.resolved.metrics],
                [sorted({*calibrator.levels, *self.asked_levels(calibrator)}) for calibrator in calibrators],
                self.grid.measurement.terminal,
            ),
            absent=self.resolved.absent,
            repeated=self.resolved.repeated,
        )

    def _plan_llm(self, llm: plan.PlannedPlugin[LLM]) -> None:
        fitting, measuring, pools = self.grid.calibration, self.grid.measurement, []
        calibration = self.sampled(llm, self.resolved.calibration, fitting, fitting.trajectories, fitting.trajectories)
        for data in self.resolved.tests:
            pools.append(self.sampled(llm, data, measuring, self.grid.scaling.samples, measuring.measured))
            self._strategies(pools[-1], calibration)
        for prm in self.resolved.prms:
            fitted = self.scored(prm, calibration)
            tested = [self.tested(prm, pool) for pool in pools]
            for _, scored in tested:
                self._strategies(scored, fitted)
                self._league(scored, fitted)
                self._curves(scored)
            for calibrator in self.resolved.calibrators_for(llm.name, prm.name):
                fit = self.fit(calibrator, fitted)
                rules = self._pool_strategies(replace(fitted.labels, dataset="", calibrator=calibrator.name))
                # A strategy that is tuned on rewards needs those of the calibration questions.
                tunes_on_rewards = any(strategy.tuned and "rewards" in strategy.reads for strategy in rules)
                tuning = self.calibrated(calibrator, fitted, fit) if tunes_on_rewards else fitted
                for scored, ranking in tested:
                    self._calibrator(self.calibrated(calibrator, scored, fit), tuning, ranking)

    def _calibrator(self, calibrated: Calibrated, tuning: Scored, ranking: Scored) -> None:
        """Plan all measurements of a calibrator on one data set, which is also scored for ranking."""
        spec, kind = self.grid.measurement, parameters.CalibrationMetricsParameters
        inputs = {"calibrated": calibrated.rewards, "success": calibrated.success}
        fields = {"bins": spec.bins, "terminal": spec.terminal, "metrics": self.resolved.metrics}
        metrics = self._measure(calibrated, kind, inputs, **fields)
        self.cells.append(plan.PlannedCell("calibration", calibrated.labels, metrics))
        calibrated = self.ranking(calibrated, ranking)
        self._curves(calibrated)
        for level in [None, *self._levels(calibrated.calibrator.built)]:
            self._strategies(replace(calibrated, level=level), tuning)
            self._league(replace(calibrated, level=level), tuning)

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

    def _run_for(self, labels: JobLabels) -> list[plan.PlannedPlugin[Strategy]]:
        """Return the strategies that the grid runs for a data set, a PRM and a calibrator."""
        names = (labels.dataset, labels.prm, labels.calibrator)
        return [strategy for strategy in self.resolved.strategies if self.grid.runs(strategy.name, *names)]

    def _pool_strategies(self, labels: JobLabels) -> list[PoolStrategy]:
        """Return the strategies that choose from a pool."""
        built = (strategy.built for strategy in self._run_for(labels))
        return [strategy for strategy in built if isinstance(strategy, PoolStrategy)]

    def _strategies(self, tested: Sampled, tuning: Sampled) -> None:
        """Plan every strategy that is run once for these trajectories, with every target C if it has one."""
        for strategy in self._run_for(tested.labels):
            if once_for(tested) == strategy.built.once_for:
                for target in self.grid.scaling.targets if strategy.built.targeted else [None]:
                    job = self._strategy(strategy, tested, tuning, target)
                    cell = plan.PlannedCell("scaling", tested.labels, job, strategy.name, target, _level(tested))
                    self.cells.append(cell)

    def _strategy(
        self, strategy: plan.PlannedPlugin[Strategy], tested: Sampled, tuning: Sampled, target: float | None
    ) -> Job[parameters.Parameters]:
        """Plan the measurement of a strategy: a job over the pool, or a search and the baseline of its budget."""
        if _is_search(strategy):
            search = self._search(tested, strategy, target)
            fixed = self._search(tested, _baseline_of(strategy), None)
            searches = {"search": search, "fixed": fixed}
            return self._measure(tested, parameters.SearchResultsParameters, searches)
        inputs, samples = roles(strategy.built, tested, tuning), self.grid.scaling.samples
        fields = {"samples": samples, "target": target, "level": _level(tested), "strategy": strategy}
        return self._measure(tested, parameters.StrategyParameters, inputs, **fields)

    def _league(self, tested: Scored, tuning: Sampled) -> None:
        """Plan the curve of every strategy that has one for these scores, and with a PRM the curve of best-of-n."""
        stages = {once_for(tested)} if isinstance(tested, Calibrated) else {"prm", "data"}
        for strategy in self._run_for(tested.labels) if self.grid.league else ():
            built = strategy.built
            if isinstance(built, PoolStrategy) and built.in_league and built.once_for in stages:
                inputs = {**roles(built, tested, tuning), "score": tested.scores}
                fields = {"samples": self.grid.scaling.samples, "level": _level(tested), "strategy": strategy}
                job = self._measure(tested, parameters.LeagueParameters, inputs, **fields)
                cell = plan.PlannedCell("league", tested.labels, job, strategy.name, None, _level(tested))
                self.cells.append(cell)

    def _search(
        self, scored: Sampled, strategy: plan.PlannedPlugin[SearchStrategy], target: float | None
    ) -> Job[parameters.GradedSearchParameters]:
        """Search all questions with the models themselves: LLM, PRM, and the calibrator if the strategy needs one.

        What they find is graded.

        Equal searches are one job, so the baseline of several searches is run once.
        """
        if not isinstance(scored, Scored):
            raise GridError(f"The search '{strategy.name}' must have \"scores\" in its 'reads'.")
        if StepSplitting.of(scored.llm.built.splitting).changes_texts:
            raise GridError(
                f"A step of the search '{strategy.name}' ends at a blank line, but the LLM '{scored.llm.name}' has "
                "another 'splitting'. Leave this argument out, or run the searches in a grid without this LLM."
            )
        reads = strategy.built.once_for
        calibrated = scored if isinstance(scored, Calibrated) and reads in ("calibrator", "level") else None
        calibrator = calibrated.calibrator if calibrated else None
        level = calibrated.level if calibrated and reads == "level" else None
        fits: dict[str, Job[parameters.Parameters]] = {"fit": calibrated.fit} if calibrated else {}
        refs = {role: fit.refs for role, fit in fits.items()}
        models, content = f"search:{scored.llm.name}+{scored.prm.name}", scored.data.content
        fields = {**self._sampling, "target": target, "level": level, "llm": scored.llm, "prm": scored.prm}
        fields |= {"calibrator": calibrator, "strategy": strategy}
        fields["candidates"] = strategy.built.width * strategy.built.expansions
        shards = [
            plan.make_shard(parameters.SearchParameters, content, refs, models, data=questions, **fields)
            for questions in scored.data.slices()
        ]
        labels = scored.labels if calibrated else scored.scores.labels
        search = self.add(plan.make_job(labels, shards, list(fits.values())))
        grading, kind = self._grading(scored.llm, scored.data), parameters.GradedSearchParameters
        graded = [
            plan.make_shard(kind, content, {"search": [shard.ref]}, data=shard.parameters.data, **grading)
            for shard in search.shards
        ]
        return self.add(plan.make_job(labels, graded, [search]))

    def _curves(self, scored: Scored) -> None:
        """Compute accuracy against budget, of fixed n or of IAS with a calibrator.

        Curves need whole solutions, and a strategy that reads scores of the pool.
        """
        reads_scores = any(strategy.once_for != "data" for strategy in self._pool_strategies(scored.labels))
        if scored.data.followed_up is not None or not reads_scores:
            return
        inputs: dict[str, Job[parameters.Parameters]] = {"graded": scored.graded, "score": scored.scores}
        if isinstance(scored, Calibrated):
            inputs["calibrated"] = scored.rewards
        self._measure(scored, parameters.CurvesParameters, inputs, samples=self.grid.scaling.samples)

    def _measure(
        self,
        stage: Sampled,
        kind: type[parameters.MeasuringParameters],
        inputs: Mapping[str, Job[parameters.Parameters]],
        **fields: Any,
    ) -> Job[parameters.MeasuringParameters]:
        """Plan a job of one shard that runs no model.

        `fields` are the parameters besides the questions and their resampling.
        """
        data = stage.data
        # The seed depends only on the questions, so that comparisons are paired.
        seed = seed_from_key(content_key([data.content(data.whole.questions, references=True)]))
        bootstrap = Bootstrap(self.grid.measurement.replicates, seed)
        refs = {role: job.refs for role, job in inputs.items()}
        shard = plan.make_shard(kind, data.content, refs, **fields, bootstrap=bootstrap, data=data.whole)
        return self.add(plan.make_job(stage.labels, [shard], list(inputs.values())))


def _level(tested: Sampled) -> float | None:
    """Return the level beta at which a strategy reads trajectories, if there is one."""
    return tested.level if isinstance(tested, Calibrated) else None


def _is_search(strategy: plan.PlannedPlugin[Strategy]) -> TypeGuard[plan.PlannedPlugin[SearchStrategy]]:
    return isinstance(strategy.built, SearchStrategy)


def _baseline_of(strategy: plan.PlannedPlugin[SearchStrategy]) -> plan.PlannedPlugin[SearchStrategy]:
    """Return the search of fixed width: its budget divides the budget of a search.

    Raises a PluginError or GridError if there is no such search.
    """
    name = strategy.built.baseline
    spec = PluginSpec(name=name.replace(" ", "-"), plugin=name, arguments=strategy.built.settings)
    baseline = build_plugin(strategies, spec)
    if not _is_search(baseline):
        raise GridError(f"The search '{strategy.name}' has the 'baseline' '{name}', which is not a SearchStrategy.")
    return baseline
