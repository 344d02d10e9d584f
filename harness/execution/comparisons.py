"""Which differences are real: calibrators of one (LLM, PRM, data set) compared pair by pair.

Cells of one data set are resampled alike, so that the difference of two cells' bootstrap replicates is the paired
bootstrap of their difference. p-values are adjusted by Holm over the pairs of one group and metric. Where the best
value is 0, the cells' distances from 0 are compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from prmcal.db.queries.leaderboard import COSTS
from prmcal.db.queries.replicates import comparable, replicated
from prmcal.db.statistics.paired import compare_replicates, holm
from prmcal.db.tables import Comparison
from prmcal.harness.planning.plan import Cell
from prmcal.harness.storage.store import Store

__all__ = ["compare_cells"]


def compare_cells(cells: Sequence[Cell], store: Store) -> list[Comparison]:
    """Compare all pairs within each group of finished cells.

    A group holds what competes: on the calibration leaderboard the calibrators of one (LLM, PRM, data set); on the
    scaling leaderboard fixed best-of-n and every best-of-n + IAS of one (LLM, PRM, data set).
    """
    groups: dict[tuple[str, ...], list[Cell]] = defaultdict(list)
    for cell in cells:
        if cell.labels.prm:
            groups[cell.leaderboard, cell.labels.llm, cell.labels.prm, cell.labels.dataset].append(cell)
    return [row for group in groups.values() if len(group) > 1 for row in _compare_group(group, store)]


def _compare_group(cells: Sequence[Cell], store: Store) -> list[Comparison]:
    measured = {
        cell.cell_id: {
            name: comparable(name, each)
            for name, each in replicated(_artifact(store, cell)).items()
            if name not in COSTS
        }
        for cell in cells
    }
    rows: list[Comparison] = []
    for metric in dict.fromkeys(metric for each in measured.values() for metric in each):
        names = [name for name, each in measured.items() if metric in each]
        # Cells that lost different questions (too long for the PRM) were not resampled alike.
        pairs = [
            (a, b)
            for a, b in combinations(names, 2)
            if measured[a][metric].resampled == measured[b][metric].resampled
        ]
        compared = [compare_replicates(measured[a][metric], measured[b][metric]) for a, b in pairs]
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
