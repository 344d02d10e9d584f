"""The stages of the trajectories of an LLM: sampled, scored, calibrated."""

from dataclasses import dataclass

from prmcal.harness.jobs import parameters
from prmcal.harness.jobs.job import Job, JobLabels
from prmcal.harness.planning.plan import PlannedPlugin
from prmcal.harness.planning.resolved import GridQuestions
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.models import LLM, PRM
from prmcal.registry.contracts.strategy import OnceFor


@dataclass(frozen=True)
class Sampled:
    """The trajectories of an LLM on one data set."""

    llm: PlannedPlugin[LLM]
    data: GridQuestions
    measured: int
    """The number of trajectories of each question whose prefixes have success rates."""
    rollout: Job[parameters.RolloutParameters | parameters.ImportedParameters]
    graded: Job[parameters.Parameters]
    success: Job[parameters.Parameters]
    """The jobs with the texts, the verdicts and the success rates. For imported data they are the same job."""

    @property
    def labels(self) -> JobLabels:
        """The names of the plugins and of the data set."""
        return self.rollout.labels


@dataclass(frozen=True)
class Scored(Sampled):
    """Trajectories with the scores of a PRM. `hidden` is None unless a calibrator reads stored hidden states."""

    prm: PlannedPlugin[PRM]
    scores: Job[parameters.ScoreParameters]
    hidden: Job[parameters.HiddenParameters] | None

    @property
    def labels(self) -> JobLabels:
        """The names of the plugins and of the data set."""
        return self.scores.labels


@dataclass(frozen=True)
class Calibrated(Scored):
    """Scored trajectories with the rewards of a calibrator."""

    calibrator: PlannedPlugin[Calibrator]
    fit: Job[parameters.FitParameters]
    """The job that fitted the calibrator."""
    rewards: Job[parameters.CalibratedParameters]
    """The rewards of the prefixes of measured trajectories."""
    level: float | None = None
    """The level beta at which a strategy reads them; None for all levels."""

    @property
    def labels(self) -> JobLabels:
        """The names of the plugins and of the data set."""
        return self.rewards.labels


def once_for(stage: Sampled) -> OnceFor:
    """Return which strategies are run once for trajectories, scores or rewards, by their `once_for`."""
    if isinstance(stage, Calibrated):
        return "calibrator" if stage.level is None else "level"
    return "prm" if isinstance(stage, Scored) else "data"
