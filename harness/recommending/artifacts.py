"""What a run holds of its calibration and test questions: finished jobs, by what they are about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prmcal.errors import RunError
from prmcal.harness.jobs.context import Context
from prmcal.harness.jobs.job import Job
from prmcal.harness.jobs.parameters import FitParameters, Parameters, PluginReference
from prmcal.harness.planning.again import existing_plan, load_plugins_of
from prmcal.harness.planning.plan import Plan
from prmcal.harness.storage.folder import RunFolder, RunRecord
from prmcal.harness.storage.keys import ArtifactRef
from prmcal.harness.storage.store import Store

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Questions", "RunArtifacts"]


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
