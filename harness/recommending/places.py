"""The places of a comparison: every LLM of a run with its PRMs and calibrators."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from prmcal.errors import DataError, PluginFailedError, RunError
from prmcal.harness.jobs.context import Context
from prmcal.harness.jobs.job import Job
from prmcal.harness.jobs.parameters import CalibratedParameters, FitParameters, Parameters, PluginReference
from prmcal.harness.jobs.pools import GradedTrajectories, trajectories_of
from prmcal.harness.planning.reading import grid_of
from prmcal.harness.planning.saved import existing_plan, load_plugins_of
from prmcal.harness.recommending.measured import (
    Candidate,
    FoldRewards,
    KnownPools,
    Measured,
    folds_of,
    measured,
    rewards_by_fold,
)
from prmcal.harness.recommending.types import Choice, LeftOut
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import ArtifactRef, Store
from prmcal.registry.contracts.calibrator import Calibrator


class Questions(NamedTuple):
    """The name and the split of some questions."""

    dataset: str
    split: str


Further = Mapping[tuple[str, str], Sequence[ArtifactRef]]
"""Artifacts of further trajectories of the calibration questions, by the LLM and the PRM; "" for the rollouts."""


_KINDS = ("rollout", "imported", "score", "fit", "calibrated")


class Places:
    """The LLMs of a run with their PRMs and calibrators: what is finished on calibration and on test questions.

    `filters` has the names to keep, by llm, prm, calibrator or dataset. `tests` has the test questions of each data set
    that is kept, `most` is N of the grid, the trajectories of a test question, and `further` has the trajectories that
    were drawn after the run. `in_sample` names the calibrators that were fitted to the questions on which they are
    judged here.

    Raises a RunError if no grid was run in the folder, it is a merged leaderboard, or its saved plan is damaged. Raises
    a PluginError if a plugin file of the run is no longer there.
    """

    def __init__(self, directory: Path, filters: Mapping[str, Sequence[str]]) -> None:
        self.folder = RunFolder(directory)
        self.record = self.folder.record()
        if "calibration" not in self.record.grid:
            raise RunError(
                f"{directory} is a merged leaderboard, which has no grid of its own. Give the folder of a run."
            )
        self.plan = existing_plan(self.folder)
        load_plugins_of(self.folder)
        self.grid = grid_of(self.record.grid, f"The grid in {directory}")
        if self.grid.parts:
            raise RunError(
                f"{directory} has several parts, each with calibration questions of its own. Write one part of the "
                "grid into a file of its own, run it, and give the folder of that run."
            )
        self.context = Context(Store(directory))
        self.store = self.context.store
        self.calibration = Questions(self.grid.calibration.name, self.grid.calibration.split)
        tests = [Questions(each.name, each.split) for each in self.grid.datasets]
        self._filters = filters
        self.tests = [each for each in tests if self._kept("dataset", each.dataset)]
        self.most = self.grid.scaling.samples
        self.further: Further = {}
        self.left_out: list[LeftOut] = []
        self.in_sample: list[str] = []
        self._known: dict[tuple[str, str, str], KnownPools] = {}
        self._trajectories: dict[str, tuple[GradedTrajectories, GradedTrajectories]] = {}
        refs = (shard.ref for shard in self.plan.shards())
        self._finished = self.store.manifests([ref for ref in refs if ref.kind in _KINDS], verify=False)
        self._jobs: dict[tuple[str, ...], list[Job[Parameters]]] = {}
        for job in self.plan.jobs:
            labels = job.labels
            place = labels.llm, labels.prm, labels.calibrator, labels.dataset, labels.split
            self._jobs.setdefault(place, []).append(job)

    def names(self, kind: str) -> list[str]:
        """Return the names of a kind of plugin of the grid that are kept, in its order."""
        return [each.name for each in self.plan.plugins.get(kind, ()) if self._kept(kind, each.name)]

    def reference(self, kind: str, name: str) -> PluginReference:
        """Return what is needed to build a plugin of the grid."""
        return next(each.reference for each in self.plan.plugins[kind] if each.name == name)

    def jobs(
        self, kinds: Sequence[str], questions: Questions, llm: str, prm: str = "", calibrator: str = ""
    ) -> list[Job[Any]]:
        """Return the jobs of some kinds about these questions and plugins. Those without all artifacts are left out."""
        found = [job for job in self._jobs.get((llm, prm, calibrator, *questions), ()) if job.kind in kinds]
        return [job for job in found if all(ref in self._finished for ref in job.refs)]

    def is_finished(self, kinds: Sequence[str], llm: str, prm: str = "") -> bool:
        """Return whether jobs of some kinds have all trajectories of the calibration and of all test questions.

        A PRM scores only some of them if nothing in the grid reads the other scores.
        """
        for each in (self.calibration, *self.tests):
            found, every = self.jobs(kinds, each, llm, prm), self.jobs(["rollout", "imported"], each, llm)
            if not (found and every) or len(found[0].refs) < len(every[0].refs):
                return False
        return True

    def trajectories(self, llm: str) -> tuple[GradedTrajectories, GradedTrajectories]:
        """Return all trajectories of the calibration questions, and those of the run. They must be finished."""
        if llm not in self._trajectories:
            refs = self.jobs(["rollout", "imported"], self.calibration, llm)[0].refs
            own = self.store.table(refs, "trajectories")
            every = self.store.table([*refs, *self.further.get((llm, ""), ())], "trajectories")
            self._trajectories[llm] = trajectories_of(every), trajectories_of(own)
        return self._trajectories[llm]

    def known(self, choice: Choice) -> KnownPools:
        """Return the pools of the calibration questions for the LLM, the PRM and the calibrator of a choice."""
        llm, prm = choice.llm, choice.prm
        place = llm, prm, choice.calibrator
        if place not in self._known:
            trajectories, own = self.trajectories(llm)
            folds = folds_of(len(trajectories.question_ids))
            scores = rewards = None
            if prm:
                refs = self.jobs(["score"], self.calibration, llm, prm)[0].refs
                scores = self.store.table([*refs, *self.further.get((llm, prm), ())], "rewards")
            if scores is not None and choice.calibrator:
                fold_of = dict(zip(trajectories.question_ids, folds.tolist(), strict=True))
                rewards = self._fold_rewards(choice, fold_of, scores)
            self._known[place] = KnownPools(trajectories, own, folds, scores, rewards)
        return self._known[place]

    def tested(
        self, choice: Choice, questions: Questions, prm: str
    ) -> tuple[GradedTrajectories, pd.DataFrame, pd.DataFrame | None]:
        """Return the trajectories of test questions, their scores, and their rewards if the choice has a calibrator.

        `prm` is that of best-of-n, which a choice without a PRM is compared with.
        """
        rollout = self.jobs(["rollout"], questions, choice.llm)[0]
        scores = self.jobs(["score"], questions, choice.llm, choice.prm or prm)[0]
        rewards = None
        if choice.calibrator:
            job = self._rewards(questions, choice, self.most) or self._rewards(questions, choice)
            assert job is not None
            rewards = self.store.table(job.refs, "calibrated_rewards")
        trajectories = trajectories_of(self.store.table(rollout.refs, "trajectories"))
        return trajectories, self.store.table(scores.refs, "rewards"), rewards

    def measured(self, candidates: Sequence[Candidate], samples: int | None) -> Iterator[Measured]:
        """Yield what each strategy reaches for each LLM, PRM and calibrator, in all settings."""
        for llm in self.names("llm"):
            if not self.is_finished(["rollout", "imported"], llm):
                self._leave_out(llm, "its trajectories are not finished")
                continue
            trajectories, _ = self.trajectories(llm)
            place = Choice(llm, "", min(int(trajectories.correct.shape[1]), self.most))
            yield from self._at(place, candidates, "data", samples)
            for prm in self.names("prm"):
                if not self.is_finished(["score"], llm, prm):
                    self._leave_out(prm, f"not all trajectories of {llm} are scored")
                    continue
                scored = replace(place, prm=prm)
                yield from self._at(scored, candidates, "prm", samples)
                if not any(each.built.once_for in ("calibrator", "level") for each in candidates):
                    continue
                for name in self.names("calibrator"):
                    calibrated = replace(scored, calibrator=name)
                    if self._is_fitted(calibrated):
                        yield from self._at(calibrated, candidates, "calibrator", samples)
                        for level in self._levels(calibrated):
                            yield from self._at(
                                replace(calibrated, level=level), candidates, "level", samples
                            )

    def _at(
        self, place: Choice, candidates: Sequence[Candidate], once_for: str, samples: int | None
    ) -> Iterator[Measured]:
        known = self.known(place)
        tokens = known.trajectories.tokens.mean(axis=1)
        for candidate in candidates:
            runs = not candidate.of_grid or any(
                self.grid.runs(candidate.name, test.dataset, place.prm, place.calibrator)
                for test in self.tests
            )
            if candidate.built.once_for != once_for or not runs:
                continue
            of_all = {"trajectory_rewards", "step_rewards"}.intersection(candidate.built.reads)
            if of_all and not self._has_all_rewards(place):
                reason = "not all rewards that it reads are known"
                self._leave_out(f"{candidate.name} with {place.calibrator}", reason)
                continue
            try:
                yield from measured(
                    candidate, place, known, place.samples, samples, tokens if tokens.any() else None
                )
            except (PluginFailedError, DataError) as error:  # The other strategies are not affected.
                self._leave_out(candidate.name, str(error))

    def _is_fitted(self, place: Choice) -> bool:
        """Return whether the rewards of a calibrator can be compared here. If not, note why."""
        name = place.calibrator
        planned = self._jobs.get((place.llm, place.prm, name, *self.calibration), ())
        if not any(job.kind == "fit" for job in planned):
            return False
        if self._fit(place) is None or not all(self._rewards(test, place) for test in self.tests):
            self._leave_out(name, f"it is not finished for {place.prm} with {place.llm}")
            return False
        reads = self._calibrator(place).reads
        if reads in ("reward", "logit"):
            return True
        if "calibrator" not in self._filters:
            again = "to fit it again for each fold takes longer, so name it with --calibrator"
            apart = "its rewards of the calibration questions come from a fit to the same questions"
            self._leave_out(name, again if reads == "hidden" else apart)
            return False
        if reads == "prm":
            if self._rewards(self.calibration, place) is None:
                self._leave_out(name, "the run has no rewards of the calibration questions")
                return False
            if name not in self.in_sample:
                self.in_sample.append(name)
        return True

    def _fold_rewards(self, place: Choice, fold_of: Mapping[str, int], scores: pd.DataFrame) -> FoldRewards:
        if place.calibrator in self.in_sample:
            job = self._rewards(self.calibration, place)
            assert job is not None
            table = self.store.table(job.refs, "calibrated_rewards")
            return FoldRewards((table,) * (max(fold_of.values()) + 1), table)
        fit = self._fit(place)
        assert fit is not None
        return rewards_by_fold(self.context, fit, scores, fold_of, self._asked_levels(place))

    def _levels(self, place: Choice) -> list[float]:
        """Return the levels beta of the grid that the calibrator predicts; the median for a point estimate."""
        predicted = {*self._calibrator(place).levels, *self._asked_levels(place)}
        return [level for level in self.grid.scaling.levels if level in predicted] or [0.5]

    def _has_all_rewards(self, place: Choice) -> bool:
        """Return whether rewards of all trajectories are known, of the calibration and of the test questions."""
        tested = all(self._rewards(test, place, self.most) for test in self.tests)
        cheap = self._calibrator(place).reads in ("reward", "logit")
        return tested and (cheap or (place.llm, "") not in self.further)

    def _calibrator(self, place: Choice) -> Calibrator:
        return self.context.calibrator(self.reference("calibrator", place.calibrator))

    def _fit(self, place: Choice) -> Job[FitParameters] | None:
        """Return the job that fitted a calibrator; None if it is not finished."""
        found = self.jobs(["fit"], self.calibration, place.llm, place.prm, place.calibrator)
        return found[0] if found else None

    def _rewards(
        self, questions: Questions, place: Choice, trajectories: int = 1
    ) -> Job[CalibratedParameters] | None:
        """Return the job with the calibrated rewards of at least so many trajectories; None if there is none."""
        found = self.jobs(["calibrated"], questions, place.llm, place.prm, place.calibrator)
        sizes = [(len(job.shards[0].parameters.trajectories), job) for job in found]
        enough = [each for each in sizes if each[0] >= trajectories]
        return min(enough, key=lambda each: each[0])[1] if enough else None

    def _asked_levels(self, place: Choice) -> tuple[float, ...]:
        job = self._rewards(self.tests[0], place)
        assert job is not None
        return job.shards[0].parameters.levels

    def _kept(self, kind: str, name: str) -> bool:
        names = self._filters.get(kind)
        return not names or name in names

    def _leave_out(self, name: str, reason: str) -> None:
        found = LeftOut(name, reason)
        if found not in self.left_out:
            self.left_out.append(found)
