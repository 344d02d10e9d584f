"""The grid file: LLMs, PRMs, calibrators, data sets and strategies, and how calibration is fitted and measured."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, Field, model_validator

from prmcal.harness.jobs.job import Name
from prmcal.harness.planning import settings

Entries = Field(min_length=1, max_length=1000)
"""The length of a list of plugins."""

Seed = Annotated[int, Field(ge=0, le=10**18)]

DEFAULT_STRATEGIES = ("pass@1", "best-of-n", "best-of-n + IAS")


AnySpec = TypeVar("AnySpec", bound=settings.PluginSpec)


def _unique_names(specs: list[AnySpec]) -> list[AnySpec]:
    names = Counter(spec.name for spec in specs)
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise ValueError(f"the name '{min(twice)}' is used twice; give each entry its own name")
    return specs


MetricEntries = Annotated[list[settings.MetricSpec], Field(max_length=1000), AfterValidator(_unique_names)]


class MeasurementSpec(settings.Section):
    """The measurement of calibration on the test questions.

    All prefixes of the first `measured` trajectories of the pool get `follow_ups`, or only `most_prefixes` of each.
    Rewards are compared with the success rates of these prefixes. Terminal prefixes, which already contain the final
    answer, are left out unless `terminal` is true. If they are left out, every metric is also computed with them, under
    a name of its own. `bins` is the number of bins of the calibration errors, and `replicates` the number of resamples
    of the bootstrap.
    """

    measured: settings.Number = 8
    """The number of trajectories of each question whose prefixes are followed up, at most `scaling.samples`."""
    follow_ups: settings.Number = 8
    """The number of follow-ups of each prefix, n. With one, there is no noise-corrected Brier score: the noise of one
    draw is unknown."""
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


def _one_strategy_per_name(specs: list[settings.StrategySpec]) -> list[settings.StrategySpec]:
    first: dict[str, settings.StrategySpec] = {}
    for spec in specs:
        same = first.setdefault(spec.name, spec)
        if (same.plugin, same.arguments) != (spec.plugin, spec.arguments):
            raise ValueError(
                f"the name '{spec.name}' is used for two different strategies; give each of them its own name"
            )
    return specs


Models = Annotated[list[settings.LLMSpec], Entries, AfterValidator(_unique_names)]
PRMs = Annotated[list[settings.PRMSpec], Entries, AfterValidator(_unique_names)]
Calibrators = Annotated[list[settings.CalibratorSpec], Entries, AfterValidator(_unique_names)]
Datasets = Annotated[list[settings.DatasetSpec], Entries, AfterValidator(_unique_names)]
Strategies = Annotated[list[settings.StrategySpec], Field(max_length=1000), AfterValidator(_one_strategy_per_name)]


class PartSpec(settings.Section):
    """A part of a grid with models, questions and numbers of its own, such as one pool of recorded solutions.

    Everything else is as in the grid. A calibrator or strategy that is restricted to other parts is not run.
    """

    llms: Models
    """The LLMs of this part."""
    prms: PRMs
    """The PRMs of this part."""
    datasets: Datasets
    """The data sets of this part."""
    calibration: settings.CalibrationSpec
    """The data that its calibrators are fitted to."""
    measurement: MeasurementSpec | None = None
    """The measurement on its test questions. By default the grid's."""
    scaling: settings.ScalingSpec | None = None
    """The parameters of its strategies. By default the grid's."""


