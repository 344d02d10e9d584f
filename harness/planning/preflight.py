"""The obstacles for the plugins of a grid that are known before anything is sampled."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prmcal.errors import NoAnswerError, PluginFailedError, PrmcalError
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import FitParameters, Parameters
from prmcal.harness.jobs.plugin_calls import plugin_guard
from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.planning.plan import Plan, PlannedCell
from prmcal.harness.storage.store import ArtifactRef
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.data import Question
from prmcal.registry.contracts.dataset import Dataset
from prmcal.registry.contracts.models import PRM
from prmcal.registry.contracts.plugin import Plugin
from prmcal.registry.datasets.success_rates import SuccessRates

Questions = dict[tuple[str, str], tuple[Dataset, Sequence[Question]]]
"""The data sets of a grid with their questions, by their names in the grid and the splits."""


@dataclass(frozen=True)
class Obstacle:
    """A plugin of a grid that does not work, and why."""

    kind: str
    name: str
    """The name in the grid."""
    error: PrmcalError
    prm: str = ""
    """The name in the grid of the PRM that the calibrator cannot be fitted to; empty if it fails with every PRM."""

    def ends(self, cell: PlannedCell) -> bool:
        """Return whether the cell needs a fit that is not possible."""
        return bool(self.prm) and (cell.labels.calibrator, cell.labels.prm) == (self.name, self.prm)

    def is_of(self, shard: Shard[Parameters]) -> bool:
        """Return whether the shard fits this calibrator to this PRM."""
        fit = shard.parameters
        return isinstance(fit, FitParameters) and (fit.calibrator.name, fit.prm.name) == (self.name, self.prm)

    @property
    def may_pass(self) -> bool:
        """True if the plugin may work later, because only its server does not answer yet."""
        return isinstance(self.error, NoAnswerError)

    def __str__(self) -> str:
        if self.prm:
            return f"The calibrator '{self.name}' cannot be fitted to the PRM '{self.prm}'. {self.error}"
        return f"The {self.kind} '{self.name}' is not ready: {self.error}"


def joined_problems(problems: Iterable[Obstacle]) -> list[str]:
    """Return a sentence for each obstacle, which names all plugins that have it."""
    by_error: dict[str, list[Obstacle]] = defaultdict(list)
    for problem in problems:
        by_error[str(problem.error)].append(problem)
    sentences = []
    for error, same in by_error.items():
        names = ", ".join(f"the {problem.kind} '{problem.name}'" for problem in same)
        sentences.append(str(same[0]) if len(same) == 1 else f"Not ready: {names}. {error}")
    return sentences


def asked_solutions(grid: GridSpec, questions: Questions, plugin: str) -> dict[str, int]:
    """Return how many solutions of each question the parts of a grid with a plugin need, by the question's text.

    Nothing is sampled of data sets with success rates, so their questions are left out.
    """
    solutions: dict[str, int] = {}
    for part in grid.wholes():
        if plugin not in {spec.name for specs in part.entries.values() for spec in specs}:
            continue
        tests = [(data, part.scaling.samples) for data in part.datasets]
        for spec, count in [(part.calibration, part.calibration.trajectories), *tests]:
            dataset, questions_of_data = questions.get((spec.name, spec.split), (None, ()))
            for question in () if isinstance(dataset, SuccessRates) else questions_of_data:
                solutions[question.text] = max(count, solutions.get(question.text, 0))
    return solutions


def plugin_problems(kind: str, name: str, plugin: Plugin, solutions: Mapping[str, int]) -> Iterator[Obstacle]:
    """Yield the problems of a plugin that is built; see :meth:`prmcal.registry.contracts.plugin.Plugin.problems`."""
    try:
        with plugin_guard(kind, name, "say what it lacks"):
            for error in plugin.problems(solutions):
                yield Obstacle(kind, name, error)
    except PrmcalError as error:
        yield Obstacle(kind, name, error)


def plan_problems(grid: GridSpec, plan: Plan, models: Collection[str] | None = None) -> Iterator[Obstacle]:
    """Yield the problems of the plugins of a grid that was planned just now.

    With `models`, only plugins with these names are checked. The names are as in shards, such as "llm:weak".
    """
    built = {plugin.name: plugin.built for plugin in plan.plugins["dataset"] if isinstance(plugin.built, Dataset)}
    questions: Questions = {
        (data.name, data.split): (built[data.name], data.questions)
        for data in plan.datasets
        if data.name not in plan.absent
    }
    for kind, plugins in plan.plugins.items():
        for plugin in plugins:
            if models is None or f"{kind}:{plugin.name}" in models:
                solutions = asked_solutions(grid, questions, plugin.name)
                yield from plugin_problems(kind, plugin.name, plugin.built, solutions)


def pair_problems(plan: Plan, done: Collection[ArtifactRef] = ()) -> Iterator[Obstacle]:
    """Yield the calibrators that cannot be fitted to a PRM of a grid that was planned just now.

    See :meth:`prmcal.registry.contracts.calibrator.Calibrator.check_prm`. Fits that are `done` are not looked at.
    """
    prms = {prm.name: prm.built for prm in plan.plugins["prm"] if isinstance(prm.built, PRM)}
    built = [(plugin.name, plugin.built) for plugin in plan.plugins["calibrator"]]
    calibrators = {name: calibrator for name, calibrator in built if isinstance(calibrator, Calibrator)}
    fits = [job for job in plan.jobs_of(FitParameters) if not set(job.refs) <= set(done)]
    for name, prm in dict.fromkeys((job.labels.calibrator, job.labels.prm) for job in fits):
        try:
            with plugin_guard("calibrator", name, "look at a PRM"):
                calibrators[name].check_prm(prms[prm])
        except PrmcalError as error:
            # The guard names the plugin, which an Obstacle does too.
            cause = error.__cause__
            yield Obstacle("calibrator", name, cause if isinstance(cause, PluginFailedError) else error, prm)
