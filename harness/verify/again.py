"""Parts of a plan that are computed again, with the functions and the workers of a run, and compared."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from prmcal.errors import PrmcalError, RunError, StorageError
from prmcal.harness.execution.local import LocalExecutor, after_outcome
from prmcal.harness.execution.schedule import Outcome, Schedule
from prmcal.harness.execution.worker import run_shard
from prmcal.harness.jobs.context import Context
from prmcal.harness.jobs.job import Job, Labels, Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.planning.plan import Plan
from prmcal.harness.storage.store import ArtifactRef, Store, content_key, seed_from_key
from prmcal.harness.verify.subject import Subject, keyed_plugins, known_questions
from prmcal.registry.messages import excerpt, message_of
from prmcal.registry.plugins import KINDS

TEXT_TABLES = {"rollout": "trajectories", "imported": "trajectories", "search": "searches"}
"""The tables with texts, by the kinds of artifacts."""
NO_TEXTS = "its texts are not in the submission. Give them with --texts-from"


class Tolerance(NamedTuple):
    """The largest distance of a number from the stored one: by `relative` of it, or by `absolute`."""

    relative: float
    absolute: float


ROUNDING = Tolerance(1e-9, 1e-12)
"""Other processors and libraries add numbers in another order."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The extent of a verification, and its means besides the submission."""

    workers: int = 1
    """Processes of the first tier."""
    share: float = 0.02
    """The share of trajectories that are scored again, in (0, 1]."""
    questions: int = 30
    """Questions of each LLM and split that are sampled again, at least."""
    all_fits: bool = False
    """True if fits that need the PRM or its hidden states are repeated."""
    texts_from: Path | None = None
    """A bundle or a folder with the texts of the same trajectories."""
    plugin_files: tuple[Path, ...] = ()
    """Plugin files, which are loaded already."""


