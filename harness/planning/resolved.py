"""A grid whose plugins are built and whose questions are read. The planner makes the jobs. No model is loaded."""

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from prmcal.db.metrics import SCALING, MetricColumn, counting_terminal
from prmcal.errors import GridError
from prmcal.harness.jobs.parameters import AnyPlugin, QuestionSlice
from prmcal.harness.jobs.plugin_calls import plugin_guard
from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.planning.plan import PlannedPlugin, PlannedQuestions
from prmcal.harness.planning.settings import DEFAULT_GRADER, DatasetSpec, PluginSpec
from prmcal.harness.storage.store import content_key
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.data import Question
from prmcal.registry.contracts.dataset import Dataset, content_hash
from prmcal.registry.contracts.grader import Grader
from prmcal.registry.contracts.metric import Metric
from prmcal.registry.contracts.models import LLM, PRM
from prmcal.registry.contracts.plugin import Plugin
from prmcal.registry.contracts.results import check_questions
from prmcal.registry.contracts.strategy import Strategy
from prmcal.registry.datasets.success_rates import SuccessRates
from prmcal.registry.models.checkpoints import is_on_this_machine
from prmcal.registry.plugins import Registry, calibrators, datasets, graders, llms, metrics, prms, strategies

_BUILT_IN = (
    *("brier", "brier_corrected", "positive_brier"),
    *("ece", "adaptive_ce", "adaptive_ce_corrected", "average_ce"),
    *("signed_error", "coverage", "log_loss", "auroc_within"),
)
"""The metrics that every grid measures, in the order of columns."""
_LEVELS = (0.1, 0.5, 0.9)


def metric_specs(grid: GridSpec) -> list[PluginSpec]:
    """Return the metrics of a grid, in the order of columns: the metrics of all grids, and its own."""
    bins = {"bins": grid.measurement.bins}
    with_bins = {name for name in _BUILT_IN if "bins" in inspect.signature(metrics.get(name)).parameters}
    built_in = [PluginSpec(name=name, plugin=name, arguments=bins if name in with_bins else {}) for name in _BUILT_IN]
    return [*built_in, *grid.measurement.metrics]


def described_metrics(
    named: Sequence[tuple[str, Metric]], levels: Sequence[Sequence[float]], terminal: bool
) -> tuple[MetricColumn, ...]:
    """Return the descriptions of a grid's metrics for readers, in the order of columns.

    `named` are the names of the calibration metrics in the grid, and the metrics. `levels` are the levels beta that
    each calibrator predicts. Without `terminal`, terminal prefixes do not count, and every metric has a second column
    that counts them.

    Raises a GridError if two metrics have columns of the same name.
    """
    columns: dict[str, MetricColumn] = {}
    for name, metric in named:
        level_of: dict[str, float | None] = {}
        for predicted_levels in levels:
            level_of |= metric.columns(name, predicted_levels)
        for column, level in sorted(level_of.items(), key=lambda pair: pair[1] or 0.0):
            if column in columns:
                raise GridError(
                    f"Two metrics have the column '{column}'. Every grid measures: {', '.join(_BUILT_IN)}. Give the "
                    "entry in 'measurement.metrics' another name."
                )
            columns[column] = MetricColumn(
                column, metric.titled(name, level), "calibration", metric.better, metric.described(level)
            )
    described = tuple(columns.values())
    return (*described, *(() if terminal else map(counting_terminal, described)), *SCALING)


def built_in_metrics() -> tuple[MetricColumn, ...]:
    """Return the descriptions of the metrics that every grid measures."""
    return described_metrics([(name, metrics.create(name)) for name in _BUILT_IN], [_LEVELS], terminal=False)


