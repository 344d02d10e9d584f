"""The assumed lengths of texts, times and sizes, for the costs of work of which nothing is computed yet."""

import math
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
from prmcal.registry.models.checkpoints import SPREAD, is_on_this_machine, read_config, resolve_checkpoint
from prmcal.registry.plugins import KINDS, calibrators, prms, strategies

SHARE_OF_LONGEST = 0.4
"""Tokens of a whole solution, as a share of the grid's max_tokens."""
STEP_TOKENS = 60
"""Tokens of a step. The paper's 40,000 to 80,000 prefixes of 4,000 trajectories are 10 to 20 per trajectory."""
REASONING_STEP_TOKENS = 27
"""Tokens of a step of a reasoning model, 25 to 30 of those that were distilled from DeepSeek-R1."""
_REASONING = re.compile(r"(?<![a-z0-9])(r1|qwq|thinking|reasoning|reasoner)(?![a-z0-9])", re.IGNORECASE)
_FEWEST_PREFIXES = 6
_LONGEST = 2048
"""The max_tokens of published solutions, which is that of the paper."""


def trajectory_tokens(max_tokens: int) -> float:
    """Return the tokens of a whole solution."""
    return SHARE_OF_LONGEST * max_tokens


def step_tokens(llm: parameters.PluginReference) -> int:
    """Return the tokens of a step of an LLM. Its name, or that of its checkpoint, says if it is a reasoning model."""
    names = f"{llm.name} {checkpoint_of('llm', llm)}".replace("_", "-")
    return REASONING_STEP_TOKENS if _REASONING.search(names) else STEP_TOKENS


def prefixes(max_tokens: int, step: int = STEP_TOKENS) -> int:
    """Return the number of prefixes of a trajectory with steps of `step` tokens, including the bare question."""
    return max(_FEWEST_PREFIXES, 1 + round(trajectory_tokens(max_tokens) / step))


def followed_up(max_tokens: int, most_prefixes: int | None, step: int) -> int:
    """Return the number of prefixes of a trajectory that are followed up, of at most `most_prefixes`; None for all."""
    every = prefixes(max_tokens, step)
    return every if most_prefixes is None else min(every, most_prefixes)


def longest_completion(plan: Plan) -> int:
    """Return the grid's max_tokens; that of the paper if nothing is generated."""
    found = (shard.parameters for shard in plan.shards())
    return next(
        (each.sampling.max_tokens for each in found if isinstance(each, parameters.GeneratingParameters)),
        _LONGEST,
    )


def completion_tokens(given: parameters.GeneratingParameters) -> float:
    """Return the tokens of a completion. A follow-up is half a solution on average, and a search samples steps."""
    whole = trajectory_tokens(given.sampling.max_tokens)
    if isinstance(given, parameters.SearchParameters):
        return whole / (prefixes(given.sampling.max_tokens, step_tokens(given.llm)) - 1)
    return whole / 2 if isinstance(given, parameters.SuccessParameters) else whole


def completions(given: parameters.Parameters) -> float:
    """Return the completions that a shard is assumed to sample, which are known for rollouts; 0 if it samples none."""
    match given:
        case parameters.RolloutParameters():
            return given.size * (given.prefer_answered or 1)
        case parameters.SuccessParameters():
            most = given.most_prefixes or given.first_prefixes
            drawn = given.size * (given.prefer_answered or 1)
            return drawn * followed_up(given.sampling.max_tokens, most, step_tokens(given.llm))
        case parameters.SearchParameters():  # It samples all of its candidates for every step.
            steps = prefixes(given.sampling.max_tokens, step_tokens(given.llm))
            return given.size * given.candidates * steps
    return 0


def generated_tokens(given: parameters.Parameters) -> float:
    """Return the tokens that a shard is assumed to generate."""
    if not isinstance(given, parameters.GeneratingParameters):
        return 0
    return completions(given) * completion_tokens(given)


Kind = Literal["llm", "prm"]
Task = Literal["generate", "read", "train"]

_GPU, _PEAK = "H100", 989e12
_SHARE: dict[Task, float] = {"generate": 0.1, "read": 0.4, "train": 0.3}
_OPERATIONS: dict[Task, int] = {"generate": 2, "read": 2, "train": 6}
QUESTION_TOKENS = 150
"""Tokens of a question, including what the format of a PRM adds to it."""
_BILLIONS = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)b(?![a-z0-9])", re.IGNORECASE)

