"""The entries of a grid file, which name plugins with their arguments, and parameters: sampling, scaling and shards.

The upper limits of the fields are far above what a machine can run. With larger numbers a plan alone would take hours.
"""

from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from prmcal.db.metrics import COORDINATES, SCALING, with_terminal
from prmcal.harness.jobs.job import Name, StrategyName
from prmcal.harness.jobs.parameters import PluginReference
from prmcal.harness.storage.store import content_key
from prmcal.registry.contracts.data import Sampling
from prmcal.registry.contracts.plugin import FinitePositive, Share, ShareOrOne

_MOST = 1_000_000

Number = Annotated[int, Field(ge=1, le=_MOST)]
"""A number of questions, trajectories, follow-ups or tokens."""
MostPrefixes = Annotated[int, Field(ge=2, le=_MOST)] | None
"""The largest number of prefixes of a trajectory that are followed up, its ends included; None for all."""
Bins = Annotated[int, Field(ge=1, le=10_000)]
Replicates = Annotated[int, Field(ge=100, le=100_000)]
FirstPrefixes = Annotated[int, Field(ge=1, le=_MOST)] | None
"""The number of prefixes of a trajectory that are followed up, from the bare question on; None for all."""
PreferAnswered = Annotated[float, Field(gt=1, le=10)] | None
"""Completions that are drawn for each that is kept; None for one."""
Shares = Annotated[list[Share], Field(min_length=1, max_length=100)]


class Section(BaseModel):
    """The base of all parts of a grid. Unknown fields are errors."""

    # The texts below the fields are their descriptions in the reference of the grid file and in its JSON Schema.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


class SamplingSpec(Section):
    """The sampling of every LLM of the grid."""

    temperature: FinitePositive = 0.7
    """The temperature. It is above 0, because success is defined for an LLM that samples."""
    top_p: ShareOrOne = 1.0
    """The probability mass of nucleus sampling."""
    max_tokens: Number = 2048
    """The largest number of tokens of a solution."""
    stop: list[str] = []
    """A completion ends before the first of these texts."""

    def sampling(self) -> Sampling:
        """Return the values as the type that LLMs receive."""
        return Sampling(self.temperature, self.top_p, self.max_tokens, tuple(self.stop))


class ScalingSpec(Section):
    """The parameters of strategies: the fixed budget N (`samples`), the targets C and the quantile levels beta."""

    samples: Number = 64
    """The fixed budget N: the samples of each question in the pool. No strategy uses more."""
    targets: Shares = [0.99]
    """The target probabilities C of strategies with IAS."""
    levels: Shares = [0.1]
    """The quantile levels beta of strategies that read calibrated rewards: any, if the calibrator predicts any level.
    A point estimate is used for every level."""


class ShardSpec(Section):
    """The size of a shard, the unit of work and of resume. Another size gives other samples."""

    questions: Number = 50
    """The number of questions of a shard."""
    trajectories: Number | None = None
    """The number of trajectories of each question in a shard. By default 8. For the LLM `vllm`, whose engine is fast
    with thousands of texts at once, 32 after the first 8."""

    @property
    def block(self) -> int:
        """The number of trajectories of each question in the first shard, and of follow-ups in every shard."""
        return self.trajectories or 8


def _free_column(name: str) -> str:
    other_columns = {*COORDINATES, *_OTHER_COLUMNS, *(metric.name for metric in SCALING)}
    ending = next((end for end in _ENDINGS if name.endswith(end)), "")
    if name in other_columns or ending:
        raise ValueError(f"leaderboards have other columns {f'that end in {ending}' if ending else 'of this name'}")
    return name


_OTHER_COLUMNS = ("cell_id", "number", "rows", "questions", "independent", "status", "reason")
_ENDINGS = ("_low", "_high", "_standing", with_terminal(""))
MetricName = Annotated[Name, AfterValidator(_free_column)]
"""The name of a column. Its interval and standing are columns of their own."""
Text = Annotated[str, Field(max_length=200)]
"""A name that plugins give: of a plugin, or of a split."""
Chosen = Annotated[list[Name], Field(min_length=1, max_length=1000)] | None
"""The names of the entries that another entry is restricted to; None for all."""


def _data_of_keys(arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        content_key(arguments)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            "only texts, finite numbers, true, false, null, and lists and mappings of them can be arguments. Write "
            "dates in quotation marks"
        ) from error
    return arguments


Arguments = Annotated[dict[str, Any], AfterValidator(_data_of_keys)]
"""The constructor arguments of a plugin: data that a key can be made from."""