@dataclass(frozen=True)
class GridQuestions:
    """The questions of one data set and split. As a `stand_in` only their number is right."""

    dataset: PlannedPlugin[Dataset]
    split: str
    questions: Sequence[Question]
    slice_size: int
    """The number of questions of a shard."""
    decider: PlannedPlugin[Grader] | None = None
    """The grader that decides; None for the data set's own rules."""
    other_graders: Sequence[PlannedPlugin[Grader]] = ()
    """The further graders, which do not decide."""
    stand_in: bool = False
    _hashes: dict[tuple[range, bool], str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def followed_up(self) -> SuccessRates | None:
        """The data set if it has success rates, so that nothing is sampled; None otherwise."""
        return self.dataset.built if isinstance(self.dataset.built, SuccessRates) else None

    @property
    def whole(self) -> QuestionSlice:
        """All questions as one slice."""
        return self._slice(range(len(self.questions)))

    def slices(self) -> list[QuestionSlice]:
        """Cut the questions into slices, one for each shard."""
        whole = range(len(self.questions))
        return [self._slice(whole[first : first + self.slice_size]) for first in whole[:: self.slice_size]]

    def content(self, questions: range, references: bool) -> str:
        """Return the hash of some questions: of their ids and texts, and with `references` of all fields.

        The hash is kept, because every job over a slice asks for it.
        """
        if (questions, references) not in self._hashes:
            hashed_questions = self.questions[questions.start : questions.stop]
            self._hashes[questions, references] = content_hash(hashed_questions, references)
        return self._hashes[questions, references]

    @property
    def planned(self) -> PlannedQuestions:
        """The questions as the plan describes them."""
        content, rules = self.content(self.whole.questions, references=True), self.dataset.built.grader_version
        return PlannedQuestions(self.dataset.name, self.split, content, rules, tuple(self.questions))

    def _slice(self, questions: range) -> QuestionSlice:
        return QuestionSlice(self.dataset.reference, self.split, questions)


@dataclass(frozen=True)
class ResolvedGrid:
    """All plugins and questions of a grid."""

    spec: GridSpec
    llms: tuple[PlannedPlugin[LLM], ...]
    prms: tuple[PlannedPlugin[PRM], ...]
    calibrators: tuple[PlannedPlugin[Calibrator], ...]
    strategies: tuple[PlannedPlugin[Strategy], ...]
    metrics: tuple[PlannedPlugin[Metric], ...]
    tests: tuple[GridQuestions, ...]
    calibration: GridQuestions
    ranking: Mapping[str, PlannedPlugin[PRM]]
    """The PRMs as they rank solutions, by their names in the grid."""
    _of_llms: dict[tuple[str, str], PlannedPlugin[Calibrator]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def absent(self) -> tuple[str, ...]:
        """Models, adapters and data sets that are not on this machine, each once."""
        models = [plugin.absent for plugin in (*self.llms, *self.prms)]
        for calibrator in self.calibrators:
            models += absent_checkpoints(calibrator.built) if calibrator.absent else []
        stand_ins = [data.dataset.name for data in self.datasets if data.stand_in]
        return tuple(dict.fromkeys(name for name in (*models, *stand_ins) if name))

    def calibrators_for(self, llm: str, prm: str) -> list[PlannedPlugin[Calibrator]]:
        """Return the calibrators that are fitted for an LLM and a PRM, by their names in the grid."""
        specs = zip(self.calibrators, self.spec.calibrators, strict=True)
        return [self._for_llm(calibrator, spec, llm) for calibrator, spec in specs if spec.is_for(llm, prm)]

    def _for_llm(self, calibrator: PlannedPlugin[Calibrator], spec: PluginSpec, llm: str) -> PlannedPlugin[Calibrator]:
        """Return the calibrator of one LLM, perhaps with other arguments for this LLM."""
        names = (spec.name, llm)
        if names not in self._of_llms:
            with plugin_guard(calibrators.kind, spec.name, "tell the arguments for an LLM"):
                arguments = calibrator.built.arguments_for(llm)
            if arguments:
                changed = spec.model_copy(update={"arguments": {**spec.arguments, **arguments}})
                calibrator = build_plugin(calibrators, changed, bool(calibrator.absent))
            self._of_llms[names] = calibrator
        return self._of_llms[names]

    @property
    def datasets(self) -> tuple[GridQuestions, ...]:
        """The splits in use, with their questions."""
        return (*self.tests, self.calibration)

    @property
    def repeated(self) -> int:
        """The number of questions whose text occurs before."""
        texts = [question.text for data in self.datasets for question in data.questions]
        return len(texts) - len(set(texts))

    @property
    def plugins(self) -> dict[str, tuple[PlannedPlugin[Plugin], ...]]:
        """The plugins of each kind, each once, in the order of the grid."""
        used_datasets = {questions.dataset.name: questions.dataset for questions in self.datasets}
        used_graders = [grader for data in self.datasets for grader in (data.decider, *data.other_graders) if grader]
        return {
            llms.kind: self.llms,
            prms.kind: self.prms,
            calibrators.kind: self.calibrators,
            datasets.kind: tuple(used_datasets.values()),
            strategies.kind: self.strategies,
            metrics.kind: self.metrics,
            graders.kind: tuple({grader.name: grader for grader in used_graders}.values()),
        }


def resolve(grid: GridSpec, stand_ins: bool = False) -> ResolvedGrid:
    """Build the plugins and read the questions of a grid.

    With `stand_ins`, models and data may be missing on this machine.

    Raises a PluginError, a DataError or a GridError if a plugin or a data set is not available, or a question is used
    both to calibrate and to test.
    """
    resolved = ResolvedGrid(
        spec=grid,
        llms=tuple(build_plugin(llms, spec, stand_ins) for spec in grid.llms),
        prms=tuple(build_plugin(prms, spec, stand_ins) for spec in grid.prms),
        ranking={spec.name: build_plugin(prms, spec.as_it_ranks(), stand_ins) for spec in grid.prms},
        calibrators=tuple(build_plugin(calibrators, spec, stand_ins) for spec in grid.calibrators),
        strategies=tuple(build_plugin(strategies, spec) for spec in grid.entries["strategy"]),
        metrics=tuple(build_plugin(metrics, spec) for spec in metric_specs(grid)),
        tests=tuple(_questions(grid, spec, stand_ins) for spec in grid.datasets),
        calibration=_questions(grid, grid.calibration, stand_ins),
    )
    _check_disjoint(resolved)
    _check_repeating(resolved)
    _check_followed_up(resolved)
    return resolved


def absent_checkpoints(plugin: Plugin) -> list[str]:
    """Return the hub ids of the checkpoints that a plugin needs and this machine does not have."""
    return [checkpoint for checkpoint in plugin.checkpoints if not is_on_this_machine(checkpoint)]


def build_plugin(registry: Registry[AnyPlugin], spec: PluginSpec, stand_ins: bool = False) -> PlannedPlugin[AnyPlugin]:
    """Build a plugin. With `stand_ins`, a plugin without its checkpoint gets an identity without weights."""
    reference = spec.reference()
    with plugin_guard(registry.kind, spec.name, "take its arguments"):
        built = reference.build(registry)
    absent = next(iter(absent_checkpoints(built)), None) if stand_ins else None
    identity = {"kind": registry.kind, "absent": absent, "arguments": dict(reference.arguments)}
    if absent is None:
        with plugin_guard(registry.kind, spec.name, "tell its identity"):
            identity = {"kind": registry.kind, **built.identity()}
            content_key(identity)  # It must be data that a key can be made from.
    identity = json.loads(json.dumps(identity))  # Tuples become lists, as in a saved plan.
    return PlannedPlugin(reference, identity, built.citation, absent or "", built)


def _questions(grid: GridSpec, spec: DatasetSpec, stand_ins: bool) -> GridQuestions:
    dataset = build_plugin(datasets, spec)
    decider, others = _graders(spec, stand_ins)
    splits = dataset.built.splits
    if spec.split not in splits:
        raise GridError(f"The data set '{spec.name}' has no split '{spec.split}'. It has: {', '.join(splits)}.")
    size = dataset.built.absent_size(spec.split) if stand_ins else None
    if size is not None:
        count = min(size, spec.questions or size, grid.limit or size)
        # Entries of the same data share their questions, as they do in a run.
        source = f"{spec.plugin} {spec.arguments} {spec.split}"
        numbered = [Question(str(number), f"{source} {number}", "") for number in range(count)]
        return GridQuestions(dataset, spec.split, numbered, grid.shards.questions, decider, others, True)

    with plugin_guard("dataset", spec.name, "give its questions"):
        questions = dataset.built.questions(spec.split, spec.questions)[: grid.limit]
        check_questions(questions)
    if not questions:
        raise GridError(f"The split '{spec.split}' of the data set '{spec.name}' has no questions.")
    return GridQuestions(dataset, spec.split, questions, grid.shards.questions, decider, others)


def _graders(spec: DatasetSpec, stand_ins: bool) -> tuple[PlannedPlugin[Grader] | None, list[PlannedPlugin[Grader]]]:
    """Return the first grader (None: the data set grades), and the others."""
    if any(grader.plugin == DEFAULT_GRADER for grader in spec.graders[1:]):
        raise GridError(f"The grader 'default' of the data set '{spec.name}' must be its first one.")
    built = [build_plugin(graders, grader, stand_ins) for grader in spec.graders if grader.plugin != DEFAULT_GRADER]
    if len(built) < len(spec.graders) or not built:
        return None, built
    if built[0].built.runs_model:
        raise GridError(
            f"The first grader of the data set '{spec.name}' is '{built[0].name}', which needs a model. Put a grader "
            "without a model first, such as 'default'."
        )
    return built[0], built[1:]


def _check_followed_up(grid: ResolvedGrid) -> None:
    """Raise a GridError if the grid needs more than success rates from a data set that has only these."""
    for data in (data for data in grid.datasets if data.followed_up is not None):
        part = "calibration" if data is grid.calibration else "measurement"
        name = data.dataset.name
        for option in ("first_prefixes", "most_prefixes", "prefer_answered"):
            if getattr(getattr(grid.spec, part), option):
                raise GridError(
                    f"The data set '{name}' has success rates already, so its prefixes get no follow-ups. Remove "
                    f"'{part}.{option}'."
                )
        specs = [spec for spec in grid.spec.strategies if spec.is_for(name, "", "")]
        if specs and part == "measurement":
            raise GridError(
                f"The data set '{name}' has prefixes with their success rates and no whole solutions, so the strategy "
                f"'{specs[0].name}' cannot be run on it. Write 'strategies: []', or name other data sets in 'datasets' "
                "of the strategies."
            )


def _check_repeating(grid: ResolvedGrid) -> None:
    repeating = [llm.name for llm in grid.llms if llm.built.repeats]
    spec, calibration = grid.spec, grid.spec.calibration
    most = max(spec.scaling.samples, calibration.trajectories, calibration.follow_ups, spec.measurement.follow_ups)
    if repeating and spec.shards.block < most:
        raise GridError(
            f"The LLM '{repeating[0]}' gives the same completions to every shard, so one shard must sample all of "
            f"them. Set 'shards.trajectories' to {most} or more. Got {spec.shards.block}."
        )


def _check_disjoint(grid: ResolvedGrid) -> None:
    fitted = {question.text for question in grid.calibration.questions}
    for test in grid.tests:
        shared = [question.id for question in test.questions if question.text in fitted]
        if shared:
            raise GridError(
                f"The data set '{test.dataset.name}' has {len(shared)} questions that are also calibration questions, "
                f"such as '{shared[0]}'. Calibrate and test on different questions."
            )
