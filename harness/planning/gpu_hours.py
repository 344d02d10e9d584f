"""Estimates of the work of models before anything is computed: tokens and GPU-hours."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from prmcal.errors import UnknownPluginError
from prmcal.harness.jobs import parameters
from prmcal.harness.jobs.job import TEXTS, Shard
from prmcal.harness.planning.plan import Plan
from prmcal.harness.storage.store import ArtifactRef
from prmcal.registry.contracts.strategy import SearchStrategy
from prmcal.registry.plugins import KINDS, calibrators, prms, strategies

_SHARE_OF_LONGEST = 0.4
_STEP_TOKENS = 60
"""Tokens of a step. The paper's 40,000 to 80,000 prefixes of 4,000 trajectories are 10 to 20 per trajectory."""
_REASONING_STEP_TOKENS = 27
"""Tokens of a step of a reasoning model: 25 to 30 for models that were distilled from DeepSeek-R1."""
_REASONING = re.compile(r"(?<![a-z0-9])(r1|qwq|thinking|reasoning|reasoner)(?![a-z0-9])", re.IGNORECASE)
_FEWEST_PREFIXES = 6
_QUESTION_TOKENS = 150
"""Tokens of a question, including the tokens of a PRM's format."""
_LONGEST = 2048
"""The max_tokens of published solutions: the paper's."""


@dataclass(frozen=True)
class Lengths:
    """The assumed lengths of the solutions of an LLM, which are at most `longest` tokens long."""

    longest: int
    step: int = _STEP_TOKENS
    """Tokens of a step."""

    @classmethod
    def of(cls, llm: parameters.PluginReference, longest: int) -> "Lengths":
        """Return the lengths of an LLM. The name of the LLM or of its checkpoint shows if it is a reasoning model."""
        names = f"{llm.name} {checkpoint_of('llm', llm)}".replace("_", "-")
        return cls(longest, _REASONING_STEP_TOKENS if _REASONING.search(names) else _STEP_TOKENS)

    @property
    def whole(self) -> float:
        """Tokens of a whole solution. A follow-up or a scored prefix has half as many on average."""
        return _SHARE_OF_LONGEST * self.longest

    def prefixes(self, most: int | None = None) -> int:
        """Return the number of prefixes of a solution, including the bare question; `most` of them if it is set."""
        all_prefixes = max(_FEWEST_PREFIXES, 1 + round(self.whole / self.step))
        return all_prefixes if most is None else min(all_prefixes, most)


def completions(work: parameters.Parameters) -> float:
    """Return the completions that a shard is assumed to sample (exact for rollouts); 0 if it samples none."""
    if not isinstance(work, parameters.GeneratingParameters):
        return 0
    lengths = Lengths.of(work.llm, work.sampling.max_tokens)
    match work:
        case parameters.RolloutParameters():
            return work.size * (work.prefer_answered or 1)
        case parameters.FollowUpParameters(answers=None):
            most = work.most_prefixes or work.first_prefixes
            return work.size * (work.prefer_answered or 1) * lengths.prefixes(most)
        case parameters.SearchParameters():  # It samples all of its candidates for every step.
            return work.size * work.candidates * lengths.prefixes()
    return 0


def generated_tokens(work: parameters.Parameters) -> float:
    """Return the tokens of these completions: a rollout samples solutions, a search steps, and others follow-ups."""
    if not isinstance(work, parameters.GeneratingParameters):
        return 0
    lengths, share = Lengths.of(work.llm, work.sampling.max_tokens), 0.5
    if isinstance(work, parameters.RolloutParameters):
        share = 1
    elif isinstance(work, parameters.SearchParameters):
        share = 1 / (lengths.prefixes() - 1)
    return completions(work) * lengths.whole * share


Task = Literal["generate", "read", "train"]

_GPU, _PEAK = "H100", 989e12
_SHARE_OF_PEAK: dict[Task, float] = {"generate": 0.1, "read": 0.4, "train": 0.3}
_OPERATIONS: dict[Task, int] = {"generate": 2, "read": 2, "train": 6}
"""Operations per parameter and token."""
_BILLIONS = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)b(?![a-z0-9])", re.IGNORECASE)

EXPLANATION = (
    f"GPU-hours are estimated for an {_GPU} ({_PEAK / 1e12:.0f} TFLOP/s in bfloat16): 2 operations per parameter and "
    f"token at {_SHARE_OF_PEAK['generate']:.0%} of its peak to generate and at {_SHARE_OF_PEAK['read']:.0%} to score, "
    f"6 at {_SHARE_OF_PEAK['train']:.0%} to train. The size of a model is read from its name. A solution is assumed to "
    f"have {_SHARE_OF_LONGEST:g} x max_tokens tokens, a step {_STEP_TOKENS}, of a reasoning model "
    f"{_REASONING_STEP_TOKENS}. The estimate can be wrong by a factor of three. Once shards are finished, `--out DIR` "
    "estimates the time from them."
)


