"""The places of a comparison: every LLM of a run with its PRMs and calibrators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prmcal.errors import PluginFailedError, RunError
from prmcal.harness.jobs.context import Context
from prmcal.harness.jobs.job import Job
from prmcal.harness.jobs.parameters import CalibratedParameters, FitParameters, Parameters, PluginReference
from prmcal.harness.jobs.pools import GradedTrajectories, trajectories_of
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.reading import grid_of
from prmcal.harness.planning.saved import existing_plan, load_plugins_of
from prmcal.harness.recommending.folds import FoldRewards, KnownPools, folds_of, rewards_by_fold
from prmcal.harness.recommending.measured import Candidate, Measured, TestPool, measured
from prmcal.harness.recommending.types import Choice, LeftOut
from prmcal.harness.storage.folder import RunFolder, RunRecord
from prmcal.harness.storage.store import ArtifactRef, Store

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Questions:
    """The name and the split of some questions."""

    dataset: str
    split: str


class RunArtifacts:
    """The finished artifacts of a run.

    Parameters
    ----------
    directory : Path
        The output folder of the run.

    Raises
    ------
    RunError
        If no grid was run in the folder, it is a merged leaderboard, or its saved plan is damaged.
    PluginError
        If a plugin file of the run is no longer there.
    """

    def __init__(self, directory: Path) -> None:
        self.folder = RunFolder(directory)
        self.record: RunRecord = self.folder.record()
        if "calibration" not in self.record.grid:
            raise RunError(
                f"{directory} is a merged leaderboard, which has no grid of its own. Give the folder of a run."
            )
        self.plan: Plan = existing_plan(self.folder)
        load_plugins_of(self.folder)
        self.store = Store(directory)
        self.context = Context(self.store)
        self._present: dict[ArtifactRef, bool] = {}

    @property
    def grid(self) -> dict[str, Any]:
        """The data of the grid."""
        return self.record.grid

    @cached_property
    def calibration(self) -> Questions:
        """The calibration questions."""
        return Questions(self.grid["calibration"]["name"], self.grid["calibration"]["split"])

    @cached_property
    def tests(self) -> list[Questions]:
        """The test questions of each data set."""
        return [Questions(each["name"], each["split"]) for each in self.grid["datasets"]]

    def names(self, kind: str) -> list[str]:
        """Return the names of the plugins of a kind, in the order of the grid."""
        if kind == "dataset":
            return list(dict.fromkeys(each.dataset for each in self.tests))
        return [each.name for each in self.plan.plugins.get(kind, ())]

    def reference(self, kind: str, name: str) -> PluginReference:
        """Return what is needed to build a plugin of the grid."""
        return next(each.reference for each in self.plan.plugins[kind] if each.name == name)

    def references(self, kind: str) -> list[PluginReference]:
        """Return what is needed to build the plugins of a kind, in the order of the grid."""
        return [each.reference for each in self.plan.plugins.get(kind, ())]

    def jobs(
        self, kinds: Sequence[str], questions: Questions, llm: str, prm: str = "", calibrator: str = ""
    ) -> list[Job[Parameters]]:
        """Return the jobs of some kinds about these questions and plugins. Those without all artifacts are left out."""
        place = (llm, prm, calibrator, questions.dataset, questions.split)
        found = [job for job in self._by_place.get(place, ()) if job.kind in kinds]
        return [job for job in found if all(map(self._is_present, job.refs))]

    def fit(self, llm: str, prm: str, calibrator: str) -> Job[FitParameters] | None:
        """Return the job that fitted a calibrator; None if it is not finished."""
        found: list[Any] = self.jobs(["fit"], self.calibration, llm, prm, calibrator)
        return found[0] if found else None

    def rewards(
        self, questions: Questions, llm: str, prm: str, calibrator: str, trajectories: int = 1
    ) -> Job[Parameters] | None:
        """Return the job with the calibrated rewards of at least so many trajectories; None if there is none."""
        found: list[Any] = self.jobs(["calibrated"], questions, llm, prm, calibrator)
        enough = [job for job in found if len(job.shards[0].parameters.trajectories) >= trajectories]
        return min(enough, key=lambda job: len(job.shards[0].parameters.trajectories), default=None)

    def table(self, refs: Iterable[ArtifactRef], name: str) -> pd.DataFrame:
        """Return one table of some artifacts, concatenated."""
        import pandas as pd

        frames = [self.store.read(ref.kind, ref.key, name).to_pandas() for ref in refs]
        if not frames:
            raise RunError(f"The run in {self.folder.directory} has no table '{name}'. Run the grid again.")
        return pd.concat(frames, ignore_index=True)

    @cached_property
    def _by_place(self) -> dict[tuple[str, ...], list[Job[Parameters]]]:
        found: dict[tuple[str, ...], list[Job[Parameters]]] = {}
        for job in self.plan.jobs:
            labels = job.labels
            place = (labels.llm, labels.prm, labels.calibrator, labels.dataset, labels.split)
            found.setdefault(place, []).append(job)
        return found

    def _is_present(self, ref: ArtifactRef) -> bool:
        if ref not in self._present:
            self._present[ref] = self.store.manifest(ref.kind, ref.key, verify=False) is not None
        return self._present[ref]


_OF_ALL = frozenset(("trajectory_rewards", "step_rewards"))

Further = Mapping[tuple[str, str], Sequence[ArtifactRef]]
"""Artifacts of further trajectories of the calibration questions, by the LLM and the PRM; "" for the rollouts."""


class Places:
    """The LLMs of a run with their PRMs and calibrators, on the calibration questions and on the test questions.

    Parameters
    ----------
    run : RunArtifacts
    filters : mapping of str to sequence of str
        Names to keep, by llm, prm, calibrator or dataset.
    further : mapping
        Trajectories that were drawn after the run.

    Attributes
    ----------
    left_out : list of LeftOut
    in_sample : list of str
        Calibrators that were fitted to the questions on which they are judged here.
    """

    def __init__(self, run: RunArtifacts, filters: Mapping[str, Sequence[str]], further: Further) -> None:
        self.run, self.further = run, further
        self._filters = filters
        self._grid = grid_of(run.grid, f"The grid in {run.folder.directory}")
        self.tests = [each for each in run.tests if self._kept("dataset", each.dataset)]
        self.left_out: list[LeftOut] = []
        self.in_sample: list[str] = []
        self._known: dict[tuple[str, str, str], KnownPools] = {}
        self._trajectories: dict[str, tuple[GradedTrajectories, GradedTrajectories]] = {}

    @property
    def llms(self) -> list[str]:
        """The LLMs that are compared."""
        return [name for name in self.run.names("llm") if self._kept("llm", name)]

    def most(self, llm: str) -> int:
        """Return the largest N that calibration and test questions of an LLM have trajectories for."""
        trajectories, _ = self.trajectories(llm)
        return min(int(trajectories.correct.shape[1]), int(self.run.grid["scaling"]["samples"]))

    def trajectories(self, llm: str) -> tuple[GradedTrajectories, GradedTrajectories]:
        """Return all trajectories of the calibration questions, and those of the run.

        Raises
        ------
        RunError
            If they are not finished.
        """
        if llm not in self._trajectories:
            jobs = self.run.jobs(["rollout", "imported"], self.run.calibration, llm)
            if not jobs:
                raise RunError(f"The trajectories of the calibration questions by '{llm}' are not finished.")
            own = self.run.table(jobs[0].refs, "trajectories")
            every = self.run.table([*jobs[0].refs, *self.further.get((llm, ""), ())], "trajectories")
            self._trajectories[llm] = (trajectories_of(every), trajectories_of(own))
        return self._trajectories[llm]

    def measured(self, candidates: Sequence[Candidate], samples: int | None) -> Iterator[Measured]:
        """Yield what each strategy reaches for each LLM, PRM and calibrator, in all settings."""
        for llm in self.llms:
            if not self._is_finished(llm, "rollout"):
                self._leave_out(llm, "its trajectories are not finished")
                continue
            place = Choice(llm, "", self.most(llm))
            yield from self._at(place, candidates, "data", samples)
            for prm in self.run.names("prm"):
                if not self._kept("prm", prm):
                    continue
                if not self._is_finished(llm, "score", prm):
                    self._leave_out(prm, f"its scores are not finished with {llm}")
                    continue
                scored = replace(place, prm=prm)
                yield from self._at(scored, candidates, "prm", samples)
                yield from self._calibrated(scored, candidates, samples)

    def known(self, choice: Choice) -> KnownPools:
        """Return the pools of the calibration questions for the LLM, the PRM and the calibrator of a choice."""
        place = (choice.llm, choice.prm, choice.calibrator)
        if place not in self._known:
            trajectories, own = self.trajectories(choice.llm)
            folds = folds_of(len(trajectories.question_ids))
            scores = self._scores(choice.llm, choice.prm) if choice.prm else None
            rewards = (
                self._rewards(choice, folds, scores) if choice.calibrator and scores is not None else None
            )
            self._known[place] = KnownPools(trajectories, own, folds, scores, rewards)
        return self._known[place]

    def test_pool(self, choice: Choice, questions: Questions, prm: str) -> TestPool:
        """Return the test questions of a data set for a choice.

        `prm` is that of best-of-n, which a choice without a PRM is compared with.
        """
        rollout = self.run.jobs(["rollout"], questions, choice.llm)[0]
        trajectories = trajectories_of(self.run.table(rollout.refs, "trajectories"))
        scores = self.run.jobs(["score"], questions, choice.llm, choice.prm or prm)[0]
        rewards = None
        if choice.calibrator:
            most = trajectories.correct.shape[1]
            job = self.run.rewards(
                questions, choice.llm, choice.prm, choice.calibrator, most
            ) or self.run.rewards(questions, choice.llm, choice.prm, choice.calibrator)
            assert job is not None
            rewards = self.run.table(job.refs, "calibrated_rewards")
        return TestPool(questions.dataset, trajectories, self.run.table(scores.refs, "rewards"), rewards)

    def _at(
        self, place: Choice, candidates: Sequence[Candidate], once_for: str, samples: int | None
    ) -> Iterator[Measured]:
        known = self.known(place)
        tokens: NDArray[np.float64] | None = known.trajectories.tokens.mean(axis=1)
        if tokens is not None and not tokens.any():
            tokens = None
        for candidate in candidates:
            if candidate.built.once_for == once_for and self._runs(candidate, place):
                if _OF_ALL.intersection(candidate.built.reads) and not self._has_all_rewards(place):
                    self._leave_out(
                        f"{candidate.name} with {place.calibrator}",
                        "not all rewards that it reads are known",
                    )
                    continue
                try:
                    yield from measured(candidate, place, known, place.samples, samples, tokens)
                except PluginFailedError as error:  # The other strategies are not affected.
                    self._leave_out(candidate.name, str(error))

    def _calibrated(
        self, place: Choice, candidates: Sequence[Candidate], samples: int | None
    ) -> Iterator[Measured]:
        if not any(each.built.once_for in ("calibrator", "level") for each in candidates):
            return
        for name in self.run.names("calibrator"):
            if not self._kept("calibrator", name) or not self._is_fitted(place, name):
                continue
            calibrated = replace(place, calibrator=name)
            yield from self._at(calibrated, candidates, "calibrator", samples)
            for level in self._levels(calibrated):
                yield from self._at(replace(calibrated, level=level), candidates, "level", samples)

    def _runs(self, candidate: Candidate, place: Choice) -> bool:
        return not candidate.of_grid or any(
            self._grid.runs(candidate.name, test.dataset, place.prm, place.calibrator) for test in self.tests
        )

    def _is_fitted(self, place: Choice, calibrator: str) -> bool:
        """Return whether the rewards of a calibrator can be compared here. If not, note why."""
        planned = any(
            job.kind == "fit"
            and (job.labels.llm, job.labels.prm, job.labels.calibrator) == (place.llm, place.prm, calibrator)
            for job in self.run.plan.jobs
        )
        if not planned:
            return False
        finished = self.run.fit(place.llm, place.prm, calibrator) is not None and all(
            self.run.rewards(test, place.llm, place.prm, calibrator) for test in self.tests
        )
        if not finished:
            self._leave_out(calibrator, f"it is not finished for {place.prm} with {place.llm}")
            return False
        reads = self.run.context.calibrator(self.run.reference("calibrator", calibrator)).reads
        if reads in ("reward", "logit"):
            return True
        if "calibrator" not in self._filters:
            again = "to fit it again for each fold takes longer, so name it with --calibrator"
            apart = "its rewards of the calibration questions come from a fit to the same questions"
            self._leave_out(calibrator, again if reads == "hidden" else apart)
            return False
        if reads == "prm":
            if self.run.rewards(self.run.calibration, place.llm, place.prm, calibrator) is None:
                self._leave_out(calibrator, "the run has no rewards of the calibration questions")
                return False
            if calibrator not in self.in_sample:
                self.in_sample.append(calibrator)
        return True

    def _rewards(self, place: Choice, folds: NDArray[np.int64], scores: pd.DataFrame) -> FoldRewards:
        trajectories, _ = self.trajectories(place.llm)
        fit = self.run.fit(place.llm, place.prm, place.calibrator)
        assert fit is not None
        if place.calibrator in self.in_sample:
            job = self.run.rewards(self.run.calibration, place.llm, place.prm, place.calibrator)
            assert job is not None
            table = self.run.table(job.refs, "calibrated_rewards")
            return FoldRewards((table,) * (int(folds.max()) + 1), table)
        levels = self._asked_levels(place)
        ids = trajectories.question_ids
        return rewards_by_fold(self.run.context, fit, scores, ids, folds, levels)

    def _asked_levels(self, place: Choice) -> tuple[float, ...]:
        job = self.run.rewards(self.tests[0], place.llm, place.prm, place.calibrator)
        assert job is not None
        parameters = job.shards[0].parameters
        return parameters.levels if isinstance(parameters, CalibratedParameters) else ()

    def _levels(self, place: Choice) -> list[float]:
        """Return the levels beta of the grid that the calibrator predicts; the median for a point estimate."""
        built = self.run.context.calibrator(self.run.reference("calibrator", place.calibrator))
        predicted = {*built.levels, *self._asked_levels(place)}
        return [level for level in self.run.grid["scaling"]["levels"] if level in predicted] or [0.5]

    def _has_all_rewards(self, place: Choice) -> bool:
        """Return whether rewards of all trajectories are known, of the calibration and of the test questions."""
        reads = self.run.context.calibrator(self.run.reference("calibrator", place.calibrator)).reads
        most = int(self.run.grid["scaling"]["samples"])
        tested = all(
            self.run.rewards(test, place.llm, place.prm, place.calibrator, most) for test in self.tests
        )
        return tested and (reads in ("reward", "logit") or (place.llm, "") not in self.further)

    def _scores(self, llm: str, prm: str) -> pd.DataFrame:
        job = self.run.jobs(["score"], self.run.calibration, llm, prm)[0]
        return self.run.table([*job.refs, *self.further.get((llm, prm), ())], "rewards")

    def _is_finished(self, llm: str, kind: str, prm: str = "") -> bool:
        kinds = [kind, "imported"] if kind == "rollout" else [kind]
        return all(self.run.jobs(kinds, each, llm, prm) for each in (self.run.calibration, *self.tests))

    def _kept(self, kind: str, name: str) -> bool:
        names = self._filters.get(kind)
        return not names or name in names

    def _leave_out(self, name: str, reason: str) -> None:
        found = LeftOut(name, reason)
        if found not in self.left_out:
            self.left_out.append(found)
