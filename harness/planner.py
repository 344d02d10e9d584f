"""From a grid to its plan: which jobs there are, and the key of each of their shards."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from harness.grid import GridSpec
from harness.jobs import JOB_VERSIONS
from harness.keys import content_key, seed_from_key
from harness.plan import ArtifactRef, Cell, Job, Labels, Plan, Shard
from harness.resolved import GridPlugin, GridQuestions, ResolvedGrid, resolve
from registry.contracts.calibrator import Calibrator
from registry.contracts.dataset import content_hash
from registry.errors import GridError

__all__ = ["build_plan"]


def build_plan(grid: GridSpec) -> Plan:
    """Plan a grid.

    Raises
    ------
    PluginError, DataError, GridError
        If a plugin or a data set of the grid cannot be had. No model is loaded.
    """
    return _Planner(resolve(grid)).plan()


def _job(kind: str, labels: Labels, shards: Sequence[Shard], inputs: Sequence[Job] = ()) -> Job:
    key = content_key({"job": kind, "shards": [shard.ref.key for shard in shards]})
    return Job(key, kind, labels, tuple(shards), tuple(inputs), seed_from_key(shards[0].ref.key))


def _shard(
    kind: str,
    identity: Mapping[str, Any],
    parameters: Mapping[str, Any],
    inputs: Mapping[str, Sequence[ArtifactRef]],
    resource: str = "",
) -> Shard:
    references = {role: tuple(refs) for role, refs in inputs.items()}
    key = content_key(
        {
            "kind": kind,
            "version": JOB_VERSIONS[kind],
            "identity": identity,
            "inputs": {role: [ref.key for ref in refs] for role, refs in references.items()},
        }
    )
    seeded = {**parameters, "seed": seed_from_key(key)}
    return Shard(ArtifactRef(kind, key), seeded, references, resource, _size(parameters))


def _size(parameters: Mapping[str, Any]) -> int:
    ranges = [parameters[name] for name in ("questions", "trajectories", "follow_ups") if name in parameters]
    return math.prod(stop - start for start, stop in ranges)


def _refs(*jobs: Job) -> list[ArtifactRef]:
    return [shard.ref for job in jobs for shard in job.shards]


def _first(rollout: Shard, measured: int) -> list[int]:
    """Which trajectories of a rollout shard are among the first `measured`."""
    start, stop = rollout.parameters["trajectories"]
    return [start, min(stop, measured)]


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
        )

    def _plan_llm(self, llm: GridPlugin) -> None:
        grid = self.grid
        calibration = grid.calibration
        fit_rollout = self._rollout(llm, self.resolved.calibration, calibration.trajectories)
        fit_success = self._success(
            llm, self.resolved.calibration, fit_rollout, calibration.trajectories, calibration.follow_ups
        )
        tested = []
        for test in self.resolved.tests:
            rollout = self._rollout(llm, test, grid.scaling.samples)
            measurement = grid.measurement
            success = self._success(llm, test, rollout, measurement.measured, measurement.follow_ups)
            tested.append((test, rollout, success))
            self._pass_at_1(llm, test, rollout)
        for prm in self.resolved.prms:
            fit_scores = self._score(llm, prm, self.resolved.calibration, fit_rollout)
            scored = [
                (test, rollout, success, self._score(llm, prm, test, rollout))
                for test, rollout, success in tested
            ]
            for test, rollout, _, scores in scored:
                self._best_of_n(llm, prm, test, rollout, scores)
            for calibrator in self.resolved.calibrators:
                fit = self._fit(llm, prm, calibrator, fit_scores, fit_success)
                for test, rollout, success, scores in scored:
                    self._test(llm, prm, calibrator, test, rollout, success, scores, fit)

    def _add(self, job: Job) -> Job:
        self.jobs.append(job)
        return job

    def _rollout(self, llm: GridPlugin, data: GridQuestions, trajectories: int) -> Job:
        size = self.grid.shards.trajectories
        sampling = asdict(self.grid.sampling.sampling())
        shards = [
            _shard(
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
        return self._add(_job("rollout", labels, shards))

    def _success(
        self, llm: GridPlugin, data: GridQuestions, rollout: Job, measured: int, follow_ups: int
    ) -> Job:
        sampling = asdict(self.grid.sampling.sampling())
        size = self.grid.shards.trajectories
        shards = [
            _shard(
                "success",
                {
                    "llm": llm.identity,
                    "trajectories": _first(source, measured),
                    "follow_ups": [start, min(start + size, follow_ups)],
                    "sampling": sampling,
                    "seed": self.grid.seed,
                },
                {
                    "llm": llm.parameters,
                    "dataset": data.dataset.parameters,
                    "split": data.split,
                    "questions": source.parameters["questions"],
                    "trajectories": _first(source, measured),
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
        return self._add(_job("success", rollout.labels, shards, [rollout]))

    def _score(self, llm: GridPlugin, prm: GridPlugin, data: GridQuestions, rollout: Job) -> Job:
        shards = [
            _shard(
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
        return self._add(_job("score", labels, shards, [rollout]))

    def _fit(
        self, llm: GridPlugin, prm: GridPlugin, calibrator: GridPlugin, scores: Job, success: Job
    ) -> Job:
        shard = _shard(
            "fit",
            {"calibrator": calibrator.identity},
            {"calibrator": calibrator.parameters},
            {"score": _refs(scores), "success": _refs(success)},
        )
        labels = Labels(
            llm.spec.name, prm.spec.name, calibrator.spec.name, scores.labels.dataset, scores.labels.split
        )
        return self._add(_job("fit", labels, [shard], [scores, success]))

    def _test(
        self,
        llm: GridPlugin,
        prm: GridPlugin,
        calibrator: GridPlugin,
        test: GridQuestions,
        rollout: Job,
        success: Job,
        scores: Job,
        fit: Job,
    ) -> None:
        labels = Labels(
            llm.spec.name, prm.spec.name, calibrator.spec.name, test.dataset.spec.name, test.split
        )
        shard = _shard(
            "calibrated",
            {"calibrator": calibrator.identity},
            {"calibrator": calibrator.parameters},
            {"fit": _refs(fit), "score": _refs(scores)},
        )
        calibrated = self._add(_job("calibrated", labels, [shard], [fit, scores]))
        self._calibration_metrics(labels, test, calibrated, success)
        for level in self._levels(calibrator.built):
            for target in self.grid.scaling.targets:
                self._adaptive(labels, test, rollout, scores, calibrated, target, level)

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
    ) -> Job:
        """A job of pure computation. Its bootstrap seed hangs on the questions only: comparisons are paired."""
        replicates = self.grid.measurement.replicates
        bootstrap = {
            "replicates": replicates,
            "seed": seed_from_key(content_key([content_hash(test.questions)])),
        }
        shard = _shard(
            kind,
            {
                "parameters": dict(parameters),
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
            {role: _refs(*jobs) for role, jobs in inputs.items()},
        )
        return self._add(_job(kind, labels, [shard], [job for jobs in inputs.values() for job in jobs]))

    def _calibration_metrics(
        self, labels: Labels, test: GridQuestions, calibrated: Job, success: Job
    ) -> None:
        parameters = {"bins": self.grid.measurement.bins}
        inputs = {"calibrated": [calibrated], "success": [success]}
        job = self._measure("calibration_metrics", labels, test, parameters, inputs)
        self.cells.append(Cell("calibration", labels, job))

    def _pass_at_1(self, llm: GridPlugin, test: GridQuestions, rollout: Job) -> None:
        job = self._measure("pass_at_1", rollout.labels, test, {}, {"rollout": [rollout]})
        self.cells.append(Cell("scaling", rollout.labels, job, "pass@1"))

    def _best_of_n(
        self, llm: GridPlugin, prm: GridPlugin, test: GridQuestions, rollout: Job, scores: Job
    ) -> None:
        inputs = {"rollout": [rollout], "score": [scores]}
        job = self._measure("best_of_n", scores.labels, test, {"samples": self.grid.scaling.samples}, inputs)
        self.cells.append(Cell("scaling", scores.labels, job, "best-of-n"))

    def _adaptive(
        self,
        labels: Labels,
        test: GridQuestions,
        rollout: Job,
        scores: Job,
        calibrated: Job,
        target: float,
        level: float,
    ) -> None:
        parameters = {"samples": self.grid.scaling.samples, "target": target, "level": level}
        inputs = {"rollout": [rollout], "score": [scores], "calibrated": [calibrated]}
        job = self._measure("adaptive_best_of_n", labels, test, parameters, inputs)
        self.cells.append(Cell("scaling", labels, job, "best-of-n + IAS", target, level))
