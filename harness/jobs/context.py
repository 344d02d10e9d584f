"""What the function of a job works with: its inputs as tables, and its plugins.

Each worker keeps one context. A model stays loaded until a shard needs another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args

from numpy.typing import NDArray

from prmcal.errors import DataError, NoAnswerError, PluginFailedError, PrmcalError, StorageError
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters, PluginReference, QuestionSlice
from prmcal.harness.storage.keys import content_key
from prmcal.harness.storage.store import Store
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.data import Question
from prmcal.registry.contracts.dataset import Dataset
from prmcal.registry.contracts.llm import LLM
from prmcal.registry.contracts.prm import PRM
from prmcal.registry.excerpts import message_of, shown
from prmcal.registry.grading.verdict import Verdict
from prmcal.registry.plugins import Registry, calibrators, datasets, llms, prms
from prmcal.remembered import Memory, content_digest

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Context", "Output", "plugin_guard", "require", "require_length", "successes_of"]

Model = TypeVar("Model", bound=LLM | PRM)
R = TypeVar("R")

_MADE_BYTES = 64 * 2**20
_PREFIX, _COUNTS = ["question_id", "trajectory", "step", "terminal"], ["successes", "follow_ups"]


@dataclass
class Output:
    """What a shard produces.

    Attributes
    ----------
    tables : dict of str to DataFrame
        Each is written as one Parquet file.
    save : callable or None
        Writes further files, such as a fitted calibrator, into the artifact's folder.
    samples, generated_tokens, scored_tokens : int
        For the progress display and the costs.
    """

    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    save: Callable[[Path], None] | None = None
    samples: int = 0
    generated_tokens: int = 0
    scored_tokens: int = 0


@contextmanager
def plugin_guard(kind: str, name: str, action: str) -> Iterator[None]:
    """Turn any exception of a plugin into a PluginFailedError that names the plugin.

    Errors of prmcal that a plugin passes on, such as a DataError, stay as they are. A StorageError does not: it would
    end the whole run.
    """
    try:
        yield
    except PluginFailedError as error:
        failed = NoAnswerError if isinstance(error, NoAnswerError) else PluginFailedError
        raise failed(f"The {kind} '{name}' failed to {action}: {error}") from error
    except (Exception, SystemExit) as error:
        if isinstance(error, PrmcalError) and not isinstance(error, StorageError):
            raise
        raise PluginFailedError(f"The {kind} '{name}' failed to {action}: {message_of(error)}") from error


class _Loaded(Generic[Model]):
    """The place of one model, which is kept until another one is asked for."""

    def __init__(self, registry: Registry[Model]) -> None:
        self._registry = registry
        self._held: tuple[PluginReference, Model] | None = None
        self.built = 0

    def get(self, reference: PluginReference) -> Model:
        if self._held is None or self._held[0] != reference:
            self.close()
            self._held = reference, reference.build(self._registry)
            self.built += 1
        return self._held[1]

    def close(self) -> None:
        if self._held is not None:
            _, model = self._held
            self._held = None
            model.close()


class Context:
    """Plugins and inputs for the shards that one worker runs.

    Parameters
    ----------
    store : Store
        Where inputs are read.
    report : callable, optional
        Takes a short line about the progress of a long job.
    """

    def __init__(self, store: Store, report: Callable[[str], None] = lambda line: None) -> None:
        self.store = store
        self.report = report
        self._llm = _Loaded(llms)
        self._prm = _Loaded(prms)
        self._datasets: dict[str, Dataset] = {}
        self._made = Memory(_MADE_BYTES)

    @property
    def models_loaded(self) -> int:
        """How many models were loaded so far."""
        return self._llm.built + self._prm.built

    def llm(self, reference: PluginReference, beside: bool = False) -> LLM:
        """Return an LLM, loaded once. Unloads the PRM, unless the LLM is to be loaded `beside` it."""
        if not beside:
            self._prm.close()
        return self._llm.get(reference)

    def prm(self, reference: PluginReference, beside: bool = False) -> PRM:
        """Return a PRM, loaded once. Unloads the LLM, unless the PRM is to be loaded `beside` it."""
        if not beside:
            self._llm.close()
        return self._prm.get(reference)

    def calibrator(self, reference: PluginReference) -> Calibrator:
        """Return a new, unfitted calibrator."""
        return reference.build(calibrators)

    def dataset(self, reference: PluginReference) -> Dataset:
        """Return a data set, built once."""
        key = content_key([reference.plugin, reference.arguments])
        if key not in self._datasets:
            self._datasets[key] = reference.build(datasets)
        return self._datasets[key]

    def questions(self, data: QuestionSlice) -> list[Question]:
        """Return the questions of a slice."""
        start, stop = data.questions.start, data.questions.stop
        with plugin_guard("dataset", data.dataset.name, "give its questions"):
            return self.dataset(data.dataset).questions(data.split, stop)[start:stop]

    def grade(
        self, dataset: PluginReference, question: Question, trajectory: str
    ) -> tuple[Verdict, str | None]:
        """Grade a whole trajectory; see :meth:`prmcal.Dataset.grade`."""
        with plugin_guard("dataset", dataset.name, "grade"):
            verdict, answer = self.dataset(dataset).grade(question, trajectory)
            require(
                verdict in get_args(Verdict) and isinstance(answer, str | None),
                f"it must return a verdict ({', '.join(get_args(Verdict))}) and a text or None. "
                f"Got {shown((verdict, answer))}.",
            )
            return verdict, answer

    def table(self, shard: Shard[Parameters], role: str, table: str) -> pd.DataFrame:
        """Return one table of all input artifacts of a role, concatenated."""
        import pandas as pd

        frames = [self.store.read(ref.kind, ref.key, table).to_pandas() for ref in shard.inputs[role]]
        return pd.concat(frames, ignore_index=True)

    def made_of(
        self, shard: Shard[Parameters], role: str, table: str, make: Callable[..., R], *args: object
    ) -> R:
        """Return what a function makes of a table of all input artifacts of a role.

        Artifacts never change, so the results of some last calls are kept for other shards, which get the same arrays.
        Nobody can write to them.

        Parameters
        ----------
        make : callable
            It takes the table and the other arguments, and returns arrays, or tuples or frozen dataclasses of arrays.
        *args
            Arrays, numbers, strings, and tuples and frozen dataclasses of these.
        """
        key = make, tuple(shard.inputs[role]), table, content_digest(args)
        return self._made.recall(key, lambda: make(self.table(shard, role, table), *args))

    def input_folder(self, shard: Shard[Parameters], role: str) -> Path:
        """Return the folder of the only input artifact of a role."""
        (ref,) = shard.inputs[role]
        return self.store.folder(ref.kind, ref.key)

    def close(self) -> None:
        """Unload the models."""
        self._llm.close()
        self._prm.close()


def successes_of(context: Context, shard: Shard[Parameters]) -> pd.DataFrame:
    """Return the success counts that a shard reads, with the blocks of follow-ups of one prefix added up.

    Each prefix has one row.
    """
    import pandas as pd

    columns = context.made_of(shard, "success", "successes", _added_up)
    return pd.DataFrame(dict(zip((*_PREFIX, *_COUNTS), columns, strict=True)))


def _added_up(counts: pd.DataFrame) -> tuple[NDArray[Any], ...]:
    added = counts.groupby(_PREFIX, as_index=False, sort=False)[_COUNTS].sum()
    if added.duplicated(_PREFIX[:-1]).any():
        raise DataError(
            "Some success counts of a prefix are terminal, and others are not. Delete artifacts/success in the folder "
            "of the run, and run the grid again."
        )
    return tuple(added[name].to_numpy() for name in (*_PREFIX, *_COUNTS))


def require(condition: bool, message: str) -> None:
    """Raise a PluginFailedError unless a plugin's result meets its contract."""
    if not condition:
        raise PluginFailedError(message)


def require_length(result: Any, expected: int, what: str) -> None:
    """Raise a PluginFailedError unless `result` has the expected number of entries."""
    found = len(result) if hasattr(result, "__len__") else type(result).__name__
    require(found == expected, f"it returned {found} {what} instead of {expected}.")
