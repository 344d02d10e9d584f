"""How the contents of an artifact differ that contradict each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from prmcal.harness.merging.submissions.places import suffixed
from prmcal.harness.merging.submissions.submitted import Submitted
from prmcal.harness.merging.union import Union
from prmcal.harness.storage.store import ArtifactRef, Store

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Conflict", "TableDifference", "conflicts_in"]


@dataclass(frozen=True)
class TableDifference:
    """How two tables of one artifact differ.

    Attributes
    ----------
    table : str
        The name of the file.
    rows : int
        The rows that differ; all rows of the larger table if their numbers differ or the table cannot be compared.
    of : int
        The rows of the larger table.
    most : float or None
        The largest absolute difference of a number; None if no number differs.
    column : str
        The column with this difference; empty if there is none.
    """

    table: str
    rows: int
    of: int
    most: float | None
    column: str


@dataclass(frozen=True)
class Conflict:
    """An artifact with several contents.

    Attributes
    ----------
    ref : ArtifactRef
    what : str
        The job that it belongs to, in words.
    submissions : tuple of tuple of Submitted
        The submissions with each content, in their order.
    differences : tuple of TableDifference
        How the first two contents differ. Empty if only files without rows differ.
    behind : int
        How many other artifacts differ that were computed from it.
    """

    ref: ArtifactRef
    what: str
    submissions: tuple[tuple[Submitted, ...], ...]
    differences: tuple[TableDifference, ...]
    behind: int


def conflicts_in(union: Union, store: Store) -> list[Conflict]:
    """Return the conflicts between submissions that do not follow from other conflicts."""
    inputs: dict[ArtifactRef, set[ArtifactRef]] = {}
    what: dict[ArtifactRef, str] = {}
    for submission in union.submissions:
        for job in submission.plan.jobs:
            for shard in job.shards:
                if shard.ref in union.conflicts:
                    what.setdefault(shard.ref, str(job))
                    read = {ref for refs in shard.inputs.values() for ref in refs}
                    inputs.setdefault(shard.ref, set()).update(read & union.conflicts.keys())
    first = sorted((ref for ref in inputs if not inputs[ref]), key=lambda ref: (ref.kind, what[ref], ref.key))
    return [_conflict(ref, what[ref], union, store, _behind(ref, inputs)) for ref in first]


def _behind(ref: ArtifactRef, inputs: dict[ArtifactRef, set[ArtifactRef]]) -> int:
    found = {ref}
    while True:
        more = {each for each, read in inputs.items() if each not in found and read & found}
        if not more:
            return len(found) - 1
        found |= more


def _conflict(ref: ArtifactRef, what: str, union: Union, store: Store, behind: int) -> Conflict:
    by_content: dict[str, list[Submitted]] = {}
    for each in union.submissions:
        if ref in each.contents:
            by_content.setdefault(each.contents[ref], []).append(each)
    places = [suffixed(ref, content) for content in list(by_content)[:2]]
    folders = [store.folder(place.kind, place.key) for place in places]
    return Conflict(ref, what, tuple(map(tuple, by_content.values())), tuple(_differences(folders)), behind)


def _differences(folders: Sequence[Path]) -> list[TableDifference]:
    import pyarrow.parquet as parquet

    first, other = folders
    names = {path.name for path in first.glob("*.parquet")} & {path.name for path in other.glob("*.parquet")}
    found = [
        _difference(name, parquet.read_table(first / name), parquet.read_table(other / name))
        for name in sorted(names)
    ]
    return [each for each in found if each.rows]


def _difference(name: str, first: pa.Table, other: pa.Table) -> TableDifference:
    import numpy as np

    longer = max(first.num_rows, other.num_rows)
    shared = [column for column in first.column_names if column in other.column_names]
    if first.num_rows != other.num_rows:
        return TableDifference(name, longer, longer, None, "")
    rows = np.zeros(longer, dtype=bool)
    most: tuple[float | None, str] = (None, "")
    for column in shared:
        a = first[column].to_pandas().to_numpy()
        b = other[column].to_pandas().to_numpy()
        if a.dtype.kind in "fiu" and b.dtype.kind in "fiu":
            a, b = a.astype(float), b.astype(float)
            apart = ~((a == b) | (np.isnan(a) & np.isnan(b)))
            size = np.nanmax(np.abs(a - b)[apart], initial=0.0)
            if size > (most[0] or 0.0):
                most = (float(size), column)
        else:
            apart = (a != b) & ~((a == None) & (b == None))  # noqa: E711
        rows |= apart
    return TableDifference(name, int(rows.sum()), longer, *most)
