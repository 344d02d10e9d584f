"""From a grid to its plan: which jobs there are, and the key of each of their shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from prmcal.errors import GridError
from prmcal.harness.jobs.job import Job, Labels, Shard
from prmcal.harness.planning.grid import GridSpec, PluginSpec
from prmcal.harness.planning.parts import (
    PoolJobs,
    Scored,
    first_trajectories,
    imported_shards,
    make_job,
    make_shard,
    read_jobs,
    refs_of,
)
from prmcal.harness.planning.plan import Cell, Plan
from prmcal.harness.planning.resolved import GridPlugin, GridQuestions, ResolvedGrid, build_plugin, resolve
from prmcal.harness.storage.keys import ArtifactRef, content_key, seed_from_key
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.dataset import FollowedUpDataset
from prmcal.registry.contracts.search import SearchStrategy

__all__ = ["build_plan"]

_SEARCH_ARGUMENTS = ("width", "expansions", "every", "most_steps")


def build_plan(grid: GridSpec, stand_ins: bool = False) -> Plan:
    """Plan a grid.

    Parameters
    ----------
    grid : GridSpec
    stand_ins : bool
        Whether models and data that are not on this machine are planned for all the same, without asking the hub. The
        plan then shows what there is to do, but its keys are not those of a run.

    Raises
    ------
    PluginError, DataError, GridError
        If a plugin or a data set of the grid cannot be had. No model is loaded.
    """
    return _Planner(resolve(grid, stand_ins)).plan()


class _Planner:
    def __init__(self, grid: ResolvedGrid) -> None:
        self.grid = grid.spec
        self.resolved = grid
        self.jobs: list[Job] = []
        self.cells: list[Cell] = []

    def plan(self) -> Plan:
        for llm in self.resolved.llms:
            self._plan_llm(llm)
        return Plan(
            jobs=tuple(self.jobs),
            cells=tuple(self.cells),
            plugins=self.resolved.plugin_rows(),
            datasets=self.resolved.dataset_rows(),
            absent=self.resolved.absent,
        )

    def _plan_llm(self, llm: GridPlugin) -> None:
        grid = self.grid
        calibrating = self._fit_data(llm)
        tested = []
        for test in self.resolved.tests:
            rollout = self._rollout(llm, test, grid.scaling.samples)
            measurement = grid.measurement
            success = self._success(llm, test, rollout, measurement.measured, measurement.follow_ups)
            tested.append((test, rollout, success))
            self._strategies(rollout.labels, PoolJobs(test, rollout, success))
        for prm in self.resolved.prms:
            fit_on = self._scored(llm, prm, *calibrating, measured=grid.calibration.trajectories)
            scored = [self._scored(llm, prm, *each, measured=grid.measurement.measured) for each in tested]
            for each in scored:
                pool = PoolJobs(each.data, each.rollout, each.success, each.scores, models=(llm, prm))
                self._strategies(each.scores.labels, pool)
                self._curves(each.scores.labels, pool)
            for calibrator in self.resolved.calibrators:
                fit = self._fit(prm, calibrator, fit_on)
                for each in scored:
                    self._test(llm, prm, calibrator, each, fit)

    def _fit_data(self, llm: GridPlugin) -> tuple[GridQuestions, Job, Job]:
        """What is calibrated on: the jobs with its trajectories and with its success rates. Imported ones are both."""
        calibration, data = self.grid.calibration, self.resolved.calibration
        if isinstance(data.dataset.built, FollowedUpDataset):
            labels = Labels(llm=llm.spec.name, dataset=data.dataset.spec.name, split=data.split)
            imported = self._add(make_job("imported", labels, imported_shards(llm, data, calibration)))
            return data, imported, imported
        rollout = self._rollout(llm, data, calibration.trajectories)
        success = self._success(llm, data, rollout, calibration.trajectories, calibration.follow_ups)
        return data, rollout, success

    def _add(self, job: Job) -> Job:
        self.jobs.append(job)
        return job

    def _rollout(self, llm: GridPlugin, data: GridQuestions, trajectories: int) -> Job:
        size = self.grid.shards.trajectories
        sampling = asdict(self.grid.sampling.sampling())
        shards = [
            make_shard(
                "rollout",
                {
                    "llm": llm.identity,
                    "data": data.key(first, last),
                    "trajectories": [start, min(start + size, trajectories)],
                    "sampling": sampling,
                    "seed": self.grid.seed,
                },
                {
                    "llm": llm.parameters,
                    "dataset": data.dataset.parameters,
                    "split": data.split,
                    "questions": [first, last],
                    "trajectories": [start, min(start + size, trajectories)],
                    "sampling": sampling,
                },
                {},
                resource=f"llm:{llm.spec.name}",
            )
            for start in range(0, trajectories, size)
            for first, last in data.slices()
        ]
        labels = Labels(llm=llm.spec.name, dataset=data.dataset.spec.name, split=data.split)
        return self._add(make_job("rollout", labels, shards))

    def _success(
        self, llm: GridPlugin, data: GridQuestions, rollout: Job, measured: int, follow_ups: int
    ) -> Job:
        sampling = asdict(self.grid.sampling.sampling())
        size = self.grid.shards.trajectories
        shards = [
            make_shard(
                "success",
                {
                    "llm": llm.identity,
                    "trajectories": first_trajectories(source, measured),
                    "follow_ups": [start, min(start + size, follow_ups)],
                    "sampling": sampling,
                    "seed": self.grid.seed,
                },
                {
                    "llm": llm.parameters,
                    "dataset": data.dataset.parameters,
                    "split": data.split,
                    "questions": source.parameters["questions"],
                    "trajectories": first_trajectories(source, measured),
                    "follow_ups": [start, min(start + size, follow_ups)],
                    "sampling": sampling,
                },
                {"rollout": [source.ref]},
                resource=f"llm:{llm.spec.name}",
            )
            for source in rollout.shards
            if source.parameters["trajectories"][0] < measured
            for start in range(0, follow_ups, size)
        ]
        return self._add(make_job("success", rollout.labels, shards, [rollout]))

    def _score(self, llm: GridPlugin, prm: GridPlugin, data: GridQuestions, rollout: Job) -> Job:
        shards = [
            make_shard(
                "score",
                {"prm": prm.identity},
                {
                    "prm": prm.parameters,
                    "dataset": data.dataset.parameters,
                    "split": data.split,
                    "questions": source.parameters["questions"],
                    "trajectories": source.parameters["trajectories"],
                },
                {"rollout": [source.ref]},
                resource=f"prm:{prm.spec.name}",
            )
            for source in rollout.shards
        ]
        labels = Labels(llm.spec.name, prm.spec.name, dataset=data.dataset.spec.name, split=data.split)
        return self._add(make_job("score", labels, shards, [rollout]))

    def _scored(
        self, llm: GridPlugin, prm: GridPlugin, data: GridQuestions, rollout: Job, success: Job, measured: int
    ) -> Scored:
        scores = self._score(llm, prm, data, rollout)
        hidden = None
        if any(calibrator.built.reads == "hidden" for calibrator in self.resolved.calibrators):
            hidden = self._hidden(prm, data, rollout, scores, measured)
        return Scored(data, measured, rollout, success, scores, hidden)

    def _hidden(self, prm: GridPlugin, data: GridQuestions, rollout: Job, scores: Job, measured: int) -> Job:
        shards = [
            make_shard(
                "hidden",
                {"prm": prm.identity, "measured": measured},
                {
                    "prm": prm.parameters,
                    "dataset": data.dataset.parameters,
                    "split": data.split,
                    "questions": source.parameters["questions"],
                    "trajectories": first_trajectories(source, measured),
                },
                {"rollout": [source.ref], "score": [scored.ref]},
                resource=f"prm:{prm.spec.name}",
            )
            for source, scored in zip(rollout.shards, scores.shards, strict=True)
            if source.parameters["trajectories"][0] < measured
        ]
        return self._add(make_job("hidden", scores.labels, shards, [rollout, scores]))

    def _fit(self, prm: GridPlugin, calibrator: GridPlugin, data: Scored) -> Job:
        shard = self._read("fit", prm, calibrator, data, {"success": refs_of(data.success)})
        labels = replace(data.scores.labels, calibrator=calibrator.spec.name)
        return self._add(make_job("fit", labels, [shard], [*read_jobs(data, calibrator), data.success]))

    def _test(self, llm: GridPlugin, prm: GridPlugin, calibrator: GridPlugin, test: Scored, fit: Job) -> None:
        shard = self._read("calibrated", prm, calibrator, test, {"fit": refs_of(fit)})
        labels = replace(test.scores.labels, calibrator=calibrator.spec.name)
        calibrated = self._add(make_job("calibrated", labels, [shard], [fit, *read_jobs(test, calibrator)]))
        self._calibration_metrics(labels, test.data, calibrated, test.success)
        self._curves(labels, PoolJobs(test.data, test.rollout, test.success, test.scores, calibrated))
        for level in self._levels(calibrator.built):
            models = (llm, prm, calibrator)
            jobs = (test.rollout, test.success, test.scores, calibrated)
            pool = PoolJobs(test.data, *jobs, level, models, fit)
            self._strategies(labels, pool)

    def _read(
        self,
        kind: str,
        prm: GridPlugin,
        calibrator: GridPlugin,
        data: Scored,
        inputs: Mapping[str, Sequence[ArtifactRef]],
    ) -> Shard:
        """A shard that hands a calibrator what it reads of the measured trajectories."""
        reads = calibrator.built.reads
        measured = [
            index
            for index, source in enumerate(data.rollout.shards)
            if source.parameters["trajectories"][0] < data.measured
        ]
        read = {"score": [data.scores.shards[index].ref for index in measured]}
        if reads == "hidden" and data.hidden is not None:
            read["hidden"] = refs_of(data.hidden)
        if reads == "prm":
            read["rollout"] = [data.rollout.shards[index].ref for index in measured]
        return make_shard(
            kind,
            {"calibrator": calibrator.identity, "measured": data.measured},
            {
                "calibrator": calibrator.parameters,
                "prm": prm.parameters,
                "dataset": data.data.dataset.parameters,
                "split": data.data.split,
                "questions": [0, len(data.data.questions)],
                "trajectories": [0, data.measured],
            },
            {**read, **inputs},
            resource=f"prm:{prm.spec.name}" if reads == "prm" else "",
        )

    def _levels(self, calibrator: Calibrator) -> list[float]:
        """The grid's beta that this calibrator predicts; for a point estimate its only one, the median."""
        if calibrator.levels == (0.5,):
            return [0.5]
        missing = [level for level in self.grid.scaling.levels if level not in calibrator.levels]
        if missing:
            raise GridError(
                f"'scaling.levels' asks for beta = {missing[0]}, which the calibrator '{calibrator.plugin_name}' does "
                f"not predict. It predicts: {', '.join(map(str, calibrator.levels))}."
            )
        return list(self.grid.scaling.levels)

    def _measure(
        self,
        kind: str,
        labels: Labels,
        test: GridQuestions,
        parameters: Mapping[str, Any],
        inputs: Mapping[str, Sequence[Job]],
        identity: Mapping[str, Any] | None = None,
    ) -> Job:
        """A job of pure computation. Its bootstrap seed hangs on the questions only: comparisons are paired.

        `identity` stands for the parameters in its key where they hold names that are no part of it.
        """
        replicates = self.grid.measurement.replicates
        bootstrap = {
            "replicates": replicates,
            "seed": seed_from_key(content_key([test.content(0, len(test.questions))])),
        }
        shard = make_shard(
            kind,
            {
                "parameters": dict(parameters if identity is None else identity),
                "bootstrap": bootstrap,
                "data": test.key(0, len(test.questions)),
            },
            {
                **parameters,
                "bootstrap": bootstrap,
                "dataset": test.dataset.parameters,
                "split": test.split,
                "questions": [0, len(test.questions)],
            },
            {role: refs_of(*jobs) for role, jobs in inputs.items()},
        )
        return self._add(make_job(kind, labels, [shard], [job for jobs in inputs.values() for job in jobs]))

    def _calibration_metrics(
        self, labels: Labels, test: GridQuestions, calibrated: Job, success: Job
    ) -> None:
        parameters = {"bins": self.grid.measurement.bins}
        inputs = {"calibrated": [calibrated], "success": [success]}
        job = self._measure("calibration_metrics", labels, test, parameters, inputs)
        self.cells.append(Cell("calibration", labels, job))

    def _strategies(self, labels: Labels, pool: PoolJobs) -> None:
        """Every strategy that is run once for each such pool, with every target C if it has one."""
        for strategy, spec in zip(self.resolved.strategies, self.grid.strategies, strict=True):
            if pool.suits(strategy.built) and spec.is_for(labels.prm, labels.calibrator):
                plan = self._searched if isinstance(strategy.built, SearchStrategy) else self._strategy
                for target in self.grid.scaling.targets if strategy.built.targeted else [None]:
                    plan(labels, pool, strategy, target)

    def _strategy(self, labels: Labels, pool: PoolJobs, strategy: GridPlugin, target: float | None) -> None:
        setting = {"samples": self.grid.scaling.samples, "target": target, "level": pool.level}
        job = self._measure(
            "strategy",
            labels,
            pool.data,
            {**setting, "strategy": strategy.parameters},
            pool.inputs(strategy.built),
            {**setting, "strategy": strategy.identity},
        )
        self.cells.append(Cell("scaling", labels, job, strategy.spec.name, target, pool.level))

    def _curves(self, labels: Labels, pool: PoolJobs) -> None:
        """Accuracy against budget, all settings at once: of fixed n, and of IAS with each calibrator."""
        found = {"rollout": pool.rollout, "score": pool.scores, "calibrated": pool.calibrated}
        inputs = {role: [job] for role, job in found.items() if job is not None}
        self._measure("curves", labels, pool.data, {"samples": self.grid.scaling.samples}, inputs)

    def _searched(self, labels: Labels, pool: PoolJobs, strategy: GridPlugin, target: float | None) -> None:
        """A search, and beside it the one of fixed width that its budget is measured by."""
        found = self._search(labels, pool, strategy, target)
        arguments = {name: getattr(strategy.built, name) for name in _SEARCH_ARGUMENTS}
        fixed = build_plugin(
            "strategy", PluginSpec(name="beam-search", plugin="beam search", arguments=arguments)
        )
        plain = replace(pool, level=None, models=pool.models[:2], fit=None)
        baseline = self._search(replace(labels, calibrator=""), plain, fixed, None)
        inputs = {"search": [found], "fixed": [baseline]}
        job = self._measure("search_results", labels, pool.data, {}, inputs)
        self.cells.append(Cell("scaling", labels, job, strategy.spec.name, target, pool.level))

    def _search(self, labels: Labels, pool: PoolJobs, strategy: GridPlugin, target: float | None) -> Job:
        """Equal searches are one job: the search of fixed width is there once for all that rest on it."""
        setting = {
            "sampling": asdict(self.grid.sampling.sampling()),
            "target": target,
            "level": pool.level,
        }
        named = dict(zip(("llm", "prm", "calibrator"), pool.models, strict=False))
        llm, prm = pool.models[:2]
        shards = [
            make_shard(
                "search",
                {
                    **setting,
                    **{kind: model.identity for kind, model in named.items()},
                    "strategy": strategy.identity,
                    "data": pool.data.key(first, last),
                    "seed": self.grid.seed,
                },
                {
                    **setting,
                    **{kind: model.parameters for kind, model in named.items()},
                    "strategy": strategy.parameters,
                    "candidates": strategy.built.width * strategy.built.expansions,
                    "dataset": pool.data.dataset.parameters,
                    "split": pool.data.split,
                    "questions": [first, last],
                },
                {"fit": refs_of(pool.fit)} if pool.fit is not None else {},
                resource=f"search:{llm.spec.name}+{prm.spec.name}",
            )
            for first, last in pool.data.slices()
        ]
        job = make_job("search", labels, shards, [pool.fit] if pool.fit is not None else [])
        known = [each for each in self.jobs if each.key == job.key]
        return known[0] if known else self._add(job)
