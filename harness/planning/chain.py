"""The jobs that others build on: trajectories, verdicts, success rates, scores, hidden states, fits and rewards."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import compress, pairwise
from typing import Any, TypeVar

from prmcal.harness.jobs import parameters
from prmcal.harness.jobs.job import TEXTS, Job, JobLabels, Refs, Shard
from prmcal.harness.planning.grid import MeasurementSpec
from prmcal.harness.planning.plan import AnyParameters, PlannedPlugin, make_job, make_shard
from prmcal.harness.planning.resolved import GridQuestions, ResolvedGrid
from prmcal.harness.planning.settings import CalibrationSpec
from prmcal.harness.planning.stages import Calibrated, Sampled, Scored
from prmcal.harness.storage.store import ArtifactRef, content_key
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.models import LLM, PRM
from prmcal.registry.grading.extraction import BOXED, ways_of

Reading = TypeVar("Reading", bound=parameters.CalibratorParameters)


class Chain:
    """Plans trajectories and all jobs that follow from them, step by step.

    `jobs` has every job that was planned so far, after its inputs.
    """

    def __init__(self, resolved: ResolvedGrid) -> None:
        self.grid = resolved.spec
        self.resolved = resolved
        self.jobs: list[Job[parameters.Parameters]] = []
        self._planned: dict[tuple[str, JobLabels], Job[Any]] = {}
        self._sampling = {"sampling": self.grid.sampling.sampling(), "seed": self.grid.seed}
        # The shards that sample a question, by the LLM, what is sampled, and the text.
        self._samplers: dict[tuple[str, str], ArtifactRef] = {}

    def add(self, job: Job[AnyParameters]) -> Job[AnyParameters]:
        """Add a job to the plan. If the job is there already, it is returned."""
        identity = (job.key, job.labels)
        if identity not in self._planned:
            self._planned[identity] = job
            self.jobs.append(job)
        return self._planned[identity]

    def blocks(self, count: int, llm: PlannedPlugin[LLM] | None = None) -> list[range]:
        """Return the indices of follow-ups, or of trajectories of an LLM, in groups of the size of a shard.

        Without a number in the grid, the LLM decides. The first block is an exception: its trajectories are measured,
        and are often the only ones that a PRM must score.
        """
        first = size = self.grid.shards.block
        if llm is not None and self.grid.shards.trajectories is None:
            size = llm.built.trajectories_per_shard
        starts = [0, *range(first, count, size)]
        return [range(*ends) for ends in pairwise([*starts, count])]

    def rollout(
        self, llm: PlannedPlugin[LLM], data: GridQuestions, blocks: Iterable[range]
    ) -> Job[parameters.RolloutParameters]:
        """Sample some trajectories of a data set."""
        calibrating = data is self.resolved.calibration
        prefer = self.grid.calibration.prefer_answered if calibrating else None
        kind, fields = parameters.RolloutParameters, {"llm": llm, **self._sampling, "prefer_answered": prefer}
        shards = [
            make_shard(kind, data.content, {}, f"llm:{llm.name}", data=questions, trajectories=block, **fields)
            for block in blocks
            for questions in data.slices()
        ]
        return self.add(make_job(_labels(llm, data), self._reusing(shards, data)))

    def _reusing(self, shards: Iterable[Shard[AnyParameters]], data: GridQuestions) -> list[Shard[AnyParameters]]:
        """Return shards that take over texts of their questions from an earlier shard that samples them."""
        reusing = []
        for shard in shards:
            settings = {name: value for name, value in shard.identity.items() if name != "data"}
            settings_key = content_key([shard.ref.kind, settings])
            questions = shard.parameters.data.questions
            texts = [question.text for question in data.questions[questions.start : questions.stop]]
            samplers = (self._samplers.setdefault((settings_key, text), shard.ref) for text in texts)
            reuses = Refs(dict.fromkeys(sampler for sampler in samplers if sampler != shard.ref))
            reusing.append(replace(shard, reuses=reuses) if reuses else shard)
        return reusing

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
        grading = self._grading(llm, data)
        graded = [_reader(parameters.GradedParameters, data, source, "rollout", **grading) for source in rollout.shards]
        graded_by = {shard.inputs["rollout"][0]: shard.ref for shard in graded}
        jobs = self._follow_ups(llm, data, spec, rollout, measured)
        chosen = {"most_prefixes": spec.most_prefixes, "first_prefixes": spec.first_prefixes}
        success = []
        for sources in zip(*(job.shards for job in jobs), strict=True):
            shard, graded_ref = sources[0], graded_by[sources[0].inputs["rollout"][0]]
            refs = {"graded": [graded_ref], "follow_ups": [source.ref for source in sources]}
            same = {name: getattr(shard.parameters, name) for name in ("data", "trajectories", "follow_ups")}
            success.append(make_shard(parameters.SuccessParameters, data.content, refs, **same, **chosen, **grading))
        grades = self.add(make_job(rollout.labels, graded, [rollout]))
        for grader in data.other_graders:
            model, fields = f"grader:{grader.name}" if grader.built.runs_model else "", {**grading, "grader": grader}
            verdicts = [
                _reader(parameters.VerdictParameters, data, source, "graded", model, **fields) for source in graded
            ]
            self.add(make_job(rollout.labels, verdicts, [grades]))
        rates = self.add(make_job(rollout.labels, success, [grades, *jobs]))
        return Sampled(llm, data, measured, rollout, grades, rates)

    def _follow_ups(
        self,
        llm: PlannedPlugin[LLM],
        data: GridQuestions,
        spec: CalibrationSpec | MeasurementSpec,
        rollout: Job[parameters.RolloutParameters],
        measured: int,
    ) -> list[Job[parameters.FollowUpParameters]]:
        """Follow up the prefixes of measured trajectories that are unfinished if answers are boxed.

        If answers stand elsewhere, a second job follows up prefixes that are then unfinished.
        """
        answers = self._grading(llm, data)["answers"]
        readings = [None] if BOXED in ways_of(answers) else [None, answers]
        names = ("most_prefixes", "first_prefixes", "prefer_answered")
        chosen = {"llm": llm, **self._sampling, **{name: getattr(spec, name) for name in names}}
        kind, model = parameters.FollowUpParameters, f"llm:{llm.name}"
        jobs = []
        for reading in readings:
            shards = []
            for source in rollout.shards:
                first, refs = _first(source, measured), {"rollout": [source.ref]}
                fields = {**chosen, "data": source.parameters.data, "trajectories": first, "answers": reading}
                for block in self.blocks(spec.follow_ups) if first else ():
                    shards.append(make_shard(kind, data.content, refs, model, follow_ups=block, **fields))
            jobs.append(self.add(make_job(rollout.labels, self._reusing(shards, data), [rollout])))
        return jobs

    def _grading(self, llm: PlannedPlugin[LLM], data: GridQuestions) -> dict[str, Any]:
        """Return where the answers of an LLM to some questions stand, and their grader."""
        answers = llm.reference.arguments.get("answers")
        dataset = data.dataset.built
        source = data.dataset.identity.get("source")
        return {
            "answers": dataset.answers if answers is None else answers,
            "grader": data.decider,
            "rules": "" if data.decider else dataset.grader_version + (f", {source}" if source else ""),
        }

    def _published(self, llm: PlannedPlugin[LLM], data: GridQuestions, trajectories: int, follow_ups: int) -> Sampled:
        """Plan to read published trajectories of an LLM with the success rates of their prefixes."""
        assert data.followed_up is not None
        fields = {"trajectories": range(trajectories), "follow_ups": range(follow_ups), "llm": llm}
        fields |= {"published": content_key(data.followed_up.content(llm.name)), **self._grading(llm, data)}
        shards = [
            make_shard(parameters.ImportedParameters, data.content, {}, data=questions, **fields)
            for questions in data.slices()
        ]
        imported = self.add(make_job(_labels(llm, data), shards))
        return Sampled(llm, data, trajectories, imported, imported, imported)

    def score(
        self, prm: PlannedPlugin[PRM], sampled: Sampled, first: int | None = None
    ) -> Job[parameters.ScoreParameters]:
        """Score all prefixes of all trajectories, or of the shards with the `first` ones."""
        rollout = sampled.rollout
        shards = [
            _reader(parameters.ScoreParameters, sampled.data, source, "rollout", f"prm:{prm.name}", prm=prm)
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
        ranked = Scored(**vars(pool), prm=ranking, scores=self.score(ranking, pool), hidden=None)
        return self.scored(prm, pool, pool.measured), ranked

    def ranking(self, calibrated: Calibrated, ranked: Scored) -> Calibrated:
        """Return the rewards for strategies. Hidden states at every token are not computed again for them."""
        if calibrated.calibrator.built.reads == "hidden":
            return replace(calibrated, prm=ranked.prm, scores=ranked.scores)
        return self.calibrated(calibrated.calibrator, ranked, calibrated.fit)

    def scored(self, prm: PlannedPlugin[PRM], sampled: Sampled, first: int | None = None) -> Scored:
        """Score trajectories, and store the hidden states of the measured ones if a calibrator reads stored ones."""
        scores = self.score(prm, sampled, first)
        scored = Scored(**vars(sampled), prm=prm, scores=scores, hidden=None)
        calibrators = self.resolved.calibrators_for(sampled.llm.name, prm.name)
        stores = self.grid.hidden == "stored"
        read = stores and any(calibrator.built.reads == "hidden" for calibrator in calibrators)
        return replace(scored, hidden=self.hidden(scored)) if read else scored

    def hidden(self, scored: Scored) -> Job[parameters.HiddenParameters]:
        """Compute the hidden states of the measured trajectories. They are in the first shards."""
        prm, kind = scored.prm, parameters.HiddenParameters
        shards = []
        for source, scores in zip(scored.rollout.shards, scored.scores.shards, strict=False):
            refs = {"rollout": [source.ref], "score": [scores.ref]}
            if trajectories := _first(source, scored.measured):
                fields = {"prm": prm, "data": source.parameters.data, "trajectories": trajectories}
                shards.append(make_shard(kind, scored.data.content, refs, f"prm:{prm.name}", **fields))
        return self.add(make_job(scored.scores.labels, shards, [scored.rollout, scored.scores]))

    def fit(self, calibrator: PlannedPlugin[Calibrator], scored: Scored) -> Job[parameters.FitParameters]:
        """Fit a calibrator to scored trajectories.

        A calibrator that learns nothing reads only the first shard of scores, unless something needs all: a strategy
        that ranks by the PRM, or another calibrator.
        """
        spec, prm = self.grid.calibration, scored.prm.name
        rivals = self.resolved.calibrators_for(scored.llm.name, prm)
        ranking = [strategy.name for strategy in self.resolved.strategies if strategy.built.once_for != "data"]
        needed = any(calibrator.built.learns for calibrator in rivals) or any(
            self.grid.runs(name, "", prm, "") for name in ranking
        )
        prefixes = spec.most_prefixes or spec.first_prefixes
        fields = {"terminal": spec.terminal, "most_prefixes": prefixes}
        success = {"success": scored.success}
        return self._read(parameters.FitParameters, fields, calibrator, scored, success, None if needed else 1)

    def asked_levels(self, calibrator: Calibrator) -> tuple[float, ...]:
        """Return the further levels of the grid that a calibrator of any level predicts, ascending."""
        further_levels = set(self.grid.scaling.levels) - set(calibrator.levels) if calibrator.any_level else ()
        return tuple(sorted(further_levels))

    def calibrated(
        self, calibrator: PlannedPlugin[Calibrator], scored: Scored, fit: Job[parameters.FitParameters]
    ) -> Calibrated:
        """Return scored trajectories with the rewards of their measured prefixes, also at the levels of the grid."""
        levels = {"levels": self.asked_levels(calibrator.built)}
        rewards = self._read(parameters.CalibratedParameters, levels, calibrator, scored, {"fit": fit})
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

        `fields` are the parameters of this kind alone. It reads only the first `shards` of scores, by default all.
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
        refs |= {role: job.refs for role, job in inputs.items()}
        model = f"prm:{scored.prm.name}" if reads == "prm" or computes else ""
        same = {"prm": scored.prm, "data": scored.data.whole, "trajectories": range(scored.measured)}
        shard = make_shard(kind, scored.data.content, refs, model, calibrator=calibrator, **same, **fields)
        labels = replace(scored.labels, calibrator=calibrator.name)
        return self.add(make_job(labels, [shard], [*sources.values(), *inputs.values()]))


def _reader(
    kind: type[AnyParameters], data: GridQuestions, source: Shard[Any], role: str, resource: str = "", **fields: Any
) -> Shard[AnyParameters]:
    """Make the shard that reads the artifact of another shard, in a role, and is about the same trajectories."""
    same = {"data": source.parameters.data, "trajectories": source.parameters.trajectories}
    return make_shard(kind, data.content, {role: [source.ref]}, resource, **same, **fields)


def _first(source: Shard[parameters.RolloutParameters | parameters.ImportedParameters], measured: int) -> range:
    """Return which trajectories of a shard are among the first `measured`; an empty range if none are."""
    trajectories = source.parameters.trajectories
    return range(trajectories.start, min(trajectories.stop, measured))


def _labels(llm: PlannedPlugin[LLM], data: GridQuestions) -> JobLabels:
    return JobLabels(llm=llm.name, dataset=data.dataset.name, split=data.split)