@dataclass(frozen=True)
class ModelCost:
    """The work of one model in a plan."""

    name: str
    """The name in the grid."""
    billions: float
    """Its parameters."""
    tokens: float
    """The tokens that it generates, reads or is trained on."""
    gpu_hours: float


def model_costs(plan: Plan, done: Collection[ArtifactRef]) -> list[ModelCost]:
    """Estimate the remaining work of each model whose checkpoint's name contains its size, in the plan's order.

    `done` are the finished shards.
    """
    sizes: dict[str, float] = {}
    tokens: dict[str, dict[Task, float]] = defaultdict(lambda: defaultdict(float))
    for shard, work in assumed_work(plan):
        for kind, model, task, amount in work if shard.ref not in done else ():
            size = billions(checkpoint_of(kind, model))
            if size is not None:
                sizes[model.name] = size
                tokens[model.name][task] += amount
    return [
        ModelCost(name, size, sum(tokens[name].values()), hours_of(size, tokens[name])) for name, size in sizes.items()
    ]


def hours_of(billions: float, tokens: Mapping[Task, float]) -> float:
    """Return the GPU-hours that a model of so many parameters is assumed to take for the tokens of each task."""
    operations = sum(amount * _OPERATIONS[task] / _SHARE_OF_PEAK[task] for task, amount in tokens.items())
    return operations * billions * 1e9 / _PEAK / 3600


Work = tuple[Literal["llm", "prm"], parameters.PluginReference, Task, float]
"""A model with its kind, and the tokens of a task."""


def assumed_work(plan: Plan) -> Iterator[tuple[Shard[parameters.Parameters], list[Work]]]:
    """Yield each shard of a plan, and the work of its models."""
    generating = plan.jobs_of(parameters.GeneratingParameters)
    longest = generating[0].shards[0].parameters.sampling.max_tokens if generating else _LONGEST
    llms = {llm.name: Lengths.of(llm.reference, longest) for llm in plan.plugins.get("llm", ())}
    for shard in plan.shards():
        lengths = llms.get(plan.job_of(shard.ref).labels.llm, Lengths(longest))
        yield shard, list(_work(shard, lengths))


def _work(shard: Shard[parameters.Parameters], lengths: Lengths) -> Iterator[Work]:
    work = shard.parameters
    solution, prefix = _QUESTION_TOKENS + lengths.whole, _QUESTION_TOKENS + lengths.whole / 2
    match work:
        case parameters.SearchParameters():
            strategy = work.strategy.build(strategies)
            steps_between_scores = strategy.every if isinstance(strategy, SearchStrategy) else 1
            yield "llm", work.llm, "generate", generated_tokens(work)
            yield "prm", work.prm, "read", completions(work) / steps_between_scores * prefix
        case parameters.GeneratingParameters():
            yield "llm", work.llm, "generate", generated_tokens(work)
        case parameters.ScoreParameters(prm=prm) if _reads_apart(prm):
            yield "prm", prm, "read", shard.size * lengths.prefixes() * prefix
        case parameters.CalibratedParameters(prm=prm) | parameters.ScoringParameters(prm=prm) if shard.resource:
            yield "prm", prm, "read", shard.size * solution
        case parameters.FitParameters() if TEXTS in shard.inputs:
            passes = 1 + work.calibrator.build(calibrators).reading_passes  # One finds the forest of tokens.
            yield "prm", work.prm, "read", passes * shard.size * solution
        case parameters.FitParameters() if shard.resource:
            calibrator = work.calibrator.build(calibrators)
            tokens = lengths.prefixes(work.most_prefixes) * prefix if calibrator.trains_apart else solution
            yield "prm", work.prm, "train", calibrator.training_passes * shard.size * tokens


def _reads_apart(prm: parameters.PluginReference) -> bool:
    """Return whether a PRM reads each prefix of a trajectory by itself."""
    plugin = prms.get(prm.plugin)
    return plugin.whole_sequences and prm.arguments.get("markers", getattr(plugin, "markers", None)) == "last"


def checkpoint_of(kind: str, model: parameters.PluginReference) -> str:
    """Return the checkpoint of a model: of its arguments, or of its class.

    It is empty if the model loads none, or if its plugin is not known, as in `prmcal status`.
    """
    if checkpoint := model.arguments.get("checkpoint"):
        return str(checkpoint)
    try:
        return str(KINDS[kind].get(model.plugin).checkpoint)
    except UnknownPluginError:
        return ""


def billions(checkpoint: str) -> float | None:
    """Return the parameters of a model in billions, from the name of its checkpoint; None if the name has no size."""
    sizes = _BILLIONS.findall(checkpoint.replace("_", "-"))
    return float(sizes[-1]) if sizes else None
