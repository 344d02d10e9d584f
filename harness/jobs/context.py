"""What a job's function works with: its inputs as tables, its plugins built and loaded.

A worker keeps one context; a model stays loaded until a shard needs another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from prmcal.errors import PluginFailedError, PrmcalError
from prmcal.harness.jobs.job import Shard
from prmcal.harness.storage.keys import content_key
from prmcal.harness.storage.store import Store
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.data import Question
from prmcal.registry.contracts.dataset import Dataset
from prmcal.registry.contracts.llm import LLM
from prmcal.registry.contracts.prm import PRM
from prmcal.registry.plugins import KINDS

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Context", "Output", "plugin_guard", "require", "require_length", "successes_of"]


@dataclass
class Output:
    """What a shard produces.

    Attributes
    ----------
    tables : dict of str to DataFrame
        Written as Parquet, one file a table.
    save : callable or None
        Writes further files into the artifact's folder (a fitted calibrator).
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
    """Turn whatever a plugin raises into a PluginFailedError that names it."""
    try:
        yield
    except PluginFailedError as error:
        raise PluginFailedError(f"The {kind} '{name}' failed to {action}: {error}") from error
    except PrmcalError:
        raise
    except Exception as error:
        raise PluginFailedError(
            f"The {kind} '{name}' failed to {action}: {type(error).__name__}: {error}"
        ) from error


class Context:
    """Plugins and inputs for the shards that one worker runs.

    Parameters
    ----------
    store : Store
        Where inputs are read.
    report : callable, optional
        Where a long job says how far it is, in a short line.
    """

    def __init__(self, store: Store, report: Callable[[str], None] = lambda line: None) -> None:
        self.store = store
        self.report = report
        self._models: dict[str, tuple[str, LLM | PRM]] = {}
        self._datasets: dict[str, Dataset] = {}

    def llm(self, parameters: Mapping[str, Any], beside: bool = False) -> LLM:
        """The LLM of a shard; stays loaded until another model is asked for, but for a PRM `beside` it."""
        return cast(LLM, self._load("llm", parameters, beside))

    def prm(self, parameters: Mapping[str, Any], beside: bool = False) -> PRM:
        """The PRM of a shard; stays loaded until another model is asked for, but for an LLM `beside` it."""
        return cast(PRM, self._load("prm", parameters, beside))

    def calibrator(self, parameters: Mapping[str, Any]) -> Calibrator:
        """A fresh, unfitted calibrator."""
        return cast(Calibrator, KINDS["calibrator"].create(parameters["plugin"], **parameters["arguments"]))

    def dataset(self, parameters: Mapping[str, Any]) -> Dataset:
        """A data set, built once."""
        key = content_key(parameters)
        if key not in self._datasets:
            self._datasets[key] = KINDS["dataset"].create(parameters["plugin"], **parameters["arguments"])
        return self._datasets[key]

    def questions(self, shard: Shard) -> list[Question]:
        """The slice of questions that a shard is about."""
        first, last = shard.parameters["questions"]
        return self.dataset(shard.parameters["dataset"]).questions(shard.parameters["split"], last)[
            first:last
        ]

    def table(self, shard: Shard, role: str, table: str) -> pd.DataFrame:
        """One table of all input artifacts of a role, below one another."""
        import pandas as pd

        frames = [self.store.read(ref.kind, ref.key, table).to_pandas() for ref in shard.inputs[role]]
        return pd.concat(frames, ignore_index=True)

    def input_folder(self, shard: Shard, role: str) -> Path:
        """The folder of the only input artifact of a role."""
        (ref,) = shard.inputs[role]
        return self.store.folder(ref.kind, ref.key)

    def close(self) -> None:
        """Unload the models."""
        for kind in list(self._models):
            self._close(kind)

    def _close(self, kind: str) -> None:
        _, model = self._models.pop(kind)
        model.close()

    def _load(self, kind: str, parameters: Mapping[str, Any], beside: bool) -> LLM | PRM:
        key = content_key([kind, parameters])
        for other, (held, _) in list(self._models.items()):
            if (other == kind and held != key) or (other != kind and not beside):
                self._close(other)
        if kind not in self._models:
            self._models[kind] = key, KINDS[kind].create(parameters["plugin"], **parameters["arguments"])
        return self._models[kind][1]


def successes_of(context: Context, shard: Shard) -> pd.DataFrame:
    """Success counts of a shard's input, blocks of follow-ups of one prefix added up."""
    counts = context.table(shard, "success", "successes")
    keys = ["question_id", "trajectory", "step", "terminal"]
    return counts.groupby(keys, as_index=False, sort=False)[["successes", "follow_ups"]].sum()


def require(condition: bool, message: str) -> None:
    """Raise a PluginFailedError unless a plugin's result fulfils its contract."""
    if not condition:
        raise PluginFailedError(message)


def require_length(result: Any, expected: int, what: str) -> None:
    """Raise a PluginFailedError unless `result` has the expected number of entries."""
    found = len(result) if hasattr(result, "__len__") else type(result).__name__
    require(found == expected, f"it returned {found} {what} instead of {expected}.")
