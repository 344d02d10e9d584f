"""Paired comparisons of all cells that compete, such as the calibrators of one (LLM, PRM, data set).

Cells of one data set are resampled alike, so the difference of the bootstrap replicates of two cells is the paired
bootstrap of their difference. p-values are adjusted by Holm's method over the pairs of one group and metric. If the
best value of a metric is 0, the distances from 0 are compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from prmcal.db.metrics import NOT_COMPARED, Metrics
from prmcal.db.statistics.paired import Replicated, comparable, holm, read_replicates, replicated_differences
from prmcal.db.writer import Compared
from prmcal.harness.planning.plan import Cell
from prmcal.harness.storage.store import Store

__all__ = ["compare_groups"]


def compare_groups(cells: Sequence[Cell], store: Store, metrics: Metrics) -> list[Compared]:
    """Compare all pairs within each group of finished cells.

    A group contains the cells of one leaderboard and one (LLM, PRM, data set, conditions): calibrators on the
    calibration leaderboard, strategies with their calibrators on the scaling leaderboard. Pairs that were not resampled
    alike are not compared.

    Returns
    -------
    list of Compared
        One or several for each group and metric.
    """
    groups: dict[tuple[str, ...], list[Cell]] = defaultdict(list)
    for cell in cells:
        if cell.labels.prm:
            labels = cell.labels
            groups[cell.leaderboard, labels.llm, labels.prm, labels.dataset, cell.conditions].append(cell)
    return [
        found
        for group in groups.values()
        if len(group) > 1
        for found in _compare_group(group, store, metrics)
    ]


def _compare_group(cells: Sequence[Cell], store: Store, metrics: Metrics) -> Iterator[Compared]:
    measured: dict[str, dict[str, Replicated]] = defaultdict(dict)
    for cell in cells:
        for metric, each in read_replicates(_artifact(store, cell)).items():
            if metric not in NOT_COMPARED:
                measured[metric][cell.cell_id] = comparable(each, metrics.better(metric))
    for metric, by_cell in measured.items():
        # Cells without some questions, which are too long for the PRM, are not resampled like the others.
        alike: dict[tuple[str, int], list[str]] = defaultdict(list)
        for name, each in by_cell.items():
            alike[each.resampled, len(each.replicates)].append(name)
        families = [names for names in alike.values() if len(names) > 1]
        if families:
            yield from _compare_families(cells[0].leaderboard, metric, families, by_cell)


def _compare_families(
    leaderboard: str, metric: str, families: Sequence[Sequence[str]], by_cell: Mapping[str, Replicated]
) -> Iterator[Compared]:
    """Compare all pairs within each family of cells that were resampled alike."""
    pairs = [np.triu_indices(len(names), 1) for names in families]
    found = [
        replicated_differences([by_cell[name] for name in names], first, second)
        for names, (first, second) in zip(families, pairs, strict=True)
    ]
    adjusted = holm(np.concatenate([each.p_value for each in found]))
    begin = 0
    for names, (first, second), differences in zip(families, pairs, found, strict=True):
        end = begin + len(first)
        yield Compared(
            leaderboard,
            metric,
            [names[place] for place in first],
            [names[place] for place in second],
            differences,
            adjusted[begin:end],
        )
        begin = end


def _artifact(store: Store, cell: Cell) -> Path:
    (shard,) = cell.job.shards
    return store.folder(shard.ref.kind, shard.ref.key)