EXPLANATION = (
    f"GPU-hours are estimated for an {_GPU} ({_PEAK / 1e12:.0f} TFLOP/s in bfloat16): 2 operations per parameter and "
    f"token at {_SHARE['generate']:.0%} of its peak to generate and at {_SHARE['read']:.0%} to score, 6 at "
    f"{_SHARE['train']:.0%} to train. The size of a model is read from its name. A solution is assumed to have "
    f"{SHARE_OF_LONGEST:g} x max_tokens tokens, a step {STEP_TOKENS}, of a reasoning model {REASONING_STEP_TOKENS}. An "
    "engine that computes whole sequences reads each prefix by itself if its marker is not part of the next one. The "
    "estimate can be wrong by a factor of three. Once shards are finished, `--out DIR` estimates the time from them."
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
    longest = longest_completion(plan)
    for shard in plan.shards():
        if shard.ref in done:
            continue
        for kind, model, task, amount in _tasks(shard, longest, _step(plan, shard)):
            size = billions(checkpoint_of(kind, model))
            if size is not None:
                sizes[model.name] = size
                tokens[model.name][task] += amount
    return [
        ModelCost(name, size, sum(tokens[name].values()), hours_of(size, tokens[name]))
        for name, size in sizes.items()
    ]


def model_seconds(plan: Plan) -> Mapping[ArtifactRef, float]:
    """Return the seconds that the models of each shard are assumed to take on their GPUs; 0 for shards without a model.

    A model whose name does not say its size is as large as the others on average.
    """
    if plan.model_seconds is not None:
        return plan.model_seconds
    longest = longest_completion(plan)
    models = [(kind, each.reference) for kind in ("llm", "prm") for each in plan.plugins.get(kind, ())]
    sizes = [size for kind, each in models if (size := billions(checkpoint_of(kind, each))) is not None]
    unknown = sum(sizes) / len(sizes) if sizes else 1.0

    def seconds(shard: Shard[parameters.Parameters]) -> float:
        return 3600 * sum(
            hours_of(billions(checkpoint_of(kind, model)) or unknown, {task: amount})
            / (gpus_of(model) % ALL_GPUS or 1)
            for kind, model, task, amount in _tasks(shard, longest, _step(plan, shard))
        )

    return {shard.ref: seconds(shard) for shard in plan.shards()}


def hours_of(billions: float, tokens: Mapping[Task, float]) -> float:
    """Return the GPU-hours that a model of so many parameters is assumed to take for the tokens of each task."""
    operations = sum(amount * _OPERATIONS[task] / _SHARE[task] for task, amount in tokens.items())
    return operations * billions * 1e9 / _PEAK / 3600


def _step(plan: Plan, shard: Shard[parameters.Parameters]) -> int:
    """Return the tokens of a step of the LLM that a shard is about."""
    name = plan.job_of(shard.ref).labels.llm
    llms = (each.reference for each in plan.plugins.get("llm", ()) if each.name == name)
    return next(map(step_tokens, llms), STEP_TOKENS)


def _tasks(
    shard: Shard[parameters.Parameters], longest: int, step: int
) -> Iterator[tuple[Kind, parameters.PluginReference, Task, float]]:
    """Yield which model does which task on how many tokens. The steps of the LLM have `step` tokens."""
    given, whole = shard.parameters, trajectory_tokens(longest)
    read = shard.size * (QUESTION_TOKENS + whole)
    match given:
        case parameters.SearchParameters():
            strategy = given.strategy.build(strategies)
            every = strategy.every if isinstance(strategy, SearchStrategy) else 1
            yield "llm", given.llm, "generate", generated_tokens(given)
            yield "prm", given.prm, "read", completions(given) / every * (QUESTION_TOKENS + whole / 2)
        case parameters.GeneratingParameters():
            yield "llm", given.llm, "generate", generated_tokens(given)
        case parameters.ScoreParameters(prm=prm) if _reads_apart(prm):
            yield "prm", prm, "read", shard.size * prefixes(longest, step) * (QUESTION_TOKENS + whole / 2)
        case parameters.CalibratedParameters(prm=prm) | parameters.ScoringParameters(prm=prm) if (
            shard.resource
        ):
            yield "prm", prm, "read", read
        case parameters.FitParameters() if TEXTS in shard.inputs:
            passes = 1 + given.calibrator.build(calibrators).reading_passes  # One finds the forest of tokens.
            yield "prm", given.prm, "read", passes * read
        case parameters.FitParameters() if shard.resource:
            calibrator = given.calibrator.build(calibrators)
            apart = followed_up(longest, given.most_prefixes, step) * (QUESTION_TOKENS + whole / 2)
            tokens = shard.size * apart if calibrator.trains_apart else read
            yield "prm", given.prm, "train", calibrator.training_passes * tokens


ALL_GPUS = 1_000_000
"""The GPUs that a model needs that is spread over all of a machine."""


def gpus_of(model: parameters.PluginReference) -> int:
    """Return the number of GPUs that a model of a grid is spread over, at least 1; ALL_GPUS for all of a machine."""
    if model.arguments.get("device") == SPREAD:
        return ALL_GPUS
    size = model.arguments.get("tensor_parallel")
    # Another value is an error, which is raised when the plugin is built.
    return size if isinstance(size, int) and size > 0 else 1


def models_of(shard: Shard[parameters.Parameters]) -> list[tuple[Kind, parameters.PluginReference]]:
    """Return the models that a shard loads, each with its kind: llm or prm."""
    kinds: tuple[Kind, ...] = ("llm", "prm")
    found = [(kind, getattr(shard.parameters, kind, None)) for kind in kinds]
    return [(kind, model) for kind, model in found if shard.resource and model is not None]


def gpus_needed(shard: Shard[parameters.Parameters]) -> int:
    """Return the GPUs that a worker needs for a shard: those of its largest model; 0 if it loads none."""
    return max((gpus_of(model) for _, model in models_of(shard)), default=1 if shard.resource else 0)


def _reads_apart(prm: parameters.PluginReference) -> bool:
    """Return whether a PRM reads each prefix of a trajectory by itself."""
    known = prms.get(prm.plugin)
    return known.whole_sequences and prm.arguments.get("markers", getattr(known, "markers", None)) == "last"


def checkpoint_of(kind: str, model: parameters.PluginReference) -> str:
    """Return the checkpoint of a model: that of its arguments, or that of its class.

    It is empty if the model loads none, or its plugin is not known, as where the status of a run is read.
    """
    if given := model.arguments.get("checkpoint"):
        return str(given)
    try:
        return str(KINDS[kind].get(model.plugin).checkpoint)
    except UnknownPluginError:
        return ""


def billions(checkpoint: str) -> float | None:
    """Return the parameters of a model in billions, read from the name of its checkpoint; None if it is not there."""
    found = _BILLIONS.findall(checkpoint.replace("_", "-"))
    return float(found[-1]) if found else None


_BYTES_OF_TOKEN = 4
_BYTES_OF_STATE = 2
_BYTES_OF_SHARD = 100_000
_BYTES_OF_PARAMETER = 2
_WIDTH_OF_A_BILLION = 2048

DISK_EXPLANATION = (
    f"Stored hidden states take {_BYTES_OF_STATE} bytes x the PRM's width for every token of the measured trajectories "
    f"and of those that calibrators are fitted to. The width of a PRM that is not on this machine is assumed to be "
    f"{_WIDTH_OF_A_BILLION:,} x (10^9 parameters)^(1/3). A solution takes {_BYTES_OF_TOKEN} bytes per token, any other "
    f"shard {_BYTES_OF_SHARD / 1e6:g} MB, a model {_BYTES_OF_PARAMETER} bytes per parameter. A fit loads "
    "the stored states of one LLM and PRM into memory as float32, and needs twice this for a short time. Computed "
    f"states (`hidden: computed`) need no disk. {parameters.KEPT_STATES / 1e9:.1f} GB of them and a batch are in "
    "memory."
)


@dataclass(frozen=True)
class Space:
    """Bytes that a plan will take."""

    hidden: float
    solutions: float
    rest: float
    """Disk for the artifacts that are not computed yet: hidden states, whole solutions, and the others."""
    models: float
    """Disk for the weights that are not on this machine."""

    @property
    def artifacts(self) -> float:
        """Disk for all artifacts that are not computed yet."""
        return self.hidden + self.solutions + self.rest


def space_needed(plan: Plan, done: Collection[ArtifactRef]) -> Space:
    """Estimate the disk for the remaining work.

    `done` are the finished shards.
    """
    longest = longest_completion(plan)
    given = [shard.parameters for shard in plan.shards() if shard.ref not in done]
    hidden = [each for each in given if isinstance(each, parameters.HiddenParameters)]
    widths = {prm.name: _width(prm) for prm in {each.prm.name: each.prm for each in hidden}.values()}
    # The trajectories of a question share its tokens.
    states = sum(
        widths[each.prm.name]
        * (each.size * trajectory_tokens(longest) + len(each.data.questions) * QUESTION_TOKENS)
        for each in hidden
    )
    solutions = sum(
        each.size * completion_tokens(each)
        for each in given
        if isinstance(each, parameters.RolloutParameters)
    )
    others = sum(
        not isinstance(each, parameters.HiddenParameters | parameters.RolloutParameters) for each in given
    )
    weights = {each.absent for kind in ("llm", "prm") for each in plan.plugins.get(kind, ())}
    return Space(
        hidden=_BYTES_OF_STATE * states,
        solutions=_BYTES_OF_TOKEN * solutions,
        rest=_BYTES_OF_SHARD * float(others),
        models=sum(_BYTES_OF_PARAMETER * 1e9 * (billions(each) or 0) for each in weights & {*plan.absent}),
    )


def _width(prm: parameters.PluginReference) -> float:
    """Return the width of a PRM's hidden states; 0 if it is not known."""
    checkpoint = checkpoint_of("prm", prm)
    if checkpoint and is_on_this_machine(checkpoint):
        width = read_config(resolve_checkpoint(checkpoint)).get("hidden_size")
        return float(width) if isinstance(width, int) else 0.0
    return _WIDTH_OF_A_BILLION * math.cbrt(billions(checkpoint) or 0.0)
