"""All cells that compete are compared in pairs, such as the calibrators of one (LLM, PRM, data set).

Cells of one data set have the same resamples, so the difference of the replicates of two cells is the paired bootstrap
of their difference. p-values are adjusted by Holm's method over the pairs of one group and metric. If the best value of
a metric is 0, the distances from 0 are compared.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from prmcal.db.metrics import NOT_COMPARED, Better
from prmcal.db.statistics.paired import Replicated, holm, read_replicates, replicated_differences
from prmcal.db.writer import Values
from prmcal.harness.planning.plan import PlannedCell
from prmcal.harness.storage.store import Store


def compared_cells(
    cells: Sequence[PlannedCell], store: Store, better: Mapping[str, Better | None]
) -> Iterator[Mapping[str, Values]]:
    """Compare all pairs within each group of finished cells, one or several times for each group and metric.

    Strategies that need the truth are limits and no rivals, so `cells` has none.

    A group contains the cells of one leaderboard and one (LLM, PRM, data set): calibrators on the
    calibration leaderboard, strategies with their calibrators on the scaling leaderboard. Pairs with different
    resamples are not compared: for example, cells without some questions, which are too long for the PRM.
    """
    groups: dict[tuple[str, ...], list[PlannedCell]] = defaultdict(list)
    for cell in cells:
        if cell.labels.prm:
            labels = cell.labels
            groups[cell.leaderboard, labels.llm, labels.prm, labels.dataset].append(cell)
    for (leaderboard, *_), group in groups.items():
        measured: dict[str, dict[str, Replicated]] = defaultdict(dict)
        for cell in group if len(group) > 1 else ():
            (ref,) = cell.job.refs
            for metric, replicated in read_replicates(store.folder(ref)).items():
                if metric not in NOT_COMPARED:
                    measured[metric][cell.cell_id] = replicated.comparable(better.get(metric))
        for metric, by_cell in measured.items():
            alike: dict[tuple[str, int], list[str]] = defaultdict(list)
            for name, replicated in by_cell.items():
                alike[replicated.resampled, len(replicated.replicates)].append(name)
            families = [names for names in alike.values() if len(names) > 1]
            if families:
                yield from _compare_families(leaderboard, metric, families, by_cell)


def _compare_families(
    leaderboard: str, metric: str, families: Sequence[Sequence[str]], by_cell: Mapping[str, Replicated]
) -> Iterator[Mapping[str, Values]]:
    pairs = [np.triu_indices(len(names), 1) for names in families]
    differences_of_families = [
        replicated_differences([by_cell[name] for name in names], first, second)
        for names, (first, second) in zip(families, pairs, strict=True)
    ]
    adjusted = holm(np.concatenate([differences.p_value for differences in differences_of_families]))
    begin = 0
    for names, (first, second), differences in zip(families, pairs, differences_of_families, strict=True):
        end = begin + len(first)
        yield {
            "leaderboard": [leaderboard] * len(first),
            "metric": [metric] * len(first),
            "cell_a": [names[position] for position in first],
            "cell_b": [names[position] for position in second],
            **{name: getattr(differences, name) for name in ("difference", "low", "high", "p_value")},
            "p_adjusted": adjusted[begin:end],
            "questions": [differences.questions] * len(first),
        }
        begin = end
