"""What the tiers with models work with: questions and trajectories with texts, and models that are the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from prmcal.errors import DataError, PrmcalError
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters, PluginReference, QuestionSlice
from prmcal.harness.storage.store import ArtifactRef, Store, content_key
from prmcal.harness.verifying.consistent.questions import Place
from prmcal.harness.verifying.context import VerifyingContext
from prmcal.harness.verifying.subject import Subject
from prmcal.registry.contracts.data import Question
from prmcal.registry.messages import excerpt, message_of
from prmcal.registry.plugins import KINDS

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LayeredStore", "ModelContext", "Texts", "unlike"]


class LayeredStore(Store):
    """The artifacts of a folder, except those that were computed again in another one.

    Parameters
    ----------
    directory : Path
        The folder that is verified. It is only read.
    work : Path
        A folder with the artifacts that take their place.
    """

    def __init__(self, directory: Path, work: Path) -> None:
        super().__init__(directory)
        self.work = Store(work)

    def folder(self, kind: str, key: str) -> Path:
        """Return the folder of an artifact: that which was computed again, if there is one."""
        again = self.work.folder(kind, key)
        return again if again.exists() else super().folder(kind, key)

    def checkpoints(self, ref: ArtifactRef) -> Path:
        """Return the folder for the checkpoints of a long shard, among what is computed again."""
        return self.work.checkpoints(ref)


@dataclass(frozen=True, eq=False)
class Texts:
    """Where texts come from.

    Attributes
    ----------
    questions : mapping of (str, str) to tuple of Question
        The questions with texts and answers, by data set and split.
    unknown : mapping of (str, str) to str
        Why the others are not known.
    stores : tuple of Store
        Where texts of trajectories are looked for: in the submission itself, then where they are supplied.
    """

    questions: Mapping[Place, tuple[Question, ...]]
    unknown: Mapping[Place, str]
    stores: tuple[Store, ...]

    def of(self, ref: ArtifactRef, table: str) -> pd.DataFrame:
        """Return the texts of a table, with the columns that identify its rows.

        Raises
        ------
        DataError
            If no texts are supplied for the artifact.
        """
        for store in self.stores:
            try:
                found = store.read(ref.kind, ref.key, table)
            except PrmcalError:
                continue
            if "text" in found.column_names and not found["text"].null_count:
                names = [name for name in ("question_id", "trajectory", "text") if name in found.column_names]
                return found.select(names).to_pandas()
        raise DataError("its texts are not in the submission. Give them with --texts-from")


class ModelContext(VerifyingContext):
    """A context with texts, for the functions of jobs that run a model.

    Parameters
    ----------
    subject : Subject
    texts : Texts
    store : Store
    """

    def __init__(self, subject: Subject, texts: Texts, store: Store) -> None:
        super().__init__(store, subject.plan.datasets)
        self._texts = texts

    def questions(self, data: QuestionSlice) -> list[Question]:
        """Return the questions of a slice with their texts."""
        place = data.dataset.name, data.split
        if place not in self._texts.questions:
            raise DataError(
                f"the questions of {'/'.join(place)} are not known: {self._texts.unknown.get(place, '')}"
            )
        return list(self._texts.questions[place][data.questions.start : data.questions.stop])

    def table(self, shard: Shard[Parameters], role: str, table: str) -> pd.DataFrame:
        """Return one table of all input artifacts of a role, concatenated. Trajectories have texts."""
        import pandas as pd

        found = super().table(shard, role, table)
        if table != "trajectories":
            return found
        texts = pd.concat([self._texts.of(ref, table) for ref in shard.inputs[role]], ignore_index=True)
        return found.merge(texts, on=["question_id", "trajectory"], validate="one_to_one")


def unlike(kind: str, reference: PluginReference, identity: Mapping[str, object]) -> str:
    """Return why a model is not here as it was used, in a sentence without a full stop; empty if it is."""
    try:
        built = reference.build(KINDS[kind])
        here = {"kind": kind, **built.identity()}
    except PrmcalError as error:
        return f"the {kind} '{reference.name}' is not here: {excerpt(str(error), 150).rstrip('.')}"
    except Exception as error:  # of a plugin
        return f"the {kind} '{reference.name}' cannot be built: {excerpt(message_of(error), 150).rstrip('.')}"
    if content_key(here) != content_key(identity):
        return f"the {kind} '{reference.name}' on this machine is another one: its weights, version or settings differ"
    return ""
