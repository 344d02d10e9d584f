"""Tie groups: letters that say which cells of a leaderboard are distinguishable."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from prmcal.db.metrics import SCALING, Metric, Metrics
from prmcal.db.statistics.paired import standings, tie_letters

BRIER = Metrics([Metric("brier", "Brier score", "calibration", "lower", "")])


def letters_of(cells: Sequence[str], distinct: Iterable[frozenset[str]]) -> dict[str, str]:
    pairs = (sorted(map(cells.index, pair)) for pair in distinct)
    return dict(zip(cells, tie_letters(len(cells), frozenset((a, b) for a, b in pairs)), strict=False))


def differing(*pairs: str) -> set[frozenset[str]]:
    return {frozenset(pair) for pair in pairs}


@st.composite
def families(draw: st.DrawFn) -> tuple[list[str], set[frozenset[str]]]:
    cells = list("ABCDEFG"[: draw(st.integers(1, 7))])
    pairs = [frozenset(pair) for pair in combinations(cells, 2)]
    return cells, draw(st.sets(st.sampled_from(pairs))) if pairs else set()


@settings(deadline=None)
@given(families())
def test_cells_share_a_letter_exactly_where_no_difference_is_real(
    family: tuple[list[str], set[frozenset[str]]],
) -> None:
    cells, distinct = family
    letters = letters_of(cells, distinct)
    assert list(letters) == cells
    assert letters[cells[0]].startswith("a")
    for first, second in combinations(cells, 2):
        shared = set(letters[first]) & set(letters[second])
        assert bool(shared) == (frozenset((first, second)) not in distinct)


@settings(deadline=None)
@given(families(), st.lists(st.integers(0, 20), min_size=1, max_size=7), st.integers(0, 20))
def test_no_letter_could_have_another_cell(
    family: tuple[list[str], set[frozenset[str]]], values: list[int], least: int
) -> None:
    # Values that differ from a distance on have letters for runs of them, and other families for any sets.
    places = dict(zip("ABCDEFG", sorted(values), strict=False))
    far = {
        frozenset(pair) for pair in combinations(places, 2) if abs(places[pair[0]] - places[pair[1]]) > least
    }
    for cells, distinct in (family, (list(places), far)):
        letters = letters_of(cells, distinct)
        sets = [
            {cell for cell in cells if letter in letters[cell]} for letter in set("".join(letters.values()))
        ]
        assert len(set(map(frozenset, sets))) == len(sets)
        for own in sets:
            others = [cell for cell in cells if cell not in own]
            assert all(any(frozenset((cell, each)) in distinct for each in own) for cell in others)


def test_letters_follow_the_order() -> None:
    assert letters_of("BA", set()) == {"B": "a", "A": "a"}
    assert letters_of("ABCD", differing("AC", "AD", "BC", "BD")) == {"A": "a", "B": "a", "C": "b", "D": "b"}
    # A ties with B and B with C, but A and C differ.
    assert letters_of("ABC", differing("AC")) == {"A": "a", "B": "ab", "C": "b"}
    # The best is too noisy to differ from anything, the next two are not.
    assert letters_of("ABC", differing("BC")) == {"A": "ab", "B": "a", "C": "b"}


def test_a_family_that_the_alphabet_does_not_suffice_for_has_no_letters() -> None:
    cells = [f"cell-{number:02}" for number in range(60)]
    assert letters_of(cells, {frozenset(pair) for pair in combinations(cells, 2)}) == {}


def measured(values: dict[str, float], metric: str = "brier") -> pd.DataFrame:
    here = {"dataset": "d", "llm": "l", "prm": "p", "metric": metric}
    return pd.DataFrame([{**here, "cell_id": cell, "value": value} for cell, value in values.items()])


def compared(p_adjusted: dict[str, float], metric: str = "brier") -> pd.DataFrame:
    rows = [(metric, pair[0], pair[1], p) for pair, p in p_adjusted.items()]
    return pd.DataFrame(rows, columns=["metric", "cell_a", "cell_b", "p_adjusted"])


@settings(deadline=None)
@given(st.lists(st.floats(0, 0.2), min_size=6, max_size=6), st.permutations([0.1, 0.2, 0.3, 0.4]))
def test_what_shares_a_letter_with_the_best_is_tied_and_nothing_else_is(
    p_values: list[float], values: list[float]
) -> None:
    found = measured(dict(zip("ABCD", values, strict=True)))
    pairs = ["".join(pair) for pair in combinations("ABCD", 2)]
    stands = standings(found, compared(dict(zip(pairs, p_values, strict=True))), BRIER)
    best = stands["standing"].index("best")
    assert values[best] == 0.1
    for standing, letters in zip(stands["standing"], stands["letters"], strict=True):
        assert letters is not None
        assert (standing == "worse") == (not set(letters) & set(stands["letters"][best] or ""))


def test_what_was_not_compared_has_neither_standing_nor_letters() -> None:
    found = measured({"A": 0.1, "B": 0.2, "C": 0.3})
    stands = standings(found, compared({"AB": 0.01, "AC": math.nan, "BC": math.nan}), BRIER)
    assert stands == {"standing": ["best", "worse", None], "letters": ["a", "b", None]}


def test_a_metric_without_a_better_value_has_no_order() -> None:
    found = measured({"A": 0.1, "B": 0.2}, "budget_ratio")
    stands = standings(found, compared({"AB": 0.01}, "budget_ratio"), Metrics(SCALING))
    assert stands == {"standing": [None, None], "letters": [None, None]}


def test_groups_do_not_mix() -> None:
    other = measured({"C": 0.4, "D": 0.1}).assign(llm="other")
    found = pd.concat([measured({"A": 0.1, "B": 0.2}), other], ignore_index=True)
    stands = standings(found, compared({"AB": 0.01, "CD": 0.5, "AC": 0.001}), BRIER)
    assert stands["standing"] == ["best", "worse", "tied", "best"]
    assert stands["letters"] == ["a", "b", "a", "a"]
