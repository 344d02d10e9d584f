"""The grid file: LLMs, PRMs, calibrators, data sets and strategies, and how calibration is fitted and measured."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, Field, model_validator

from prmcal.db.metrics import COORDINATES, SCALING, with_terminal
from prmcal.harness.jobs.parameters import PluginReference
from prmcal.harness.planning import settings
from prmcal.harness.storage.store import content_key

Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")]
StrategyName = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9 @._+-]*$")]


def _free_column(name: str) -> str:
    taken = {*COORDINATES, *_OTHER_COLUMNS, *(metric.name for metric in SCALING)}
    ending = next((end for end in _ENDINGS if name.endswith(end)), "")
    if name in taken or ending:
        raise ValueError(
            f"leaderboards have other columns {f'that end in {ending}' if ending else 'of this name'}"
        )
    return name


_OTHER_COLUMNS = ("cell_id", "number", "rows", "questions", "status", "reason")
_ENDINGS = ("_low", "_high", "_standing", "_letters", with_terminal(""))
MetricName = Annotated[Name, AfterValidator(_free_column)]
"""The name of a column. Its interval, standing and letters are columns of their own."""
Text = Annotated[str, Field(max_length=200)]
"""A name that plugins give: of a plugin, or of a split."""
Chosen = Annotated[list[Name], Field(min_length=1, max_length=1000)] | None
"""The names of the entries that another entry is restricted to; None for all."""
Entries = Field(min_length=1, max_length=1000)
"""The length of a list of plugins."""

Seed = Annotated[int, Field(ge=0, le=10**18)]


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

_MOST_CELLS = 1_000_000

DEFAULT_STRATEGIES = ("pass@1", "best-of-n", "best-of-n + IAS")


class PluginSpec(settings.Section):
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


class ModelSpec(PluginSpec):
    """An LLM or a PRM, and the name that the leaderboard shows."""

    deterministic: bool | None = None
    """True if the same call gives the same bytes again, where the plugin says something else. It is part of no key."""


class PRMSpec(ModelSpec):
    """A PRM and the name that the leaderboard shows."""

    ranking: Arguments = Field(default={})
    """Arguments that are others where solutions are ranked and samples are counted: for strategies and searches.
    Calibrators are fitted and measured with `arguments`. The authors' code calibrates with one marker behind a prefix
    and ranks with one behind every step. Each prefix is then scored twice."""

    def as_it_ranks(self) -> Self:
        """Return the entry with the arguments for ranking."""
        return self.model_copy(update={"arguments": {**self.arguments, **self.ranking}})


class CalibratorSpec(PluginSpec):
    """A calibrator and the name that the leaderboard shows.

    It is fitted for every LLM and PRM, or for those in `llms` and `prms`.
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

    It is run on every data set, or on those in `datasets`. A strategy that reads scores is run for every PRM, or for
    those in `prms`. A strategy that reads calibrated rewards or ranks by them is run for every calibrator, or for those
    in `calibrators`. A strategy can have several entries of the same name, which differ in these lists.
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
        return (
            _is_chosen(dataset, self.datasets)
            and _is_chosen(prm, self.prms)
            and _is_chosen(calibrator, self.calibrators)
        )


class MetricSpec(PluginSpec):
    """A calibration metric and its name, which is that of its column."""

    name: MetricName
    """The name of the column: letters, digits and `. _ + -`."""


class DatasetSpec(PluginSpec):
    """A data set to test on: its split, and the number of its questions (by default all)."""

    split: Text = "test"
    """The split of the data set."""
    questions: settings.Number | None = None
    """The number of questions, from the beginning of the split. By default all."""


class CalibrationSpec(DatasetSpec):
    """The data that calibrators are fitted to (section 3.1 of the paper).

    It consists of `trajectories` per question with all of their prefixes, or with `most_prefixes` of each, and
    `follow_ups` Monte Carlo completions per prefix. Terminal prefixes, which already contain the final answer, are left
    out unless `terminal` is true.
    """

    split: Text = "calibration"
    """The split of the data set."""
    trajectories: settings.Number = 8
    """The number of trajectories of each question."""
    follow_ups: settings.Number = 8
    """The number of follow-ups of each prefix, n."""
    most_prefixes: settings.MostPrefixes = None
    """The largest number of prefixes of a trajectory that are followed up: the bare question, the whole trajectory, and
    prefixes at equal distances between them. Calibrators are fitted to these. By default all."""
    first_prefixes: settings.FirstPrefixes = None
    """The number of prefixes of a trajectory that are followed up, from the bare question on, without the whole
    trajectory. The authors' code has 20: those of 0 to 19 steps. By default all."""
    prefer_answered: settings.PreferAnswered = None
    """This many times as many trajectories and follow-ups are drawn as kept, and those with an answer are kept first.
    The authors' code draws 1.25 times as many. It makes success look more likely than it is. By default all are kept.
    """
    terminal: bool = False
    """If true, calibrators are also fitted to prefixes that already contain the final answer."""