class PluginSpec(Section):
    """A plugin and the name that the leaderboard shows.

    In the file a string such as ``isotonic`` stands for the plugin of that name with its default arguments.
    """

    name: Name
    """The name that the leaderboard shows: letters, digits and `. _ + -`."""
    plugin: Text
    """The registered name of the plugin. By default it is `name`."""
    arguments: Arguments = Field(default={})
    """The constructor arguments of the plugin."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"name": value, "plugin": value}
        if isinstance(value, dict) and "plugin" not in value and "name" in value:
            return {**value, "plugin": value["name"]}
        return value

    def reference(self) -> PluginReference:
        """Return the entry as the plain data from which a shard builds the plugin."""
        return PluginReference(self.name, self.plugin, dict(self.arguments))


class LLMSpec(PluginSpec):
    """An LLM and the name that the leaderboard shows."""


class PRMSpec(PluginSpec):
    """A PRM and the name that the leaderboard shows."""

    ranking: Arguments = Field(default={})
    """Arguments that are others where solutions are ranked and samples are counted: for strategies and searches.
    Calibrators are fitted and measured with `arguments`. The authors' code calibrates with one marker behind a prefix
    and ranks with one behind every step. Each prefix is then scored twice."""

    def as_it_ranks(self) -> Self:
        """Return the entry with the arguments for ranking."""
        return self.model_copy(update={"arguments": {**self.arguments, **self.ranking}})


def _is_chosen(name: str, chosen: Chosen) -> bool:
    return not name or chosen is None or name in chosen


class CalibratorSpec(PluginSpec):
    """A calibrator and the name that the leaderboard shows.

    It is fitted for every LLM and PRM, or only for the names in `llms` and `prms`.
    """

    llms: Chosen = None
    """The names of the LLMs that it is fitted for. By default all."""
    prms: Chosen = None
    """The names of the PRMs that it is fitted for. By default all."""

    def is_for(self, llm: str, prm: str) -> bool:
        """Return whether it is fitted for an LLM and a PRM."""
        return _is_chosen(llm, self.llms) and _is_chosen(prm, self.prms)


class StrategySpec(PluginSpec):
    """A strategy and the name that the leaderboard shows.

    It is run on every data set, or on the names in `datasets`. A strategy that reads scores is run for every PRM, or
    for the names in `prms`. A strategy that reads calibrated rewards or ranks by them is run for every calibrator, or
    for the names in `calibrators`. A strategy can have several entries of the same name, which differ in these lists.
    """

    name: StrategyName
    """The name that the leaderboard shows: letters, digits, spaces and `. _ + - @`."""
    datasets: Chosen = None
    """The names of the data sets that it is run on. By default all."""
    prms: Chosen = None
    """The names of the PRMs that it is run for. By default all."""
    calibrators: Chosen = None
    """The names of the calibrators that it is run for. By default all."""

    def is_for(self, dataset: str, prm: str, calibrator: str) -> bool:
        """Return whether it is run for a data set, a PRM and a calibrator. A name that it does not read is empty."""
        names = (dataset, self.datasets), (prm, self.prms), (calibrator, self.calibrators)
        return all(_is_chosen(name, chosen) for name, chosen in names)


class MetricSpec(PluginSpec):
    """A calibration metric, and the name of its column."""

    name: MetricName
    """The name of the column: letters, digits and `. _ + -`."""


DEFAULT_GRADER = "default"
"""The name that stands for the rules of the data set."""


class GraderSpec(PluginSpec):
    """A grader of a data set, or `default` for the data set's own rules."""


class DatasetSpec(PluginSpec):
    """A data set to test on: its split, and the number of its questions (by default all)."""

    graders: list[GraderSpec] = []
    """The graders of its answers. The first grader decides what is correct. Verdicts of the others are shown beside.
    Without graders, or with `default`, the data set grades by its argument `grading`."""

    split: Text = "test"
    """The split of the data set."""
    questions: Number | None = None
    """The number of questions, from the beginning of the split. By default all."""


class CalibrationSpec(DatasetSpec):
    """The data that calibrators are fitted to (section 3.1 of the paper).

    It consists of `trajectories` per question with all of their prefixes, or with `most_prefixes` of each, and
    `follow_ups` Monte Carlo completions per prefix. Terminal prefixes, which already contain the final answer, are left
    out unless `terminal` is true.
    """

    split: Text = "calibration"
    """The split of the data set."""
    trajectories: Number = 8
    """The number of trajectories of each question."""
    follow_ups: Number = 8
    """The number of follow-ups of each prefix, n."""
    most_prefixes: MostPrefixes = None
    """The largest number of prefixes of a trajectory that are followed up: the bare question, the whole trajectory, and
    prefixes at equal distances between them. Calibrators are fitted to these. By default all."""
    first_prefixes: FirstPrefixes = None
    """The number of prefixes of a trajectory that are followed up, from the bare question on, without the whole
    trajectory. The authors' code has 20: prefixes of 0 to 19 steps. By default all."""
    prefer_answered: PreferAnswered = None
    """The factor by which more trajectories and follow-ups are drawn than kept. The ones with an answer are kept first.
    The authors' code draws 1.25 times as many. This makes success look more likely than it is. By default all are kept.
    """
    terminal: bool = False
    """If true, calibrators are also fitted to prefixes that already contain the final answer."""
