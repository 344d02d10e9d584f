"""Parts of a plan that are computed again, with the functions and the workers of a run, and compared."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as functions

from prmcal.errors import PrmcalError, RunError, StorageError
from prmcal.harness.execution.local import LocalExecutor
from prmcal.harness.execution.schedule import Outcome, Schedule
from prmcal.harness.execution.worker import run_shard
from prmcal.harness.jobs.context import Context
from prmcal.harness.jobs.job import Job, Labels, Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.planning.plan import Plan
from prmcal.harness.storage.store import ArtifactRef, Store, content_key
from prmcal.harness.verify.plan import Place, keyed_plugins
from prmcal.harness.verify.subject import Subject
from prmcal.registry.contracts.data import Question
from prmcal.registry.messages import excerpt, message_of
from prmcal.registry.plugins import KINDS

TEXT_TABLES = {"rollout": "trajectories", "imported": "trajectories", "search": "searches"}
"""The tables with texts, by the kinds of artifacts."""


@dataclass(frozen=True)
class Tolerance:
    """How far a number may lie from the stored one: by `relative` of it, or by `absolute`."""

    relative: float
    absolute: float


ROUNDING = Tolerance(1e-9, 1e-12)
"""Other processors and libraries add numbers in another order."""


class Again:
    """A working folder with links to the artifacts of a subject, in which parts of its plan are computed again.

    Parameters
    ----------
    subject : Subject
    folder : Path
        An empty folder.
    others : sequence of Subject
        Where texts are looked for that the subject lacks.
    questions : mapping of (str, str) to sequence of Question
        The questions by data set and split, with texts where they are known.
    plugin_files : sequence of Path
        Plugin files that other processes load. This one has loaded them.
    """

    def __init__(
        self,
        subject: Subject,
        folder: Path,
        others: Sequence[Subject],
        questions: Mapping[Place, Sequence[Question]],
        plugin_files: Sequence[Path],
    ) -> None:
        self.subject = subject
        self.store = Store(folder)
        self.questions = questions
        self._plugin_files = tuple(plugin_files)
        self._context = Context(self.store, questions=questions)
        self._unlike: dict[str, str] = {}
        for ref in subject.manifests:
            target = self.store.folder(ref.kind, ref.key)
            target.parent.mkdir(parents=True, exist_ok=True)
            stores = (subject.store, *(each.store for each in others)) if ref.kind in TEXT_TABLES else ()
            source = next((each for each in stores if _has_texts(each, ref)), subject.store)
            target.symlink_to(source.folder(ref.kind, ref.key).resolve(), target_is_directory=True)

    def close(self) -> None:
        """Unload the models."""
        self._context.close()

    def has_texts(self, ref: ArtifactRef) -> bool:
        """Return whether the texts of an artifact are in the submission, or were supplied."""
        return _has_texts(self.store, ref)

    def write(self, ref: ArtifactRef, tables: Mapping[str, pd.DataFrame]) -> None:
        """Write an artifact that shards read as their input."""

        def fill(folder: Path) -> None:
            for name, table in tables.items():
                table.to_parquet(folder / f"{name}.parquet", index=False)

        self.store.write(ref.kind, ref.key, fill, {"seconds": 0.0})

    def compute(
        self,
        shards: Sequence[Shard[Parameters]],
        workers: int = 1,
        works: Callable[[str], None] = lambda line: None,
    ) -> dict[ArtifactRef, str]:
        """Compute shards in the working folder.

        Parameters
        ----------
        shards : sequence of Shard
            Those that read others of them read what is computed now. All others read the artifacts of the subject.
        workers : int
            Processes. With 1, this process computes them, and keeps its models loaded for the next call.
        works : callable
            Takes a line about the progress.

        Returns
        -------
        dict of ArtifactRef to str
            Why shards could not be computed.

        Raises
        ------
        RunError
            If a process dies, for example because there is no memory left.
        StorageError
            If the disk is full.
        """
        for shard in shards:
            link = self.store.folder(shard.ref.kind, shard.ref.key)
            if link.is_symlink():
                link.unlink()
        jobs = tuple(Job(shard.ref.key, Labels(), (shard,)) for shard in shards)
        problems: dict[ArtifactRef, str] = {}
        schedule = Schedule(Plan(jobs, (), {}, ()), ())
        with closing(self._outcomes(schedule, workers)) as outcomes:
            for done, outcome in enumerate(outcomes, 1):
                works(f"{done:,} of {len(shards):,} artifacts computed again")
                if outcome.failure is None:
                    continue
                reason = outcome.failure.reason.rstrip(".")
                if outcome.fatal:
                    raise StorageError(f"{reason}.")
                if outcome.failure.cause == "crash":
                    raise RunError(f"{reason}. Run the verification again with fewer --workers.")
                problems[outcome.ref] = reason
        return problems

    def _outcomes(self, schedule: Schedule, workers: int) -> Generator[Outcome]:
        if workers > 1:
            folder = self.store.directory
            executor = LocalExecutor(folder, workers, self._plugin_files, questions=self.questions)
            with closing(executor.run(schedule)) as events:
                yield from (each for each in events if isinstance(each, Outcome))
            return
        loaded = ""
        while (shard := schedule.take(loaded)) is not None:
            loaded = shard.resource or loaded
            yield from schedule.finish(run_shard(shard, self._context))

    def flaws(self, shard: Shard[Parameters], tolerance: Tolerance) -> Iterator[str]:
        """Yield how the tables of a shard differ from those computed again, in sentences without full stops."""
        ref, stored = shard.ref, self.subject.store
        names = {path.stem for path in stored.folder(ref.kind, ref.key).glob("*.parquet")}
        again = {path.stem for path in self.store.folder(ref.kind, ref.key).glob("*.parquet")}
        for name in sorted(names ^ again):
            yield f"it {'should not have' if name in names else 'lacks'} the table '{name}'"
        for name in sorted(names & again):
            try:
                table = stored.read(ref.kind, ref.key, name)
            except PrmcalError as error:
                yield excerpt(str(error), 200)
            else:
                yield from column_flaws(name, table, self.store.read(ref.kind, ref.key, name), tolerance)

    def unlike_here(self, shard: Shard[Parameters]) -> str:
        """Return what computed a shard and is not the same here, without a full stop; empty if all is.

        It is the version of its job, or a plugin.
        """
        given = shard.parameters
        if shard.version != given.version:
            return f"it was computed by version {shard.version} of '{given.kind}', and this prmcal has {given.version}"
        for kind, reference, identity in keyed_plugins(shard):
            key = content_key([kind, reference.plugin, reference.arguments, identity])
            if key not in self._unlike:
                try:
                    here = {"kind": kind, **reference.build(KINDS[kind]).identity()}
                    same = content_key(here) == content_key(identity)
                    self._unlike[key] = (
                        "" if same else "is another one here: its weights, version or settings differ"
                    )
                except PrmcalError as error:
                    self._unlike[key] = f"is not here: {excerpt(str(error), 150).rstrip('.')}"
                except Exception as error:  # of a plugin
                    self._unlike[key] = f"cannot be built: {excerpt(message_of(error), 150).rstrip('.')}"
            if self._unlike[key]:
                return f"the {kind} '{reference.name}' {self._unlike[key]}"
        return ""


def own_shard(shard: Shard[Parameters], seed: int, **changes: object) -> Shard[Parameters]:
    """Return a shard with a key and random numbers of its own, which follow from the seed of the verification.

    Parameters
    ----------
    shard : Shard
    seed : int
    **changes
        Other values of its parameters, or other `inputs`.
    """
    inputs = changes.pop("inputs", shard.inputs)
    parameters = replace(shard.parameters, **changes)  # type: ignore[type-var]
    ref = ArtifactRef(shard.ref.kind, content_key(["own", seed, shard.ref.key]))
    return replace(shard, ref=ref, parameters=parameters, inputs=inputs)  # type: ignore[arg-type]


def column_flaws(name: str, stored: pa.Table, computed: pa.Table, tolerance: Tolerance) -> Iterator[str]:
    """Yield how a stored table differs from the computed one, a sentence for each column."""
    if stored.column_names != computed.column_names or len(stored) != len(computed):
        yield f"its table '{name}' has {len(stored)} rows, and {len(computed)} when computed again"
        return
    for column in stored.column_names:
        count, largest = _apart(stored[column], computed[column], tolerance)
        if count:
            by = "" if largest is None else f" by up to {largest:.2g}"
            yield f"{count} of {len(stored)} values of '{column}' in '{name}' differ{by} when computed again"


def _apart(
    stored: pa.ChunkedArray, computed: pa.ChunkedArray, tolerance: Tolerance
) -> tuple[int, float | None]:
    """Return how many values of a column differ, and by how much at most if they are numbers."""
    if stored.equals(computed):
        return 0, None
    try:
        same_type = computed.cast(stored.type)
    except pa.ArrowInvalid:
        return len(stored), None
    if not pa.types.is_floating(stored.type):
        differ = functions.fill_null(functions.not_equal(stored, same_type), True)
        both_null = functions.and_(functions.is_null(stored), functions.is_null(same_type))
        return int(functions.sum(functions.and_not(differ, both_null)).as_py() or 0), None
    one = stored.to_numpy(zero_copy_only=False).astype(np.float64)
    other = same_type.to_numpy(zero_copy_only=False).astype(np.float64)
    close = np.isclose(one, other, rtol=tolerance.relative, atol=tolerance.absolute, equal_nan=True)
    distances = np.abs(one - other)[~close & ~np.isnan(one - other)]
    return int((~close).sum()), float(distances.max()) if distances.size else None


def _has_texts(store: Store, ref: ArtifactRef) -> bool:
    import pyarrow.parquet as parquet

    path = store.folder(ref.kind, ref.key) / f"{TEXT_TABLES[ref.kind]}.parquet"
    try:
        return "text" in parquet.read_schema(path).names
    except (OSError, pa.ArrowException):
        return False