AnySpec = TypeVar("AnySpec", bound=PluginSpec)


def _unique_names(specs: list[AnySpec]) -> list[AnySpec]:
    names = Counter(spec.name for spec in specs)
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise ValueError(f"the name '{min(twice)}' is used twice; give each entry its own name")
    return specs


MetricEntries = Annotated[list[MetricSpec], Field(max_length=1000), AfterValidator(_unique_names)]


class MeasurementSpec(settings.Section):
    """The measurement of calibration on the test questions.

    All prefixes of the first `measured` trajectories of the pool get `follow_ups`, or only `most_prefixes` of each.
    Rewards are compared with the success rates of these prefixes. Terminal prefixes, which already contain the final
    answer, are left out unless `terminal` is true. If they are left out, every metric is also computed with them, under
    a name of its own. `bins` is the number of bins of the calibration errors, `replicates` that of the bootstrap.
    """

    measured: settings.Number = 8
    """The number of trajectories of each question whose prefixes are followed up, at most `scaling.samples`."""
    follow_ups: settings.Number = 8
    """The number of follow-ups of each prefix, n. With one, there is no corrected Brier score: one draw does not tell
    its own noise."""
    most_prefixes: settings.MostPrefixes = None
    """The largest number of prefixes of a trajectory that are followed up: the bare question, the whole trajectory, and
    prefixes at equal distances between them. Calibration is measured on these. By default all."""
    first_prefixes: settings.FirstPrefixes = None
    """As in `calibration`."""
    prefer_answered: settings.PreferAnswered = None
    """As in `calibration`, for follow-ups only: the samples of strategies are not chosen."""
    terminal: bool = False
    """If true, the calibration metrics also count prefixes that already contain the final answer."""
    bins: settings.Bins = 10
    """The number of bins of the calibration errors."""
    replicates: settings.Replicates = 2000
    """The number of bootstrap replicates."""
    metrics: MetricEntries = Field(default=[])
    """Metrics to measure besides the built-in ones: metrics of your own, or built-in ones with other arguments."""


def _is_chosen(name: str, chosen: Chosen) -> bool:
    return not name or chosen is None or name in chosen


def _one_strategy_per_name(specs: list[StrategySpec]) -> list[StrategySpec]:
    first: dict[str, StrategySpec] = {}
    for spec in specs:
        same = first.setdefault(spec.name, spec)
        if (same.plugin, same.arguments) != (spec.plugin, spec.arguments):
            raise ValueError(
                f"the name '{spec.name}' is used for two different strategies; give each of them its own name"
            )
    return specs


Models = Annotated[list[ModelSpec], Entries, AfterValidator(_unique_names)]
PRMs = Annotated[list[PRMSpec], Entries, AfterValidator(_unique_names)]
Calibrators = Annotated[list[CalibratorSpec], Entries, AfterValidator(_unique_names)]
Datasets = Annotated[list[DatasetSpec], Entries, AfterValidator(_unique_names)]
Strategies = Annotated[list[StrategySpec], Field(max_length=1000), AfterValidator(_one_strategy_per_name)]


