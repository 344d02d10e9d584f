"""Replicates: cells of a merged leaderboard that are equal in all but the seed, and how far their values spread."""

from __future__ import annotations

import math
import statistics
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from prmcal.db.tables import SeedSpread
from prmcal.db.tables.base import Base
from prmcal.harness.merging.naming.namespaces import Namespace
from prmcal.harness.merging.submissions.conditions import SEED, compatible
from prmcal.harness.merging.union import MergedCell, Union
from prmcal.harness.storage.store import Store

__all__ = ["replicates_in", "seed_spreads"]


def replicates_in(union: Union) -> list[list[MergedCell]]:
    """Return the groups of cells that are equal in all but the seed.

    Cells that contradict an earlier submission are not among them, because they are no further measurement.
    """
    groups: dict[tuple[Namespace, str], list[MergedCell]] = {}
    alike: dict[Namespace, Namespace] = {}
    for namespaces in union.namespaces.values():
        alike |= _alike_but_seed(namespaces)
    for merged in union.cells.values():
        first = alike.get(merged.namespace)
        if first is not None and not merged.in_conflict:
            groups.setdefault((first, merged.without_namespace), []).append(merged)
    return [cells for cells in groups.values() if len(cells) > 1]


def seed_spreads(union: Union, store: Store, intact: Container[str]) -> list[Base]:
    """Return the spread of each value between cells that are equal in all but the seed.

    `intact` are the ids of the cells whose artifacts can be read.
    """
    found: list[Base] = []
    for cells in replicates_in(union):
        readable = [each for each in cells if each.cell.cell_id in intact]
        if len(readable) > 1:
            found.extend(_spreads(readable, store))
    return found


def _alike_but_seed(namespaces: Sequence[Namespace]) -> dict[Namespace, Namespace]:
    """Return for each namespace of a leaderboard the first one that differs from it in the seed at most."""
    found: dict[Namespace, Namespace] = {}
    groups: list[tuple[Namespace, Mapping[str, Any], set[Any]]] = []
    for space in namespaces:
        if SEED not in space.conditions:
            continue
        others = {
            name: value for name, value in {**space.conditions, **space.further}.items() if name != SEED
        }
        seed = space.conditions[SEED]
        for first, conditions, seeds in groups:
            if compatible(others, conditions) and seed not in seeds:
                seeds.add(seed)
                found[space] = first
                break
        else:
            groups.append((space, others, {seed}))
            found[space] = space
    return found


def _spreads(cells: Sequence[MergedCell], store: Store) -> Iterator[SeedSpread]:
    values: dict[str, list[float]] = {}
    for merged in cells:
        for metric, value in _values(merged, store):
            values.setdefault(metric, []).append(value)
    for metric, measured in values.items():
        if len(measured) == len(cells):
            for merged in cells:
                yield SeedSpread(
                    cell_id=merged.cell.cell_id,
                    metric=metric,
                    seeds=len(measured),
                    mean=statistics.fmean(measured),
                    standard_deviation=statistics.stdev(measured),
                    lowest=min(measured),
                    highest=max(measured),
                )


def _values(merged: MergedCell, store: Store) -> Iterable[tuple[str, float]]:
    """Return the values of a cell over all questions, by metric."""
    for ref in merged.cell.job.refs:
        table = store.read(ref.kind, ref.key, "results")
        rows = table.select(["metric", "question_level", "value"]).to_pylist()
        yield from (
            (row["metric"], row["value"])
            for row in rows
            if row["question_level"] is None and math.isfinite(row["value"])
        )
