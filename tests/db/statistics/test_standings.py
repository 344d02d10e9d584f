"""Standings: which cells of a leaderboard are the best, tied with it, or worse."""

from __future__ import annotations

import math
from itertools import combinations

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from prmcal.db.metrics import SCALING, MetricColumn, Metrics
from prmcal.db.statistics.paired import standings

BRIER = Metrics([MetricColumn("brier", "Brier score", "calibration", "lower", "")])


def measured(values: dict[str, float], metric: str = "brier") -> pd.DataFrame:
    here = {"dataset": "d", "llm": "l", "prm": "p", "metric": metric}
    return pd.DataFrame([{**here, "cell_id": cell, "value": value} for cell, value in values.items()])


def compared(p_adjusted: dict[str, float], metric: str = "brier") -> pd.DataFrame:
    rows = [(metric, pair[0], pair[1], p) for pair, p in p_adjusted.items()]
    return pd.DataFrame(rows, columns=["metric", "cell_a", "cell_b", "p_adjusted"])


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(0, 0.2), min_size=6, max_size=6), st.permutations([0.1, 0.2, 0.3, 0.4]))
def test_what_differs_from_the_best_is_worse_and_the_others_are_tied(
    p_values: list[float], values: list[float]
) -> None:
    found = measured(dict(zip("ABCD", values, strict=True)))
    pairs = ["".join(pair) for pair in combinations("ABCD", 2)]
    stands = standings(found, compared(dict(zip(pairs, p_values, strict=True))), BRIER)
    best = stands.index("best")
    assert values[best] == 0.1
    adjusted = dict(zip(pairs, p_values, strict=True))
    for name, standing in zip("ABCD", stands, strict=True):
        if standing != "best":
            real = adjusted["".join(sorted((name, "ABCD"[best])))] < 0.05
            assert standing == ("worse" if real else "tied")


def test_what_was_not_compared_has_no_standing() -> None:
    found = measured({"A": 0.1, "B": 0.2, "C": 0.3})
    stands = standings(found, compared({"AB": 0.01, "AC": math.nan, "BC": math.nan}), BRIER)
    assert stands == ["best", "worse", None]


def test_a_metric_without_a_better_value_has_no_order() -> None:
    found = measured({"A": 0.1, "B": 0.2}, "budget_ratio")
    stands = standings(found, compared({"AB": 0.01}, "budget_ratio"), Metrics(SCALING))
    assert stands == [None, None]


def test_groups_do_not_mix() -> None:
    other = measured({"C": 0.4, "D": 0.1}).assign(llm="other")
    found = pd.concat([measured({"A": 0.1, "B": 0.2}), other], ignore_index=True)
    stands = standings(found, compared({"AB": 0.01, "CD": 0.5, "AC": 0.001}), BRIER)
    assert stands == ["best", "worse", "tied", "best"]
