"""What the functions of jobs work with in a verification: the questions of the plan, and tables that are kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from prmcal.errors import DataError
from prmcal.harness.jobs.context import Context
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters, QuestionSlice
from prmcal.harness.planning.plan import PlannedQuestions
from prmcal.harness.storage.store import ArtifactRef, Store
from prmcal.registry.contracts.data import Question

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TEXT", "VerifyingContext"]

_KEPT = 64
TEXT = "text"
"""The column with the texts of trajectories, which no result is computed from."""


class VerifyingContext(Context):
    """The context of a verification.

    It reads no data set: the questions are those of the plan, whose text may be missing. It reads no texts of
    trajectories either, which no result is computed from. Tables that several shards read are kept.

    Parameters
    ----------
    store : Store
        Where inputs are read.
    datasets : sequence of PlannedQuestions
        The questions of the plan.
    """

    def __init__(self, store: Store, datasets: Sequence[PlannedQuestions]) -> None:
        super().__init__(store)
        self._planned = {(each.name, each.split): each for each in datasets}
        self._kept: OrderedDict[tuple[tuple[ArtifactRef, ...], str], pd.DataFrame] = OrderedDict()

    def questions(self, data: QuestionSlice) -> list[Question]:
        """Return the questions of a slice, as the plan has them."""
        planned = self._planned.get((data.dataset.name, data.split))
        if planned is None or len(planned.questions) < data.questions.stop:
            raise DataError(f"The plan does not have the questions of {data.dataset.name}/{data.split}.")
        return list(planned.questions[data.questions.start : data.questions.stop])

    def table(self, shard: Shard[Parameters], role: str, table: str) -> pd.DataFrame:
        """Return one table of all input artifacts of a role, concatenated, without texts."""
        return self.tables(tuple(shard.inputs[role]), table)

    def tables(self, refs: tuple[ArtifactRef, ...], table: str) -> pd.DataFrame:
        """Return one table of some artifacts, concatenated, without texts."""
        import pandas as pd

        key = refs, table
        if key not in self._kept:
            if len(self._kept) == _KEPT:
                self._kept.popitem(last=False)
            frames = [
                self.store.read(ref.kind, ref.key, table, leave_out=TEXT).to_pandas(use_threads=False)
                for ref in refs
            ]
            self._kept[key] = frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)
        self._kept.move_to_end(key)
        return self._kept[key].copy(deep=False)  # With copy-on-write, a job cannot change what is kept.
