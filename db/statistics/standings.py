"""Standings and tie groups of a leaderboard, from its paired comparisons."""

from __future__ import annotations

import string
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import combinations, islice
from typing import TYPE_CHECKING

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
    real = _real_differences(compared)
    standing: list[str | None] = [None] * len(found)
    letters: list[str | None] = [None] * len(found)
    for metric, rows in _groups(found, better):
        row_of = {cell: row for row, cell in rows}
        differs = {cell: real[metric, cell] for cell in row_of}
        best, *others = row_of
        for cell in others:
            if cell in differs[best]:
                standing[row_of[cell]] = "worse" if differs[best][cell] else "tied"
                standing[row_of[best]] = "best"
        competing = [cell for cell in row_of if not differs[cell].keys().isdisjoint(row_of)]
        distinct = {frozenset((a, b)) for a, b in combinations(competing, 2) if differs[a].get(b)}
        for cell, each in tie_letters(competing, distinct).items():
            letters[row_of[cell]] = each
    return {"standing": standing, "letters": letters}


def _real_differences(compared: pd.DataFrame) -> dict[tuple[str, str], dict[str, bool]]:
    """Return the cells that each cell was compared with in a metric, and whether the difference is significant."""
    real: dict[tuple[str, str], dict[str, bool]] = defaultdict(dict)
    columns = (compared[name].tolist() for name in ("metric", "cell_a", "cell_b", "p_adjusted"))
    for metric, a, b, p_value in zip(*columns, strict=True):
        if p_value is not None and p_value == p_value:  # NaN: too few questions to compare
            real[metric, a][b] = real[metric, b][a] = p_value < SIGNIFICANCE
    return real


def _groups(
    found: pd.DataFrame, better: Mapping[str, str | None]
) -> Iterator[tuple[str, list[tuple[int, str]]]]:
    """Yield each metric with the rows and cells that compete in a group, the best first. Ties are ordered by cell."""
    import numpy as np

    for metric, wins in better.items():
        rows = np.flatnonzero((found["metric"] == metric) & found["value"].notna())
        if wins is None or not len(rows):
            continue
        own = found.iloc[rows]
        group = own.groupby(_GROUP, dropna=False).ngroup().to_numpy()
        cells = own["cell_id"].to_numpy(dtype=object)
        order = np.lexsort((cells, -merit(own["value"].astype(float), wins).to_numpy(), group))
        starts = np.flatnonzero(np.diff(group[order])) + 1
        for members in np.split(order, starts):
            yield metric, list(zip(rows[members].tolist(), cells[members].tolist(), strict=True))


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
    place = {cell: index for index, cell in enumerate(cells)}
    # A set of cells is an integer with a bit for each cell.
    everyone = (1 << len(cells)) - 1
    ties = [everyone & ~(1 << index) for index in range(len(cells))]
    for pair in distinct:
        first, second = (place[cell] for cell in pair)
        ties[first] &= ~(1 << second)
        ties[second] &= ~(1 << first)
    sets = list(islice(_maximal_sets(ties, everyone), len(string.ascii_letters) + 1)) if cells else []
    if len(sets) > len(string.ascii_letters):
        return {}
    members = sorted([index for index in range(len(cells)) if each >> index & 1] for each in sets)
    letters: dict[str, str] = dict.fromkeys(cells, "")
    for letter, places in zip(string.ascii_letters, members, strict=False):
        for index in places:
            letters[cells[index]] += letter
    return letters


def _maximal_sets(ties: Sequence[int], everyone: int) -> Iterator[int]:
    """Yield all maximal sets of cells that tie with each other (Bron and Kerbosch, 1973, with pivots).

    `ties` has a set for each cell: those that it ties with, without itself.
    """
    waiting = [
        (0, everyone, 0)
    ]  # the cells of a set, those that may join it, and those whose sets were found before
    while waiting:
        chosen, left, before = waiting.pop()
        if not left and not before:
            yield chosen
        if not left:
            continue
        pivot = max(_bits(left | before), key=lambda cell: (left & ties[cell]).bit_count())
        for cell in _bits(left & ~ties[pivot]):
            waiting.append((chosen | 1 << cell, left & ties[cell], before & ties[cell]))
            left &= ~(1 << cell)
            before |= 1 << cell


def _bits(cells: int) -> list[int]:
    return [index for index in range(cells.bit_length()) if cells >> index & 1]


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
    places = worse[["cell_id", *_GROUP]].assign(merit=merit(worse[metric].astype(float), wins))
    places = places.sort_values(["merit", "cell_id"], ascending=[True, False])
    return set(places.drop_duplicates(_GROUP)["cell_id"])


def merit(value: pd.Series, wins: str) -> pd.Series:
    """Return values by which larger is better."""
    return {"lower": -value, "higher": value, "near zero": -value.abs()}[wins]
