"""The jobs that others build on: trajectories, success rates, scores, hidden states, fits and calibrated rewards."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import compress, pairwise
from typing import Any, TypeVar

from prmcal.harness.jobs import parameters
from prmcal.harness.jobs.job import TEXTS, Job, Labels, Shard
from prmcal.harness.planning.grid import MeasurementSpec
from prmcal.harness.planning.plan import AnyParameters, PlannedPlugin, make_job, make_shard
from prmcal.harness.planning.resolved import GridQuestions, ResolvedGrid
from prmcal.harness.planning.settings import CalibrationSpec
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.models import LLM, PRM
from prmcal.registry.contracts.strategy import OnceFor

Reading = TypeVar("Reading", bound=parameters.CalibratorParameters)


@dataclass(frozen=True)
class Sampled:
    """The trajectories of an LLM on one data set."""

    llm: PlannedPlugin[LLM]
    data: GridQuestions
    measured: int
    """The number of trajectories of each question whose prefixes have success rates."""
    rollout: Job[parameters.RolloutParameters | parameters.ImportedParameters]
    success: Job[parameters.Parameters]
    """The jobs with the trajectories and with the success rates. For imported data both are the same job."""

    @property
    def labels(self) -> Labels:
        """The names of the plugins and of the data set."""
        return self.rollout.labels


@dataclass(frozen=True)
class Scored(Sampled):
    """Trajectories with the scores of a PRM. `hidden` is None unless a calibrator reads stored hidden states."""

    prm: PlannedPlugin[PRM]
    scores: Job[parameters.ScoreParameters]
    hidden: Job[parameters.HiddenParameters] | None

    @property
    def labels(self) -> Labels:
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
    def labels(self) -> Labels:
        """The names of the plugins and of the data set."""
        return self.rewards.labels


def once_for(own: Sampled) -> OnceFor:
    """Return which strategies are run once for trajectories, scores or rewards, by their `once_for`."""
    if isinstance(own, Calibrated):
        return "calibrator" if own.level is None else "level"
    return "prm" if isinstance(own, Scored) else "data"


class Chain:
    """Plans trajectories and what follows from them, step by step.

    `jobs` has every job that was planned so far, after its inputs.
    """

    def __init__(self, resolved: ResolvedGrid) -> None:
        self.grid = resolved.spec
        self.resolved = resolved
        self.jobs: list[Job[parameters.Parameters]] = []
        self._planned: dict[tuple[str, Labels], Job[Any]] = {}
        self._sampling = self.grid.sampling.sampling()
        self._seed = {"seed": self.grid.seed}

    def add(self, job: Job[AnyParameters]) -> Job[AnyParameters]:
        """Add a job to the plan. One that is there already is returned."""
        place = (job.key, job.labels)
        if place not in self._planned:
            self._planned[place] = job
            self.jobs.append(job)
        return self._planned[place]

    def blocks(self, count: int, llm: PlannedPlugin[LLM] | None = None) -> list[range]:
        """Return follow-ups, or trajectories of an LLM, by their indices, as many together as a shard may have.

        If the grid does not say how many, the LLM decides it, but for the first block: its trajectories are those that
        are measured, and a PRM may have to score no others.
        """
        first = size = self.grid.shards.block
        if llm is not None and self.grid.shards.trajectories is None:
            size = llm.built.trajectories_per_shard
        starts = [0, *range(first, count, size)]
        return [range(*ends) for ends in pairwise([*starts, count])]

    def rollout(
        self, llm: PlannedPlugin[LLM], data: GridQuestions, blocks: Iterable[range]
    ) -> Job[parameters.RolloutParameters]:
        """Sample and grade some trajectories of a data set."""
        calibrating = data is self.resolved.calibration
        shards = [
            make_shard(
                parameters.RolloutParameters,
                {
                    "llm": llm,
                    "data": questions,
                    "trajectories": block,
                    "sampling": self._sampling,
                    "prefer_answered": self.grid.calibration.prefer_answered if calibrating else None,
                },
                {"data": data.key(questions), **self._seed},
                {},
                f"llm:{llm.name}",
            )
            for block in blocks
            for questions in data.slices()
        ]
        return self.add(make_job(_labels(llm, data), shards))

    def sampled(
        self,
        llm: PlannedPlugin[LLM],
        data: GridQuestions,
        spec: CalibrationSpec | MeasurementSpec,
        trajectories: int,
        measured: int,
    ) -> Sampled:
        """Sample trajectories, and follow up the prefixes of the first `measured` ones as a part of the grid says.

        Of published data with success rates, the measured trajectories are read.
        """
        if data.followed_up is not None:
            return self._published(llm, data, measured, spec.follow_ups)
        rollout = self.rollout(llm, data, self.blocks(trajectories, llm))
        shards = [
            make_shard(
                parameters.SuccessParameters,
                {
                    "llm": llm,
                    "data": source.parameters.data,
                    "trajectories": first,
                    "follow_ups": block,
                    "sampling": self._sampling,
                    "most_prefixes": spec.most_prefixes,
                    "first_prefixes": spec.first_prefixes,
                    "prefer_answered": spec.prefer_answered,
                },
                self._seed,
                {"rollout": [source.ref]},
                f"llm:{llm.name}",
            )
            for source in rollout.shards
            if (first := _first(source, measured))
            for block in self.blocks(spec.follow_ups)
        ]
        success = self.add(make_job(rollout.labels, shards, [rollout]))
        return Sampled(llm, data, measured, rollout, success)

    def calibration(self, llm: PlannedPlugin[LLM]) -> Sampled:
        """Plan the trajectories that calibrators are fitted to, with their success rates."""
        spec = self.grid.calibration
        return self.sampled(llm, self.resolved.calibration, spec, spec.trajectories, spec.trajectories)

    def _published(
        self, llm: PlannedPlugin[LLM], data: GridQuestions, trajectories: int, follow_ups: int
    ) -> Sampled:
        """Plan to read published trajectories of an LLM with the success rates of their prefixes."""
        assert data.followed_up is not None
        content = data.followed_up.content(llm.name)
        shards = [
            make_shard(
                parameters.ImportedParameters,
                {
                    "trajectories": range(trajectories),
                    "follow_ups": range(follow_ups),
                    "llm": llm,
                    "data": questions,
                },
                {"data": data.key(questions), "published": content},
                {},
            )
            for questions in data.slices()
        ]
        imported = self.add(make_job(_labels(llm, data), shards))
        return Sampled(llm, data, trajectories, imported, imported)

    def test_pool(self, llm: PlannedPlugin[LLM], data: GridQuestions) -> Sampled:
        """Plan the pool of test questions, with the success rates of the measured trajectories."""
        spec = self.grid.measurement
        return self.sampled(llm, data, spec, self.grid.scaling.samples, spec.measured)

    def score(
        self, prm: PlannedPlugin[PRM], rollout: Job[Any], first: int | None = None
    ) -> Job[parameters.ScoreParameters]:
        """Score all prefixes of all trajectories, or of the shards with the `first` ones."""
        shards = [
            make_shard(
                parameters.ScoreParameters,
                {"prm": prm, "data": source.parameters.data, "trajectories": source.parameters.trajectories},
                {},
                {"rollout": [source.ref]},
                f"prm:{prm.name}",
            )
            for source in rollout.shards
            if first is None or _first(source, first)
        ]
        return self.add(make_job(replace(rollout.labels, prm=prm.name), shards, [rollout]))

    def tested(self, prm: PlannedPlugin[PRM], pool: Sampled) -> tuple[Scored, Scored]:
        """Score a pool to measure calibration, and to rank its solutions.

        Both are the same unless the grid has other arguments of the PRM for ranking. Then only the measured
        trajectories are scored to measure calibration.
        """
        ranking = self.resolved.ranking[prm.name]
        if ranking == prm:
            return (self.scored(prm, pool),) * 2
        ranked = Scored(**vars(pool), prm=ranking, scores=self.score(ranking, pool.rollout), hidden=None)
        return self.scored(prm, pool, pool.measured), ranked

    def ranking(self, calibrated: Calibrated, ranked: Scored) -> Calibrated:
        """Return the rewards for strategies. Hidden states at every token are not computed again for them."""
        if calibrated.calibrator.built.reads == "hidden":
            return replace(calibrated, prm=ranked.prm, scores=ranked.scores)
        return self.calibrated(calibrated.calibrator, ranked, calibrated.fit)

    def scored(self, prm: PlannedPlugin[PRM], sampled: Sampled, first: int | None = None) -> Scored:
        """Score trajectories, and store the hidden states of the measured ones if a calibrator reads stored ones."""
        scores = self.score(prm, sampled.rollout, first)
        scored = Scored(**vars(sampled), prm=prm, scores=scores, hidden=None)
        calibrators = self.resolved.calibrators_for(sampled.llm.name, prm.name)
        stores = self.grid.hidden == "stored"
        read = stores and any(calibrator.built.reads == "hidden" for calibrator in calibrators)
        return replace(scored, hidden=self.hidden(scored)) if read else scored

    def hidden(self, scored: Scored) -> Job[parameters.HiddenParameters]:
        """Compute the hidden states of the measured trajectories, whose shards are the first ones."""
        prm = scored.prm
        shards = [
            make_shard(
                parameters.HiddenParameters,
                {"prm": prm, "data": source.parameters.data, "trajectories": trajectories},
                {"measured": scored.measured},
                {"rollout": [source.ref], "score": [scores.ref]},
                f"prm:{prm.name}",
            )
            for source, scores in zip(scored.rollout.shards, scored.scores.shards, strict=False)
            if (trajectories := _first(source, scored.measured))
        ]
        return self.add(make_job(scored.scores.labels, shards, [scored.rollout, scored.scores]))

    def fit(self, calibrator: PlannedPlugin[Calibrator], scored: Scored) -> Job[parameters.FitParameters]:
        """Fit a calibrator to scored trajectories.

        One that learns nothing reads the first shard of scores only, if nothing else needs them all: no strategy ranks
        by the PRM, and it has no other calibrator.
        """
        spec, prm = self.grid.calibration, scored.prm.name
        fitted = self.resolved.calibrators_for(scored.llm.name, prm)
        ranking = [each.name for each in self.resolved.strategies if each.built.once_for != "data"]
        needed = any(each.built.learns for each in fitted) or any(
            self.grid.runs(name, "", prm, "") for name in ranking
        )
        prefixes = spec.most_prefixes or spec.first_prefixes
        fields = {"terminal": spec.terminal, "most_prefixes": prefixes}
        success = {"success": scored.success}
        return self._read(
            parameters.FitParameters, fields, calibrator, scored, success, None if needed else 1
        )

    def asked_levels(self, calibrator: Calibrator) -> tuple[float, ...]:
        """Return the levels of the grid that a calibrator of any level predicts besides its own, ascending."""
        asked = set(self.grid.scaling.levels) - set(calibrator.levels) if calibrator.any_level else ()
        return tuple(sorted(asked))

    def rewards(
        self, calibrator: PlannedPlugin[Calibrator], scored: Scored, fit: Job[parameters.FitParameters]
    ) -> Job[parameters.CalibratedParameters]:
        """Predict the rewards of scored trajectories with a fitted calibrator, also at the levels of the grid.

        Only a calibrator of any level has levels in its key: those that are not its own.
        """
        levels = {"levels": self.asked_levels(calibrator.built)}
        return self._read(parameters.CalibratedParameters, levels, calibrator, scored, {"fit": fit})

    def calibrated(
        self, calibrator: PlannedPlugin[Calibrator], scored: Scored, fit: Job[parameters.FitParameters]
    ) -> Calibrated:
        """Return scored trajectories with the rewards of their measured prefixes."""
        rewards = self.rewards(calibrator, scored, fit)
        return Calibrated(**vars(scored), calibrator=calibrator, fit=fit, rewards=rewards)

    def _read(
        self,
        kind: type[Reading],
        fields: Mapping[str, Any],
        calibrator: PlannedPlugin[Calibrator],
        scored: Scored,
        inputs: Mapping[str, Job[parameters.Parameters]],
        shards: int | None = None,
    ) -> Job[Reading]:
        """Plan a job in which a calibrator reads the measured trajectories.

        `fields` are the parameters that only this kind has. It reads only the first `shards` of scores, by default all.
        """
        reads = calibrator.built.reads
        sources: dict[str, Job[parameters.Parameters]] = {"score": scored.scores}
        computes = reads == "hidden" and self.grid.hidden == "computed"
        if computes:
            sources[TEXTS] = scored.rollout
        elif reads == "hidden" and scored.hidden is not None:
            sources["hidden"] = scored.hidden
        if reads == "prm":
            sources["rollout"] = scored.rollout
        measured = [bool(_first(shard, scored.measured)) for shard in scored.rollout.shards]
        refs = {
            role: job.refs if role == "hidden" else list(compress(job.refs, measured))[:shards]
            for role, job in sources.items()
        }
        shard = make_shard(
            kind,
            {
                "calibrator": calibrator,
                "prm": scored.prm,
                "data": scored.data.whole,
                "trajectories": range(scored.measured),
                **fields,
            },
            {"measured": scored.measured},
            refs | {role: job.refs for role, job in inputs.items()},
            f"prm:{scored.prm.name}" if reads == "prm" or computes else "",
        )
        labels = replace(scored.labels, calibrator=calibrator.name)
        return self.add(make_job(labels, [shard], [*sources.values(), *inputs.values()]))


def _first(
    source: Shard[parameters.RolloutParameters | parameters.ImportedParameters], measured: int
) -> range:
    """Return which trajectories of a shard are among the first `measured`; an empty range if none are."""
    trajectories = source.parameters.trajectories
    return range(trajectories.start, min(trajectories.stop, measured))


def _labels(llm: PlannedPlugin[LLM], data: GridQuestions) -> Labels:
    return Labels(llm=llm.name, dataset=data.dataset.name, split=data.split)