class GridSpec(settings.Section):
    """A whole grid. Every LLM is combined with every PRM, calibrator, data set and strategy.

    The lists in the entries of calibrators and strategies restrict this, and so do `parts`. A grid with parts leaves
    out `llms`, `prms`, `datasets` and `calibration`.

    `limit` restricts every data set to its first questions, for a quick test.
    """

    name: Name
    """The name of the grid: letters, digits and `. _ + -`."""
    plugins: Annotated[list[str], Field(max_length=100)] = Field(default=[])
    """Python files that register plugins of your own. A path is relative to the folder of the grid file."""
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
    calibration: settings.CalibrationSpec
    """The data that calibrators are fitted to."""
    sampling: settings.SamplingSpec = settings.SamplingSpec()
    """The sampling of every LLM."""
    measurement: MeasurementSpec = MeasurementSpec()
    """The measurement on the test questions."""
    scaling: settings.ScalingSpec = settings.ScalingSpec()
    """The parameters of strategies."""
    strategies: Strategies = Field(
        default=[settings.StrategySpec(name=name, plugin=name) for name in DEFAULT_STRATEGIES]
    )
    """The strategies. All of them use the same pool of samples, except searches, which generate again. With an empty
    list, only calibration is measured."""
    league: bool = False
    """If true, the whole curve of every strategy is computed, so that strategies are compared at equal cost."""
    hidden: Literal["stored", "computed"] = "stored"
    """Where calibrators get the PRM's hidden states. `stored`: a job writes the states of every token, which take most
    of a run's disk space, and a fit loads them into memory. `computed`: the PRM computes them whenever they are read,
    so a fit takes longer, and needs little space. The results are the same up to rounding."""
    shards: settings.ShardSpec = settings.ShardSpec()
    """The size of the units of work."""
    parts: Annotated[list[PartSpec], Field(max_length=1000)] = Field(default=[])
    """Parts that are planned one by one and have one leaderboard. By default the grid is one whole."""

    @model_validator(mode="before")
    @classmethod
    def _of_parts(cls, data: Any) -> Any:
        """Name everything that is in a part where a grid without parts names it."""
        parts = data.get("parts") if isinstance(data, dict) else None
        if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts) or not parts:
            return data
        entries = {
            kind: [entry for part in parts for entry in part.get(kind) or ()] for kind in ("llms", "prms", "datasets")
        }
        once = {
            kind: [entry for position, entry in enumerate(specs) if entry not in specs[:position]]
            for kind, specs in entries.items()
        }
        return {**once, "calibration": parts[0].get("calibration"), **data}

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        for entry, kind, named, specs in self._restrictions():
            unknown = set(named or ()) - {spec.name for spec in specs}
            if unknown:
                raise ValueError(f"{entry} names the {kind} '{min(unknown)}', which the grid does not have")
        for whole in self.wholes():
            whole._check_whole()
        return self

    def _check_whole(self) -> None:
        if self.measurement.measured > self.scaling.samples:
            raise ValueError(
                f"measurement.measured ({self.measurement.measured}) must not exceed "
                f"scaling.samples ({self.scaling.samples}), because measured trajectories belong to the pool"
            )
        same = [data for data in self.datasets if data.name == self.calibration.name]
        if same and (same[0].plugin, same[0].arguments) != (self.calibration.plugin, self.calibration.arguments):
            raise ValueError(
                f"calibration and datasets use the name '{same[0].name}' for different data; "
                "give one of them another name"
            )

    def _restrictions(self) -> Iterator[tuple[str, str, settings.Chosen, Sequence[settings.PluginSpec]]]:
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
    def entries(self) -> Mapping[str, Sequence[settings.PluginSpec]]:
        """The entries of each kind of plugin. Strategies of the same name are equal, and are there once."""
        graders = [spec for data in self._data for spec in data.graders if spec.plugin != settings.DEFAULT_GRADER]
        return {
            "llm": self.llms,
            "prm": self.prms,
            "calibrator": self.calibrators,
            "dataset": self._data,
            "strategy": list({spec.name: spec for spec in self.strategies}.values()),
            "metric": self.measurement.metrics,
            "grader": list({spec.name: spec for spec in graders}.values()),
        }

    @property
    def _data(self) -> list[settings.DatasetSpec]:
        return [*self.datasets, *([part.calibration for part in self.parts] or [self.calibration])]

    def runs(self, strategy: str, dataset: str, prm: str, calibrator: str) -> bool:
        """Return whether a strategy is run for a data set, a PRM and a calibrator; see `StrategySpec.is_for`."""
        return any(spec.is_for(dataset, prm, calibrator) for spec in self.strategies if spec.name == strategy)

    def wholes(self) -> list[Self]:
        """Return a grid without parts for each part, or the grid itself if it has none."""
        return [self._whole(part) for part in self.parts] or [self]

    def _whole(self, part: PartSpec) -> Self:
        fields = {name: getattr(part, name) for name in PartSpec.model_fields if getattr(part, name) is not None}
        names = {kind: {spec.name for spec in fields[kind]} for kind in ("llms", "prms", "datasets")}

        def here(spec: settings.PluginSpec) -> bool:
            lists = ((getattr(spec, kind, None), names_of_kind) for kind, names_of_kind in names.items())
            return all(chosen is None or names_of_kind.intersection(chosen) for chosen, names_of_kind in lists)

        specs = {"calibrators": list(filter(here, self.calibrators)), "strategies": list(filter(here, self.strategies))}
        return self.model_copy(update={**fields, **specs, "parts": []})

    def limited(self, questions: int | None) -> Self:
        """Return the same grid on at most the first `questions` questions of every data set."""
        return self if questions is None else self.model_copy(update={"limit": questions})
