"""The parameters of shards: one frozen dataclass for each kind of job, and the types of their fields.

Parameters are plain data, so that a shard can be sent to any process. A key is made from all of them. Names that a grid
gives to its plugins and data sets are not in the key: it has identities in place of references, and the content of
questions in place of their positions.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BeforeValidator, InstanceOf

from prmcal.db.statistics.bootstrap import Bootstrap
from prmcal.registry.contracts.data import Sampling
from prmcal.registry.contracts.plugin import Plugin
from prmcal.registry.grading.extraction import Ways
from prmcal.registry.models.checkpoints import SPREAD
from prmcal.registry.plugins import Registry

AnyPlugin = TypeVar("AnyPlugin", bound=Plugin)
ALL_GPUS = 1_000_000
"""The GPUs of a model that is spread over all of a machine."""
KEPT_STATES = 4 * 2**30
"""The largest number of bytes of computed hidden states that stay in memory."""
Range = Annotated[InstanceOf[range], BeforeValidator(lambda ends: range(*ends))]
"""Positions or indices without gaps, which are read from [start, stop]."""


@dataclass(frozen=True, slots=True)
class PluginReference:
    """A plugin as a grid names it. This is enough to build the plugin in another process."""

    name: str
    """The name in the grid."""
    plugin: str
    """The registered name."""
    arguments: Mapping[str, Any]
    """The constructor's arguments."""

    @property
    def gpus(self) -> int:
        """The number of GPUs that a model is spread over, at least 1; ALL_GPUS for all of a machine."""
        if self.arguments.get("device") == SPREAD:
            return ALL_GPUS
        size = self.arguments.get("tensor_parallel")
        # Another value is an error, which is raised when the plugin is built.
        return size if isinstance(size, int) and size > 0 else 1

    def build(self, registry: Registry[AnyPlugin]) -> AnyPlugin:
        """Build the plugin. See :meth:`prmcal.registry.plugins.Registry.create` for the errors."""
        return registry.create(self.plugin, **self.arguments)


@dataclass(frozen=True, slots=True)
class QuestionSlice:
    """Some questions of one split, by their positions."""

    dataset: PluginReference
    split: str
    questions: Range


class Parameters:
    """The base of all parameters."""

    kind: ClassVar[str]
    """The kind of job."""
    version: ClassVar[int] = 1
    """Part of every key. Raise it if the output for the same inputs changes."""
    reads_references: ClassVar[bool] = False
    """True if the output depends on more of a question than its id and its text, for example the reference answer."""
    data: QuestionSlice
    """The questions that the shard is about."""

    @property
    def ranges(self) -> list[range]:
        """The fields in which the shards of a job differ. The first one is the range of the questions."""
        return [self.data.questions, *(value for value in vars(self).values() if isinstance(value, range))]

    @property
    def size(self) -> int:
        """The amount of work, compared with shards of the same kind: questions x trajectories x follow-ups."""
        return math.prod(map(len, self.ranges))

    def stored(self) -> dict[str, Any]:
        """Return the parameters as JSON data for the database. The fields of `data` stand beside the other fields.

        Parameters without a value are left out.
        """
        stored_fields: dict[str, Any] = {}
        for name, value in vars(self).items():
            if value is None:
                continue
            if isinstance(value, QuestionSlice):
                stored_fields |= {"dataset": plain_data(value.dataset), "split": value.split}
                stored_fields["questions"] = plain_data(value.questions)
            else:
                stored_fields[name] = plain_data(value)
        return stored_fields


@dataclass(frozen=True, kw_only=True)
class GeneratingParameters(Parameters):
    """The base of the parameters of jobs that sample from an LLM. Their output has texts without verdicts."""

    data: QuestionSlice
    llm: PluginReference
    sampling: Sampling
    seed: int
    """The seed of the grid."""