class GridSpec(settings.Section):
    """A whole grid. Every LLM is combined with every PRM, calibrator, data set and strategy.

    The lists in the entries of calibrators and strategies restrict this.

    `limit` restricts every data set to its first questions, for a quick test.
    """

    name: Name
    """The name of the grid: letters, digits and `. _ + -`."""
    seed: Seed = 0
    """The seed of all random numbers. Another seed gives other samples."""
    limit: settings.Number | None = None
    """The largest number of questions of every data set. The option `--limit` sets it."""
    llms: Models
    """The language models that solve the questions."""
    prms: PRMs
    """The process reward models that score the prefixes."""
    calibrators: Calibrators
    """The calibrators. Each is fitted for every LLM and PRM."""
    datasets: Datasets
    """The data sets to test on."""
    calibration: CalibrationSpec
    """The data that calibrators are fitted to."""
    sampling: settings.SamplingSpec = settings.SamplingSpec()
    """The sampling of every LLM."""
    measurement: MeasurementSpec = MeasurementSpec()
    """The measurement on the test questions."""
    scaling: settings.ScalingSpec = settings.ScalingSpec()
    """The settings of strategies."""
    strategies: Strategies = Field(
        default=[StrategySpec(name=name, plugin=name) for name in DEFAULT_STRATEGIES]
    )
    """The strategies. All of them use the same pool of samples, except searches, which generate again. With an empty
    list, only calibration is measured."""
    league: bool = False
    """If true, the whole curve of every strategy is computed, so that strategies are compared at equal cost."""
    hidden: Literal["stored", "computed"] = "stored"
    """Where calibrators get the PRM's hidden states. `stored`: a job writes those of every token, which take most of a
    run's disk space, and a fit loads them into memory. `computed`: the PRM computes them whenever they are read, so a
    fit takes longer, and needs little space. The results are the same up to rounding."""
    shards: settings.ShardSpec = settings.ShardSpec()
    """The size of the units of work."""

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.measurement.measured > self.scaling.samples:
            raise ValueError(
                f"measurement.measured ({self.measurement.measured}) must not exceed "
                f"scaling.samples ({self.scaling.samples}), because measured trajectories belong to the pool"
            )
        if self._most_cells() > _MOST_CELLS:
            raise ValueError(
                f"it asks for up to {self._most_cells():,} cells, and a grid has at most {_MOST_CELLS:,}; "
                "split it into several grids"
            )
        for entry, kind, named, there in self._restrictions():
            unknown = set(named or ()) - {each.name for each in there}
            if unknown:
                raise ValueError(f"{entry} names the {kind} '{min(unknown)}', which the grid does not have")
        same = [each for each in self.datasets if each.name == self.calibration.name]
        if same and (same[0].plugin, same[0].arguments) != (
            self.calibration.plugin,
            self.calibration.arguments,
        ):
            raise ValueError(
                f"calibration and datasets use the name '{same[0].name}' for different data; "
                "give one of them another name"
            )
        return self

    def _most_cells(self) -> int:
        """Return how many cells the grid has if no list restricts an entry."""
        results = 1 + len(self.strategies) * len(self.scaling.targets) * len(self.scaling.levels)
        return len(self.llms) * len(self.prms) * len(self.calibrators) * len(self.datasets) * results

    def _restrictions(self) -> Iterator[tuple[str, str, Chosen, Sequence[PluginSpec]]]:
        """Yield every list that restricts an entry: the entry, what the list names, the names, and what there is."""
        for calibrator in self.calibrators:
            entry = f"the calibrator '{calibrator.name}'"
            yield entry, "LLM", calibrator.llms, self.llms
            yield entry, "PRM", calibrator.prms, self.prms
        for strategy in self.strategies:
            entry = f"the strategy '{strategy.name}'"
            yield entry, "data set", strategy.datasets, self.datasets
            yield entry, "PRM", strategy.prms, self.prms
            yield entry, "calibrator", strategy.calibrators, self.calibrators

    @property
    def entries(self) -> Mapping[str, Sequence[PluginSpec]]:
        """The entries of each kind of plugin. Strategies of the same name, which are the same, are there once."""
        return {
            "llm": self.llms,
            "prm": self.prms,
            "calibrator": self.calibrators,
            "dataset": [*self.datasets, self.calibration],
            "strategy": list({spec.name: spec for spec in self.strategies}.values()),
            "metric": self.measurement.metrics,
        }

    def runs(self, strategy: str, dataset: str, prm: str, calibrator: str) -> bool:
        """Return whether a strategy is run for a data set, a PRM and a calibrator; see `StrategySpec.is_for`."""
        return any(each.is_for(dataset, prm, calibrator) for each in self.strategies if each.name == strategy)

    def limited(self, questions: int | None) -> Self:
        """Return the same grid on at most the first `questions` questions of every data set."""
        return self if questions is None else self.model_copy(update={"limit": questions})