class Again:
    """A working folder with links to the artifacts of a subject, in which parts of its plan are computed again.

    The folder is empty. All random choices are made with the seed. `works` takes a line about the progress, and `other`
    is where texts and questions are looked for that the subject lacks. `store` has the artifacts of the working folder,
    `questions` the questions by data set and split, and `unknown` why their texts and answers are not known.
    """

    def __init__(
        self,
        subject: Subject,
        folder: Path,
        asked: Asked,
        seed: int,
        works: Callable[[str], None],
        other: Subject | None = None,
    ) -> None:
        self.subject, self.asked, self.seed, self.works = subject, asked, seed, works
        self.store = Store(folder)
        known, unknown = known_questions(subject)
        if other is not None:
            known = known_questions(other)[0] | known
        self.unknown = {place: why for place, why in unknown.items() if place not in known}
        self.questions = {(each.name, each.split): each.questions for each in subject.plan.datasets} | known
        self.context = Context(self.store, questions=self.questions)
        self._unlike: dict[str, str] = {}
        for ref in subject.manifests:
            target = self.store.folder(ref)
            target.parent.mkdir(parents=True, exist_ok=True)
            helped = other is not None and not _has_texts(subject.store, ref) and _has_texts(other.store, ref)
            source = other.store if other is not None and helped else subject.store
            target.symlink_to(source.folder(ref).resolve(), target_is_directory=True)

    def close(self) -> None:
        """Unload the models."""
        self.context.close()

    def random(self, *about: str) -> np.random.Generator:
        """Return random numbers that follow from the seed of the verification and from what they are drawn for."""
        return np.random.default_rng(seed_from_key(content_key([self.seed, *about])))

    def own(
        self, shard: Shard[Any], read: pd.DataFrame | None = None, **changes: object
    ) -> Shard[Parameters]:
        """Return a shard with a key and random numbers of its own, which follow from the seed of the verification.

        It reads the trajectories `read` instead of those of the rollouts, if they are given, and has other values of
        some parameters.
        """
        key = content_key(["own", self.seed, shard.ref.key])
        parameters = replace(shard.parameters, **changes)
        own: Shard[Parameters] = replace(shard, ref=ArtifactRef(shard.ref.kind, key), parameters=parameters)
        if read is None:
            return own
        source = ArtifactRef("rollout", key)
        self.store.write(
            source,
            lambda folder: read.to_parquet(folder / "trajectories.parquet", index=False),
            {"seconds": 0.0},
        )
        return replace(own, inputs={"rollout": (source,)})

    def compute(self, shards: Sequence[Shard[Parameters]], workers: int = 1) -> dict[ArtifactRef, str]:
        """Compute shards in the working folder. Return why shards could not be computed.

        Shards that read others of them read what is computed now. All others read the artifacts of the subject. With
        one worker, this process computes them, and keeps its models loaded for the next call. Raises a RunError if a
        process dies, for example because there is no memory left. Raises a StorageError if the disk is full.
        """
        for shard in shards:
            link = self.store.folder(shard.ref)
            if link.is_symlink():
                link.unlink()
        jobs = tuple(Job(shard.ref.key, Labels(), (shard,)) for shard in shards)
        problems: dict[ArtifactRef, str] = {}
        with closing(self._outcomes(Schedule(Plan(jobs, (), {}, ()), ()), workers)) as outcomes:
            for done, outcome in enumerate(outcomes, 1):
                self.works(f"{done:,} of {len(shards):,} artifacts computed again")
                if outcome.failure is None:
                    continue
                problems[outcome.ref] = reason = outcome.failure.reason.rstrip(".")
                if outcome.fatal:
                    raise StorageError(f"{reason}.")
                if outcome.failure.cause == "crash":
                    raise RunError(f"{reason}. Run the verification again with fewer --workers.")
        return problems

    def _outcomes(self, schedule: Schedule, workers: int) -> Generator[Outcome]:
        if workers > 1:
            files = self.asked.plugin_files
            executor = LocalExecutor(self.store.directory, workers, files, questions=self.questions)
            with closing(executor.run(schedule)) as events:
                yield from (each for each in events if isinstance(each, Outcome))
            return
        loaded = ""
        while (shard := schedule.take(loaded)) is not None:
            loaded = shard.resource or loaded
            found = after_outcome(schedule, run_shard(shard, self.context))
            yield from (each for each in found if isinstance(each, Outcome))

    def flaws(self, shard: Shard[Parameters], tolerance: Tolerance) -> Iterator[str]:
        """Yield how the tables of a shard differ from those computed again, in sentences without full stops."""
        stores = (self.subject.store, self.store)
        names, again = ({path.stem for path in each.folder(shard.ref).glob("*.parquet")} for each in stores)
        for name in sorted(names ^ again):
            yield f"it {'should not have' if name in names else 'lacks'} the table '{name}'"
        for name in sorted(names & again):
            try:
                stored, computed = (each.read(shard.ref, name) for each in stores)
            except PrmcalError as error:
                yield excerpt(str(error), 200)
            else:
                yield from column_flaws(name, stored, computed, tolerance)

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
                    other = "is another one here: its weights, version or settings differ"
                    self._unlike[key] = "" if content_key(here) == content_key(identity) else other
                except Exception as error:  # of a plugin
                    self._unlike[key] = f"is not here: {excerpt(message_of(error), 150).rstrip('.')}"
            if self._unlike[key]:
                return f"the {kind} '{reference.name}' {self._unlike[key]}"
        return ""

    def has_texts(self, ref: ArtifactRef) -> bool:
        """Return whether the texts of an artifact are in the submission, or were supplied, if it has any."""
        return ref.kind not in TEXT_TABLES or _has_texts(self.store, ref)

    def not_ready(self, job: Job[Any]) -> str:
        """Return why a job cannot be repeated with a model on this machine, or nothing."""
        place = job.labels.dataset, job.labels.split
        if place in self.unknown:
            return f"the questions are not known: {self.unknown[place]}"
        # Fits read the scores of the PRM that they are trained with.
        models = [job, *(source for source in job.inputs if source.kind == "score")]
        shards = [shard for each in models for shard in each.shards]
        if not all(self.has_texts(ref) for shard in shards for ref in shard.inputs.get("rollout", ())):
            return NO_TEXTS
        return next((why for each in models if (why := self.unlike_here(each.shards[0]))), "")


def column_flaws(name: str, stored: pa.Table, computed: pa.Table, tolerance: Tolerance) -> Iterator[str]:
    """Yield how a stored table differs from the computed one, a sentence for each column."""
    if stored.column_names != computed.column_names or len(stored) != len(computed):
        yield f"its table '{name}' has {len(stored)} rows, and {len(computed)} when computed again"
        return
    for column in stored.column_names:
        if stored[column].equals(computed[column]):
            continue
        one, other = (table[column].to_pandas().astype(object) for table in (stored, computed))
        by = ""
        if pa.types.is_floating(stored[column].type) and pa.types.is_floating(computed[column].type):
            one, other = one.astype(float), other.astype(float)
            apart = ~np.isclose(one, other, *tolerance, equal_nan=True)
            largest = (one - other).abs()[apart].max()
            by = "" if np.isnan(largest) else f" by up to {largest:.2g}"
        else:
            apart = ((one != other) & ~(one.isna() & other.isna())).to_numpy(bool)
        if apart.any():
            yield f"{apart.sum()} of {len(stored)} values of '{column}' in '{name}' differ{by} when computed again"


def _has_texts(store: Store, ref: ArtifactRef) -> bool:
    import pyarrow.parquet as parquet

    if ref.kind not in TEXT_TABLES:
        return False
    try:
        path = store.folder(ref) / f"{TEXT_TABLES[ref.kind]}.parquet"
        return "text" in parquet.read_schema(path).names
    except (OSError, pa.ArrowException):
        return False