@dataclass(frozen=True, kw_only=True)
class GradingParameters(Parameters):
    """The base of the parameters of jobs that read answers and compare them with references. They run no model."""

    reads_references = True
    data: QuestionSlice
    answers: Ways
    """Where the answers stand in the texts."""
    grader: PluginReference | None
    """The grader that compares answers with references; None for the data set's own rules."""
    rules: str
    """The versions of the data set's rules and of libraries that can change a verdict; empty if the data set does not
    grade."""


@dataclass(frozen=True, kw_only=True)
class MeasuringParameters(Parameters):
    """The base of the parameters of jobs that compute results from artifacts. They run no model.

    All cells of a data set have the same `bootstrap`, so their resamples are equal.
    """

    reads_references = True
    bootstrap: Bootstrap
    data: QuestionSlice


@dataclass(frozen=True, kw_only=True)
class RolloutParameters(GeneratingParameters):
    """Sample the trajectories with these indices for each question.

    With `prefer_answered`, this many times as many are drawn, and those with a boxed answer are kept first.
    """

    kind = "rollout"
    version = 3
    trajectories: Range
    prefer_answered: float | None = None


@dataclass(frozen=True, kw_only=True)
class FollowUpParameters(GeneratingParameters):
    """Follow up the unfinished prefixes of these trajectories: a block of their follow-ups, by their indices.

    All prefixes, or at most `most_prefixes` of each trajectory, or the first ones. `prefer_answered` has the same
    meaning as for rollouts. With `answers`, only these prefixes are followed up: unfinished if answers stand there, and
    finished if they are boxed.
    """

    kind = "follow_ups"
    trajectories: Range
    follow_ups: Range
    most_prefixes: int | None = None
    first_prefixes: int | None = None
    prefer_answered: float | None = None
    answers: Ways | None = None


@dataclass(frozen=True, kw_only=True)
class GradedParameters(GradingParameters):
    """Read the answers of trajectories, and compare them with the references."""

    kind = "graded"
    trajectories: Range


@dataclass(frozen=True, kw_only=True)
class VerdictParameters(GradedParameters):
    """Grade the answers of graded trajectories by another grader, which does not decide."""

    kind = "verdicts"


@dataclass(frozen=True, kw_only=True)
class SuccessParameters(GradingParameters):
    """Count the correct ones among a block of the follow-ups of each prefix of these trajectories.

    The other fields are as in :class:`FollowUpParameters`.
    """

    kind = "success"
    version = 3
    trajectories: Range
    follow_ups: Range
    most_prefixes: int | None = None
    first_prefixes: int | None = None


@dataclass(frozen=True, kw_only=True)
class ImportedParameters(GradingParameters):
    """Read published trajectories of the LLM, with the success counts of their prefixes.

    At most `trajectories` are read for each question. `follow_ups` is how many a prefix had if the data does not say.
    """

    kind = "imported"
    version = 3
    trajectories: Range
    follow_ups: Range
    llm: PluginReference
    published: str
    """The hash of the published data."""


@dataclass(frozen=True, kw_only=True)
class ScoringParameters(Parameters):
    """The base of the parameters of jobs in which a PRM reads trajectories."""

    prm: PluginReference
    data: QuestionSlice
    trajectories: Range


class ScoreParameters(ScoringParameters):
    """Score every prefix of the trajectories."""

    kind = "score"
    version = 2


class HiddenParameters(ScoringParameters):
    """Compute the hidden states of the measured trajectories."""

    kind = "hidden"


@dataclass(frozen=True, kw_only=True)
class CalibratorParameters(Parameters):
    """The base of the parameters of jobs in which a calibrator reads the measured trajectories of a PRM."""

    calibrator: PluginReference
    prm: PluginReference
    data: QuestionSlice
    trajectories: Range


@dataclass(frozen=True, kw_only=True)
class FitParameters(CalibratorParameters):
    """Fit the calibrator, to terminal prefixes too if `terminal` is true.

    `most_prefixes` is how many prefixes of a trajectory were followed up; None if all were.
    """

    kind = "fit"
    version = 3
    terminal: bool
    most_prefixes: int | None = None


