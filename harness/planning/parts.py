"""The parts of a plan: shards with their keys, jobs of shards, and what is built on top of each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from prmcal.harness.jobs.job import TUNING, Job, Labels, Shard, job_key, of_other, shard_key
from prmcal.harness.jobs.parameters import (
    CalibratedParameters,
    FitParameters,
    HiddenParameters,
    ImportedParameters,
    Parameters,
    RolloutParameters,
    ScoreParameters,
)
from prmcal.harness.planning.plan import PlannedPlugin
from prmcal.harness.planning.resolved import GridQuestions
from prmcal.harness.storage.store import ArtifactRef
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.models import LLM, PRM
from prmcal.registry.contracts.strategy import OnceFor, PoolStrategy, Strategy

AnyParameters = TypeVar("AnyParameters", bound=Parameters)

OF_TRAJECTORIES = frozenset(("trajectory_rewards", "step_rewards"))
"""The things that a strategy may read for which calibrated rewards of all trajectories are needed."""


def make_shard(
    identity: Mapping[str, Any],
    parameters: AnyParameters,
    inputs: Mapping[str, Sequence[ArtifactRef]],
    resource: str = "",
) -> Shard[AnyParameters]:
    """Make a shard whose key, and with it the seed, follows from `identity` and the inputs.

    `identity` is everything that decides the output besides the inputs, as JSON data. `inputs` are the artifacts that
    it reads, by role, and `resource` is the model that it needs loaded, if any.
    """
    ref = ArtifactRef(parameters.kind, shard_key(parameters.kind, parameters.version, identity, inputs))
    references = {role: tuple(refs) for role, refs in inputs.items()}
    return Shard(ref, parameters, references, resource, identity, parameters.version)


def make_job(
    labels: Labels, shards: Sequence[Shard[AnyParameters]], inputs: Sequence[Job[Parameters]] = ()
) -> Job[AnyParameters]:
    """Make a job of shards. Its key follows from theirs."""
    return Job(job_key([shard.ref for shard in shards]), labels, tuple(shards), tuple(inputs))


@dataclass(frozen=True)
class Sampled:
    """The trajectories of an LLM on one data set."""

    llm: PlannedPlugin[LLM]
    data: GridQuestions
    measured: int
    """The number of trajectories of each question whose prefixes have success rates."""
    rollout: Job[RolloutParameters | ImportedParameters]
    success: Job[Parameters]
    """The jobs with the trajectories and with the success rates. For imported data both are the same job."""

    @property
    def labels(self) -> Labels:
        """The names of the plugins and of the data set."""
        return self.rollout.labels

    @property
    def once_for(self) -> OnceFor:
        """The strategies that are run once for these trajectories, by their `once_for`."""
        return "data"


@dataclass(frozen=True)
class Scored(Sampled):
    """Trajectories with the scores of a PRM. `hidden` is None unless a calibrator of the grid reads hidden states."""

    prm: PlannedPlugin[PRM]
    scores: Job[ScoreParameters]
    hidden: Job[HiddenParameters] | None

    @property
    def labels(self) -> Labels:
        """The names of the plugins and of the data set."""
        return self.scores.labels

    @property
    def once_for(self) -> OnceFor:
        """The strategies that are run once for these scores, by their `once_for`."""
        return "prm"


@dataclass(frozen=True)
class Calibrated(Scored):
    """Scored trajectories with the rewards of a calibrator."""

    calibrator: PlannedPlugin[Calibrator]
    fit: Job[FitParameters]
    """The job that fitted the calibrator."""
    rewards: Job[CalibratedParameters]
    """The rewards of the prefixes of measured trajectories."""
    pool_rewards: Job[CalibratedParameters] | None = None
    """The rewards of the prefixes of all trajectories; None unless a strategy of the grid reads them."""
    level: float | None = None
    """The level beta at which a strategy reads them; None for all levels."""

    @property
    def labels(self) -> Labels:
        """The names of the plugins and of the data set."""
        return self.rewards.labels

    @property
    def once_for(self) -> OnceFor:
        """The strategies that are run once for these rewards, by their `once_for`."""
        return "calibrator" if self.level is None else "level"


@dataclass(frozen=True)
class StrategyInputs:
    """The inputs of a strategy: trajectories, perhaps scored or calibrated."""

    own: Sampled
    """Those of the test questions."""
    tuning: Sampled
    """The same of the calibration questions."""
    others: Mapping[str, StrategyInputs] = field(default_factory=dict)
    """The same of other LLMs, by their names in the grid: those that the strategy names in its `others`."""

    @property
    def level(self) -> float | None:
        """The level beta, if there is one."""
        return self.own.level if isinstance(self.own, Calibrated) else None

    def roles(self, strategy: Strategy) -> dict[str, Job[Parameters]]:
        """Return the jobs whose artifacts the strategy reads, by role."""
        found = _roles(self.own, strategy)
        for name, other in self.others.items():
            found |= {f"{of_other(name)}{role}": job for role, job in other.roles(strategy).items()}
        if isinstance(strategy, PoolStrategy) and strategy.tuned:
            found |= {f"{TUNING}{role}": job for role, job in _roles(self.tuning, strategy).items()}
        return found


def _roles(known: Sampled, strategy: Strategy) -> dict[str, Job[Parameters]]:
    found: dict[str, Job[Parameters]] = {"rollout": known.rollout}
    reads = set(strategy.reads)
    if isinstance(known, Scored) and reads & {"scores", "step_scores", *OF_TRAJECTORIES}:
        found["score"] = known.scores
    if isinstance(known, Calibrated):
        if reads & {"rewards", "question_rewards"}:
            found["calibrated"] = known.rewards
        if reads & OF_TRAJECTORIES and known.pool_rewards is not None:
            found["pool_rewards"] = known.pool_rewards
    if "success" in reads:
        found["success"] = known.success
    return found
