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

    Parameters
    ----------
    identity : mapping
        Everything that decides the output besides the inputs, as JSON data.
    parameters : Parameters
    inputs : mapping of str to sequence of ArtifactRef
        The artifacts that it reads, by role.
    resource : str
        The model that it needs loaded, if any.
    """
    key = shard_key(parameters.kind, parameters.version, identity, inputs)
    references = {role: tuple(refs) for role, refs in inputs.items()}
    ref = ArtifactRef(parameters.kind, key)
    return Shard(ref, parameters, references, resource, identity, parameters.version)


def make_job(
    labels: Labels, shards: Sequence[Shard[AnyParameters]], inputs: Sequence[Job[Parameters]] = ()
) -> Job[AnyParameters]:
    """Make a job of shards. Its key follows from theirs."""
    return Job(job_key([shard.ref for shard in shards]), labels, tuple(shards), tuple(inputs))


@dataclass(frozen=True)
class Sampled:
    """The trajectories of an LLM on one data set.

    Attributes
    ----------
    measured : int
        The number of trajectories of each question whose prefixes have success rates.
    rollout, success : Job
        The jobs with the trajectories and with the success rates. For imported data both are the same job.
    """

    llm: PlannedPlugin[LLM]
    data: GridQuestions
    measured: int
    rollout: Job[RolloutParameters | ImportedParameters]
    success: Job[Parameters]

    @property
    def labels(self) -> Labels:
        """The LLM and the data set."""
        return self.rollout.labels


@dataclass(frozen=True)
class Scored:
    """Trajectories with the scores of a PRM. `hidden` is None unless a calibrator of the grid reads hidden states."""

    sampled: Sampled
    prm: PlannedPlugin[PRM]
    scores: Job[ScoreParameters]
    hidden: Job[HiddenParameters] | None

    @property
    def labels(self) -> Labels:
        """The LLM, the PRM and the data set."""
        return self.scores.labels


@dataclass(frozen=True)
class Calibrated:
    """Scored trajectories with the rewards of a calibrator.

    Attributes
    ----------
    fit : Job
        The job that fitted the calibrator.
    rewards : Job
        The rewards of the prefixes of measured trajectories.
    pool_rewards : Job or None
        The rewards of the prefixes of all trajectories; None unless a strategy of the grid reads them.
    """

    scored: Scored
    calibrator: PlannedPlugin[Calibrator]
    fit: Job[FitParameters]
    rewards: Job[CalibratedParameters]
    pool_rewards: Job[CalibratedParameters] | None = None

    @property
    def labels(self) -> Labels:
        """The LLM, the PRM, the calibrator and the data set."""
        return self.rewards.labels


@dataclass(frozen=True)
class StrategyInputs:
    """The inputs of a strategy: trajectories, their scores if any, rewards if any, and at a level beta if any.

    Attributes
    ----------
    tuning : StrategyInputs or None
        The same of the calibration questions.
    others : mapping of str to StrategyInputs
        The same of other LLMs, by their names in the grid: those that the strategy names in its `others`.
    """

    sampled: Sampled
    tuning: StrategyInputs | None = None
    scored: Scored | None = None
    calibrated: Calibrated | None = None
    level: float | None = None
    others: Mapping[str, StrategyInputs] = field(default_factory=dict)

    @property
    def labels(self) -> Labels:
        """The labels of the strategy's job."""
        return (self.calibrated or self.scored or self.sampled).labels

    def suits(self, strategy: Strategy) -> bool:
        """Return whether the strategy is run once for each of these inputs."""
        if self.calibrated is not None:
            return strategy.once_for == ("calibrator" if self.level is None else "level")
        return strategy.once_for == ("data" if self.scored is None else "prm")

    def at(self, once_for: OnceFor) -> StrategyInputs:
        """Return the part of these inputs that a strategy which is run once for `once_for` can read."""
        tuning = self.tuning.at(once_for) if self.tuning else None
        match once_for:
            case "data":
                return StrategyInputs(self.sampled, tuning)
            case "prm":
                return StrategyInputs(self.sampled, tuning, self.scored)
            case "calibrator":
                return StrategyInputs(self.sampled, tuning, self.scored, self.calibrated)
            case "level":
                return self

    def roles(self, strategy: Strategy) -> dict[str, Job[Parameters]]:
        """Return the jobs whose artifacts the strategy reads, by role."""
        found: dict[str, Job[Parameters]] = {"rollout": self.sampled.rollout}
        reads = set(strategy.reads)
        if self.scored is not None and reads & {"scores", "step_scores", *OF_TRAJECTORIES}:
            found["score"] = self.scored.scores
        if self.calibrated is not None:
            if reads & {"rewards", "question_rewards"}:
                found["calibrated"] = self.calibrated.rewards
            if reads & OF_TRAJECTORIES and self.calibrated.pool_rewards is not None:
                found["pool_rewards"] = self.calibrated.pool_rewards
        if "success" in reads:
            found["success"] = self.sampled.success
        for name, other in self.others.items():
            found |= {f"{of_other(name)}{role}": job for role, job in other.roles(strategy).items()}
        if self.tuning is not None and isinstance(strategy, PoolStrategy) and strategy.tuned:
            found |= {f"{TUNING}{role}": job for role, job in self.tuning.roles(strategy).items()}
        return found
