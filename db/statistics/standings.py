"""Who is best, who ties and who differs: standings and tie groups from the paired comparisons of a leaderboard."""

from __future__ import annotations

import string
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from itertools import combinations
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SIGNIFICANCE", "last_places", "merit", "standings", "tie_letters"]

SIGNIFICANCE = 0.05
"""A difference is called real if its p value, after Holm's correction, is below this."""

_GROUP = ["dataset", "llm", "prm"]


def standings(
    found: pd.DataFrame, compared: pd.DataFrame, better: Mapping[str, str | None]
) -> dict[str, list[str | None]]:
    """Say where every value stands among those that it competes with.

    Parameters
    ----------
    found : DataFrame
        One row per value, with the columns dataset, llm, prm, cell_id, metric and value.
    compared : DataFrame
        Columns metric, cell_a, cell_b, p_adjusted; a missing p value is a comparison that could not be made.
    better : mapping of str to {"lower", "higher", "near zero", None}
        Which value of a metric wins; nothing stands anywhere where it is None.

    Returns
    -------
    dict
        "standing" and "letters", each with an entry per row: as in :func:`prmcal.db.queries.leaderboard.measurements`.
    """
    adjusted: dict[str, dict[frozenset[str], float]] = defaultdict(dict)
    for metric, a, b, p_value in compared[["metric", "cell_a", "cell_b", "p_adjusted"]].itertuples(
        index=False
    ):
        if p_value == p_value:  # NaN: too few questions to compare
            adjusted[metric][frozenset((a, b))] = p_value
    standing: dict[Any, str] = {}
    letters: dict[Any, str] = {}
    for _, group in found.dropna(subset=["metric", "value"]).groupby([*_GROUP, "metric"], dropna=False):
        metric = group["metric"].iloc[0]
        wins = better.get(metric)
        if wins is None:
            continue
        row_of = _by_merit(group, wins)
        made = (pair for pair in map(frozenset, combinations(row_of, 2)) if pair in adjusted[metric])
        real = {pair: adjusted[metric][pair] < SIGNIFICANCE for pair in made}
        best, *others = row_of
        for cell in others:
            if (pair := frozenset((best, cell))) in real:
                standing[row_of[cell]] = "worse" if real[pair] else "tied"
                standing[row_of[best]] = "best"
        competing = [cell for cell in row_of if any(cell in pair for pair in real)]
        given = tie_letters(competing, {pair for pair in real if real[pair]})
        letters |= {row_of[cell]: each for cell, each in given.items()}
    return {
        "standing": [standing.get(row) for row in found.index],
        "letters": [letters.get(row) for row in found.index],
    }


def tie_letters(cells: Sequence[str], distinct: Set[frozenset[str]]) -> dict[str, str]:
    """Give cells letters, so that two cells share one where no real difference between them was found.

    A letter stands for a largest set of cells none of which differ; "a" holds the best (Piepho, 2004, An
    algorithm for a letter-based representation of all-pairwise comparisons). Ties are not transitive: the best may
    tie with two cells that differ, and then has two letters.

    Parameters
    ----------
    cells : sequence of str
        From the best to the worst.
    distinct : set of frozenset of two str
        Pairs whose difference is real.

    Returns
    -------
    dict
        The letters of each cell, in the order of the alphabet. Empty where they do not suffice.
    """
    sets = [frozenset(cells)] if cells else []
    for pair in sorted(distinct, key=sorted):
        parts = [each - {cell} for each in sets if pair <= each for cell in pair]
        kept = [each for each in sets if not pair <= each]
        wider = [*kept, *parts]
        sets = kept + [
            part
            for part in dict.fromkeys(parts)
            if part not in kept and not any(part < other for other in wider)
        ]
        if len(sets) > len(string.ascii_letters):
            return {}
    place = {cell: index for index, cell in enumerate(cells)}
    sets.sort(key=lambda each: sorted(place[cell] for cell in each))
    named = list(zip(string.ascii_letters, sets, strict=False))
    return {cell: "".join(letter for letter, each in named if cell in each) for cell in cells}


def last_places(table: pd.DataFrame, metric: str, wins: str | None) -> set[str]:
    """Return the cells that are the worst of their group, where the difference to its best is real.

    Parameters
    ----------
    table : DataFrame
        As :func:`prmcal.db.queries.leaderboard.leaderboard` returns it.
    metric : str
        One of its metrics.
    wins : {"lower", "higher", "near zero"} or None
        Which value of it wins; no place is the last where it is None.
    """
    if wins is None:
        return set()
    worse = table[table[f"{metric}_standing"] == "worse"]
    groups = worse[["cell_id", *_GROUP]].assign(value=worse[metric]).groupby(_GROUP, dropna=False)
    return {list(_by_merit(group, wins))[-1] for _, group in groups}


def merit(value: pd.Series, wins: str) -> pd.Series:
    """How good values are, the better the higher."""
    return {"lower": -value, "higher": value, "near zero": -value.abs()}[wins]


def _by_merit(group: pd.DataFrame, wins: str) -> dict[str, Any]:
    """The rows of a group by cell, the best first; of equals the first by name."""
    merits = -merit(group["value"], wins)
    ordered = sorted(zip(merits, group["cell_id"], group.index, strict=True), key=lambda row: row[:2])
    return {cell: row for _, cell, row in ordered}