@dataclass(frozen=True, kw_only=True)
class CalibratedParameters(CalibratorParameters):
    """Predict calibrated rewards with the fitted calibrator."""

    kind = "calibrated"
    version = 2
    levels: tuple[float, ...] = ()
    """The levels beta of the grid that are not among the calibrator's own, ascending. Empty unless it predicts any
    level."""


@dataclass(frozen=True, kw_only=True)
class SearchParameters(GeneratingParameters):
    """Search for an answer to each question."""

    kind = "search"
    version = 3
    target: float | None
    level: float | None
    """The target probability C and the level beta, each in (0, 1), if the strategy has one."""
    prm: PluginReference
    strategy: PluginReference
    candidates: int
    """The most steps that are drawn in one round for a question: K x M."""
    calibrator: PluginReference | None = None
    """The calibrator whose rewards the strategy reads or ranks by; None if it uses only scores."""


@dataclass(frozen=True, kw_only=True)
class GradedSearchParameters(GradingParameters):
    """Read the answers that a search found, and compare them with the references."""

    kind = "graded_search"


@dataclass(frozen=True, kw_only=True)
class CalibrationMetricsParameters(MeasuringParameters):
    """Compare calibrated rewards with success rates by these metrics, and in this number of bins for the diagram.

    With `terminal`, terminal prefixes count. Without it, every metric is computed both without and with them.
    """

    kind = "calibration_metrics"
    version = 7
    bins: int
    terminal: bool
    metrics: tuple[PluginReference, ...]


@dataclass(frozen=True, kw_only=True)
class StrategyParameters(MeasuringParameters):
    """Compute the results of a strategy on the pool."""

    kind = "strategy"
    version = 3
    samples: int
    """N, the samples per question of the fixed budget."""
    target: float | None
    level: float | None
    """The target probability C and the level beta, each in (0, 1), if the strategy has one."""
    strategy: PluginReference


@dataclass(frozen=True, kw_only=True)
class LeagueParameters(MeasuringParameters):
    """Compute the whole curve of a strategy, for budgets of up to N = `samples`, at a level beta if it has one."""

    kind = "league"
    version = 2
    samples: int
    level: float | None
    strategy: PluginReference


@dataclass(frozen=True, kw_only=True)
class CurvesParameters(MeasuringParameters):
    """Compute accuracy against budget for budgets of up to N = `samples`."""

    kind = "curves"
    version = 6
    samples: int


@dataclass(frozen=True, kw_only=True)
class SearchResultsParameters(MeasuringParameters):
    """Compare a search with the search of fixed width."""

    kind = "search_results"
    version = 3


KINDS_OF_JOBS: dict[str, tuple[type[Parameters], str]] = {
    cls.kind: (cls, module)
    for module, classes in {
        "rollout": (RolloutParameters, FollowUpParameters),
        "grading": (GradedParameters, VerdictParameters, SuccessParameters, GradedSearchParameters, ImportedParameters),
        "score": (ScoreParameters,),
        "calibrators": (HiddenParameters, FitParameters, CalibratedParameters),
        "search": (SearchParameters,),
        "calibration_metrics": (CalibrationMetricsParameters,),
        "strategy": (StrategyParameters, SearchResultsParameters),
        "curves": (CurvesParameters, LeagueParameters),
    }.items()
    for cls in classes
}
"""The kinds of jobs: their parameters, and the module that computes them."""


def plain_data(value: Any) -> Any:
    """Return a field as JSON data. A half-open range becomes [start, stop]."""
    if isinstance(value, range):
        return [value.start, value.stop]
    if isinstance(value, tuple):
        return [plain_data(member) for member in value]
    if is_dataclass(value):
        return {field.name: plain_data(getattr(value, field.name)) for field in fields(value)}
    return value
