"""The context of the function of a job: its inputs as tables, and its plugins.

Each worker keeps one context. A model stays loaded until a shard needs another one.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from numpy.typing import NDArray

from prmcal.errors import DataError, FaultyPluginError
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters, PluginReference, QuestionSlice
from prmcal.harness.jobs.plugin_calls import plugin_guard
from prmcal.harness.storage.store import Store, content_key
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.data import Question
from prmcal.registry.contracts.dataset import Dataset
from prmcal.registry.contracts.grader import Grader
from prmcal.registry.contracts.models import LLM, PRM
from prmcal.registry.grading import Verdict
from prmcal.registry.grading.extraction import Ways
from prmcal.registry.messages import shown
from prmcal.registry.plugins import Registry, calibrators, datasets, graders, llms, prms
from prmcal.remembered import Memory, content_digest

if TYPE_CHECKING:
    import pandas as pd

Model = TypeVar("Model", bound=LLM | PRM)
R = TypeVar("R")

_RESULTS_BYTES = 64 * 2**20
PREFIX = ["question_id", "trajectory", "step"]
"""The columns that identify a prefix of a rollout."""
_PREFIX, _COUNTS = [*PREFIX, "terminal"], ["successes", "follow_ups"]


@dataclass
class Output:
    """The output of a shard."""

    tables: "dict[str, pd.DataFrame]" = field(default_factory=dict)
    """Each table is written as one Parquet file."""
    save: Callable[[Path], None] | None = None
    """Writes further files, such as a fitted calibrator, into the artifact's folder."""
    samples: int = 0
    generated_tokens: int = 0
    scored_tokens: int = 0
    """For the progress display and the costs."""


