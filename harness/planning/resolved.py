"""A grid with its plugins built and its questions read: what the planner makes jobs of. Loads no model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prmcal.errors import GridError
from prmcal.harness.planning.absent import absent_checkpoint
from prmcal.harness.planning.grid import DatasetSpec, GridSpec, PluginSpec
from prmcal.registry.contracts.data import Question
from prmcal.registry.contracts.dataset import content_hash
from prmcal.registry.contracts.plugin import Plugin
from prmcal.registry.plugins import KINDS

__all__ = ["GridPlugin", "GridQuestions", "ResolvedGrid", "build_plugin", "resolve"]


@dataclass(frozen=True)
class GridPlugin:
    """A plugin of the grid, built (which loads no model), with what names it in keys and in shards."""

    spec: PluginSpec
    built: Any
    identity: Mapping[str, Any]

    @property
    def parameters(self) -> dict[str, Any]:
        """What a shard needs to build it again."""
        return {"name": self.spec.name, "plugin": self.spec.plugin, "arguments": dict(self.spec.arguments)}


@dataclass(frozen=True)
class GridQuestions:
    """The questions of one data set and split, cut into slices. As a `stand_in` only their number is right."""

    dataset: GridPlugin
    split: str
    questions: Sequence[Question]
    slice_size: int
    stand_in: bool = False
    _hashes: dict[tuple[int, int], str] = field(default_factory=dict, repr=False, compare=False)

    def slices(self) -> list[tuple[int, int]]:
        """Ranges of questions, one for each shard."""
        count = len(self.questions)
        return [(first, min(first + self.slice_size, count)) for first in range(0, count, self.slice_size)]

    def content(self, first: int, last: int) -> str:
        """Hash of a slice's questions; every job over the slice asks for it."""
        if (first, last) not in self._hashes:
            self._hashes[first, last] = content_hash(self.questions[first:last])
        return self._hashes[first, last]

    def key(self, first: int, last: int) -> dict[str, Any]:
        """What a slice adds to the keys of graded work: its content and its grader, not its name."""
        return {
            "questions": self.content(first, last),
            "grader": [self.dataset.built.grader_version, self.dataset.identity.get("source", "")],
        }


@dataclass(frozen=True)
class ResolvedGrid:
    """Everything that a grid names."""

    spec: GridSpec
    llms: tuple[GridPlugin, ...]
    prms: tuple[GridPlugin, ...]
    calibrators: tuple[GridPlugin, ...]
    strategies: tuple[GridPlugin, ...]
    tests: tuple[GridQuestions, ...]
    calibration: GridQuestions

    @property
    def absent(self) -> tuple[str, ...]:
        """Models and data sets of the hub that are not on this machine, each once."""
        models = [plugin.identity.get("absent") for plugin in (*self.llms, *self.prms)]
        data = [each.dataset.spec.name for each in (*self.tests, self.calibration) if each.stand_in]
        return tuple(dict.fromkeys(name for name in (*models, *data) if name))

    def plugin_rows(self) -> tuple[Mapping[str, Any], ...]:
        """What the names stand for, with their places in the grid's lists."""
        datasets = {each.dataset.spec.name: each.dataset for each in (*self.tests, self.calibration)}
        return tuple(
            {"position": position, **plugin.parameters, "identity": dict(plugin.identity)}
            for plugins in (self.llms, self.prms, self.calibrators, datasets.values(), self.strategies)
            for position, plugin in enumerate(plugins)
        )

    def dataset_rows(self) -> tuple[Mapping[str, Any], ...]:
        """The splits in use, with their questions."""
        return tuple(
            {
                "name": each.dataset.spec.name,
                "split": each.split,
                "content_hash": each.content(0, len(each.questions)),
                "grader_version": each.dataset.built.grader_version,
                "questions": each.questions,
            }
            for each in (*self.tests, self.calibration)
        )


def resolve(grid: GridSpec, stand_ins: bool = False) -> ResolvedGrid:
    """Build the plugins and read the questions; with `stand_ins`, do without models and data that are not here.

    Raises
    ------
    PluginError, DataError, GridError
        If a plugin or a data set cannot be had, or a question is both calibrated and tested on.
    """
    resolved = ResolvedGrid(
        spec=grid,
        llms=tuple(build_plugin("llm", spec, stand_ins) for spec in grid.llms),
        prms=tuple(build_plugin("prm", spec, stand_ins) for spec in grid.prms),
        calibrators=tuple(build_plugin("calibrator", spec) for spec in grid.calibrators),
        strategies=tuple(build_plugin("strategy", spec) for spec in grid.strategies),
        tests=tuple(_questions(grid, spec, stand_ins) for spec in grid.datasets),
        calibration=_questions(grid, grid.calibration, stand_ins),
    )
    _check_disjoint(resolved)
    _check_shards(resolved)
    return resolved


def build_plugin(kind: str, spec: PluginSpec, stand_ins: bool = False) -> GridPlugin:
    """Build one plugin of a grid, or one that a plan adds to it."""
    built: Plugin = KINDS[kind].create(spec.plugin, **spec.arguments)
    absent = absent_checkpoint(built) if stand_ins else None
    if absent is not None:
        return GridPlugin(spec, built, {"kind": kind, "absent": absent, "arguments": dict(spec.arguments)})
    return GridPlugin(spec, built, {"kind": kind, **built.identity()})


def _questions(grid: GridSpec, spec: DatasetSpec, stand_ins: bool) -> GridQuestions:
    dataset = build_plugin("dataset", spec)
    if spec.split not in dataset.built.splits:
        raise GridError(
            f"The data set '{spec.name}' has no split '{spec.split}'. It has: {', '.join(dataset.built.splits)}."
        )
    size = dataset.built.absent_size(spec.split) if stand_ins else None
    if size is not None:
        count = min(size, spec.questions or size, grid.limit or size)
        numbered = [
            Question(str(number), f"{spec.name} {spec.split} {number}", "") for number in range(count)
        ]
        return GridQuestions(dataset, spec.split, numbered, grid.shards.questions, stand_in=True)
    questions = dataset.built.questions(spec.split, spec.questions)[: grid.limit]
    if not questions:
        raise GridError(f"The split '{spec.split}' of the data set '{spec.name}' holds no questions.")
    return GridQuestions(dataset, spec.split, questions, grid.shards.questions)


def _check_shards(grid: ResolvedGrid) -> None:
    repeating = [llm.spec.name for llm in grid.llms if llm.built.repeats]
    spec = grid.spec
    most = max(
        spec.scaling.samples,
        spec.calibration.trajectories,
        spec.calibration.follow_ups,
        spec.measurement.follow_ups,
    )
    if repeating and spec.shards.trajectories < most:
        raise GridError(
            f"The LLM '{repeating[0]}' gives the same completions to every shard, so that one has to ask for all of "
            f"them: set 'shards.trajectories' to {most} or more. It is {spec.shards.trajectories}."
        )


def _check_disjoint(grid: ResolvedGrid) -> None:
    fitted = {question.text for question in grid.calibration.questions}
    for test in grid.tests:
        shared = [question.id for question in test.questions if question.text in fitted]
        if shared:
            raise GridError(
                f"The question '{shared[0]}' of the data set '{test.dataset.spec.name}' is among the calibration "
                f"questions too ({len(shared)} such). Calibrate on other questions than you test on."
            )
