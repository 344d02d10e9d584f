"""Standings and tie groups of a leaderboard, from its paired comparisons."""

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
"""A difference is significant if its p value, after Holm's correction, is below this level."""

_GROUP = ["dataset", "llm", "prm"]


def standings(
    found: pd.DataFrame, compared: pd.DataFrame, better: Mapping[str, str | None]
) -> dict[str, list[str | None]]:
    """Rank every value among those that it competes with.

    Parameters
    ----------
    found : DataFrame
        One row per value, with the columns dataset, llm, prm, cell_id, metric and value.
    compared : DataFrame
        Columns metric, cell_a, cell_b and p_adjusted. A missing p value means that the comparison was not possible.
    better : mapping of str to {"lower", "higher", "near zero", None}
        Which value of a metric wins. With None, its values have no standing.

    Returns
    -------
    dict
        "standing" and "letters", each with an entry per row, as described in
        :func:`prmcal.db.queries.leaderboard.measurements`.
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
    """Give letters to cells, such that two cells share a letter unless they differ significantly.

    A letter stands for a maximal set of cells without a significant difference, and "a" for a set with the best cell
    (Piepho, 2004, "An algorithm for a letter-based representation of all-pairwise comparisons"). Ties are not
    transitive: the best cell may tie with two cells that differ, and then has two letters.

    Parameters
    ----------
    cells : sequence of str
        The cells, the best first.
    distinct : set of frozenset of two str
        Pairs that differ significantly.

    Returns
    -------
    dict
        The letters of each cell, in alphabetical order. Empty if the alphabet is too short.
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
    """Return the worst cell of each group, if it is significantly worse than the best.

    Parameters
    ----------
    table : DataFrame
        As :func:`prmcal.db.queries.leaderboard.leaderboard` returns it.
    metric : str
        A metric of the leaderboard.
    wins : {"lower", "higher", "near zero"} or None
        Which value of the metric wins. With None, the result is empty.
    """
    if wins is None:
        return set()
    worse = table[table[f"{metric}_standing"] == "worse"]
    groups = worse[["cell_id", *_GROUP]].assign(value=worse[metric]).groupby(_GROUP, dropna=False)
    return {list(_by_merit(group, wins))[-1] for _, group in groups}


def merit(value: pd.Series, wins: str) -> pd.Series:
    """Return values by which larger is better."""
    return {"lower": -value, "higher": value, "near zero": -value.abs()}[wins]


def _by_merit(group: pd.DataFrame, wins: str) -> dict[str, Any]:
    """Return the row of each cell of a group, the best first. Ties are ordered by the cell's id."""
    merits = -merit(group["value"], wins)
    ordered = sorted(zip(merits, group["cell_id"], group.index, strict=True), key=lambda row: row[:2])
    return {cell: row for _, cell, row in ordered}