class Models:
    """The only holder of models in a worker, in a search, and in a calibrated PRM that answers questions.

    It has at most an LLM and a PRM, and builds each from its reference at the first use. A model is unloaded for
    another model of its kind, or for a model of the other kind that is not used `beside` it.

    Several threads may share it. A block with `lock` has both models for itself.

    Attributes
    ----------
    lock : RLock
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._held: dict[str, tuple[PluginReference, Any]] = {}

    def llm(self, reference: PluginReference, beside: bool = False) -> LLM:
        """Return an LLM, loaded once. Unloads the PRM, unless the LLM is to be loaded `beside` it."""
        return self._loaded(llms, reference, beside)

    def prm(self, reference: PluginReference, beside: bool = False) -> PRM:
        """Return a PRM, loaded once. Unloads the LLM, unless the PRM is to be loaded `beside` it."""
        return self._loaded(prms, reference, beside)

    def _loaded(self, registry: Registry[Model], reference: PluginReference, beside: bool) -> Model:
        """Return a model. Another one of its kind is closed before, and without `beside` those of other kinds."""
        for kind, (loaded, model_before) in list(self._held.items()):
            stays = loaded == reference if kind == registry.kind else beside
            if not stays:
                del self._held[kind]
                model_before.close()
        if registry.kind not in self._held:
            self._held[registry.kind] = reference, reference.build(registry)
        if "llm" in self._held:
            self._held["llm"][1].share_gpus(beside)
        model: Model = self._held[registry.kind][1]
        return model

    def calibrator(self, reference: PluginReference, folder: Path | None = None) -> Calibrator:
        """Return a new calibrator: unfitted, or loaded from a folder."""
        calibrator = reference.build(calibrators)
        return calibrator if folder is None else calibrator.load(folder)

    def close(self) -> None:
        """Unload the models. They are loaded again when they are used."""
        with self.lock:
            while self._held:
                self._held.popitem()[1][1].close()


class Context(Models):
    """Models, data sets and inputs for the shards that one worker runs.

    Inputs are read in `store`, and `report` takes a short line about the progress of a long job. `questions` maps a
    data set and a split to questions that are already read. No questions are read twice.
    """

    def __init__(
        self,
        store: Store,
        report: Callable[[str], None] = lambda line: None,
        questions: Mapping[tuple[str, str], Sequence[Question]] | None = None,
    ) -> None:
        super().__init__()
        self.store = store
        self.report = report
        self._questions = dict(questions or {})
        self._datasets: dict[str, Dataset] = {}
        self._results = Memory(_RESULTS_BYTES)
        self._grader: tuple[PluginReference, Grader] | None = None

    def dataset(self, reference: PluginReference) -> Dataset:
        """Return a data set, built once."""
        key = content_key([reference.plugin, reference.arguments])
        if key not in self._datasets:
            self._datasets[key] = reference.build(datasets)
        return self._datasets[key]

    def questions(self, data: QuestionSlice) -> list[Question]:
        """Return the questions of a slice."""
        split, stop = (data.dataset.name, data.split), data.questions.stop
        if len(self._questions.get(split, ())) < stop:
            with plugin_guard("dataset", data.dataset.name, "give its questions"):
                self._questions[split] = self.dataset(data.dataset).questions(data.split, stop)
        return list(self._questions[split][data.questions.start : stop])

    def grader(self, reference: PluginReference) -> Grader:
        """Return a grader, built once. A grader with a model unloads the other models."""
        if self._grader is None or self._grader[0] != reference:
            built = reference.build(graders)
            if built.runs_model:
                self.close()
            else:
                self._close_grader()
            self._grader = reference, built
        return self._grader[1]

    def _loaded(self, registry: Registry[Model], reference: PluginReference, beside: bool) -> Model:
        self._close_grader()
        return super()._loaded(registry, reference, beside)

    def _close_grader(self) -> None:
        if self._grader is not None:
            self._grader[1].close()

    def close(self) -> None:
        """Unload the models, also a grader's."""
        super().close()
        self._close_grader()

    def grade(
        self, dataset: PluginReference, answers: Ways, question: Question, trajectory: str
    ) -> tuple[Verdict, str | None]:
        """Grade a whole trajectory. `answers` says where its answer stands; see :meth:`prmcal.Dataset.grade`."""
        reader = copy(self.dataset(dataset))
        reader.answers = answers
        with plugin_guard("dataset", dataset.name, "grade"):
            verdict, answer = reader.grade(question, trajectory)
            if verdict not in get_args(Verdict) or not isinstance(answer, str | None):
                raise FaultyPluginError(
                    f"it must return a verdict ({', '.join(get_args(Verdict))}) and a text or None. "
                    f"Got {shown((verdict, answer))}."
                )
            return verdict, answer

    def table(self, shard: Shard[Parameters], role: str, table: str) -> "pd.DataFrame":
        """Return one table of all input artifacts of a role, concatenated."""
        return self.store.table(shard.inputs[role], table)

    def made_of(self, shard: Shard[Parameters], role: str, table: str, make: Callable[..., R], *args: object) -> R:
        """Apply a function to a table of all input artifacts of a role.

        `make` takes the table and the other arguments: arrays, numbers, strings, and tuples and frozen dataclasses of
        these. The function returns arrays, or tuples or frozen dataclasses of arrays. Artifacts never change, so the
        results of the latest calls are kept, and other shards get the same arrays. Nobody can write to them.
        """
        key = make, tuple(shard.inputs[role]), table, content_digest(args)
        return self._results.recall(key, lambda: make(self.table(shard, role, table), *args))

    def fitted_calibrator(self, shard: Shard[Parameters], reference: PluginReference) -> Calibrator:
        """Return the calibrator that the only input artifact of the role "fit" is."""
        (ref,) = shard.inputs["fit"]
        return self.calibrator(reference, self.store.folder(ref))


def successes_of(context: Context, shard: Shard[Parameters]) -> "pd.DataFrame":
    """Return the success counts that a shard reads, with the blocks of follow-ups of one prefix added up.

    Each prefix has one row.
    """
    import pandas as pd

    columns = context.made_of(shard, "success", "successes", _added_up)
    return pd.DataFrame(dict(zip((*_PREFIX, *_COUNTS), columns, strict=True)))


def _added_up(counts: "pd.DataFrame") -> tuple[NDArray[Any], ...]:
    added = counts.groupby(_PREFIX, as_index=False, sort=False)[_COUNTS].sum()
    if added.duplicated(_PREFIX[:-1]).any():
        raise DataError(
            "Some success counts of a prefix are terminal, and others are not. Delete artifacts/success in the folder "
            "of the run, and run the grid again."
        )
    return tuple(added[name].to_numpy() for name in (*_PREFIX, *_COUNTS))
