"""Paired comparisons of all cells that compete, such as the calibrators of one (LLM, PRM, data set).

Cells of one data set are resampled alike, so the difference of the bootstrap replicates of two cells is the paired
bootstrap of their difference. p-values are adjusted by Holm's method over the pairs of one group and metric. If the
best value of a metric is 0, the distances from 0 are compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from prmcal.db.metrics import NOT_COMPARED, Metrics
from prmcal.db.replicates import comparable, read_replicates
from prmcal.db.statistics.paired_differences import holm, replicated_difference
from prmcal.db.tables import Comparison
from prmcal.harness.planning.plan import Cell
from prmcal.harness.storage.store import Store

__all__ = ["compare_groups"]


def compare_groups(cells: Sequence[Cell], store: Store, metrics: Metrics) -> list[Comparison]:
    """Compare all pairs within each group of finished cells.

    A group contains the cells of one leaderboard and one (LLM, PRM, data set): calibrators on the calibration
    leaderboard, strategies with their calibrators on the scaling leaderboard.

    Returns
    -------
    list of Comparison
        One row for each metric and pair that was resampled alike.
    """
    groups: dict[tuple[str, ...], list[Cell]] = defaultdict(list)
    for cell in cells:
        if cell.labels.prm:
            groups[cell.leaderboard, cell.labels.llm, cell.labels.prm, cell.labels.dataset].append(cell)
    return [
        row for group in groups.values() if len(group) > 1 for row in _compare_group(group, store, metrics)
    ]


def _compare_group(cells: Sequence[Cell], store: Store, metrics: Metrics) -> list[Comparison]:
    measured = {
        cell.cell_id: {
            name: comparable(each, metrics.better(name))
            for name, each in read_replicates(_artifact(store, cell)).items()
            if name not in NOT_COMPARED
        }
        for cell in cells
    }
    rows: list[Comparison] = []
    for metric in dict.fromkeys(metric for each in measured.values() for metric in each):
        names = [name for name, each in measured.items() if metric in each]
        # Cells without some questions, which are too long for the PRM, are not resampled like the others.
        pairs = [
            (a, b)
            for a, b in combinations(names, 2)
            if measured[a][metric].resampled == measured[b][metric].resampled
        ]
        compared = [replicated_difference(measured[a][metric], measured[b][metric]) for a, b in pairs]
        adjusted = holm([each.p_value for each in compared])
        rows += [
            Comparison(
                leaderboard=cells[0].leaderboard,
                metric=metric,
                cell_a=first,
                cell_b=second,
                p_adjusted=float(p_adjusted),
                **vars(each),
            )
            for (first, second), each, p_adjusted in zip(pairs, compared, adjusted, strict=True)
        ]
    return rows


def _artifact(store: Store, cell: Cell) -> Path:
    (shard,) = cell.job.shards
    return store.folder(shard.ref.kind, shard.ref.key)
