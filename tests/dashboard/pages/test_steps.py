from __future__ import annotations

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from prmcal.dashboard.charts.trajectory import step_table, step_texts
from prmcal.db.statistics.budgets import whole_samples_needed
from prmcal.registry.strategies.scaling import adaptive_samples
from prmcal.steps import split_steps


@given(st.lists(st.floats(0, 1), min_size=1), st.sampled_from((0.5, 0.9, 0.99, 0.999)))
def test_budgets_equal_those_of_the_strategies(chances: list[float], target: float) -> None:
    assert whole_samples_needed(chances, target).tolist() == adaptive_samples(chances, target, 10**9).tolist()


@given(st.text(alphabet="ab \n"))
def test_steps_equal_those_that_the_prm_scored(text: str) -> None:
    steps = split_steps(text)
    if steps:
        assert tuple(step_texts(text, len(steps))) == steps


def test_a_text_with_another_number_of_steps_is_not_split() -> None:
    assert step_texts("a\n\nb", 3) == ["", "", "a\n\nb"]


def test_a_table_has_a_row_for_each_prefix() -> None:
    prefixes = pd.DataFrame(
        {
            "trajectory": [0, 0, 0, 0, 1],
            "step": [0, 0, 0, 1, 0],
            "reward": [0.9, 0.9, 0.9, 0.5, 0.9],
            "over_long": False,
            "successes": pd.array([2, 2, 2, 8, None], dtype="Int64"),
            "follow_ups": pd.array([8, 8, 8, 8, None], dtype="Int64"),
            "terminal": pd.array([False, False, False, True, None], dtype="boolean"),
            "level": [0.1, 0.5, 0.9, np.nan, np.nan],
            "calibrated_reward": [0.1, 0.3, 0.6, np.nan, np.nan],
        }
    )
    first, last = step_table(prefixes, 0).to_dict("records")
    assert [first[name] for name in ("calibrated", "band_low", "band_high")] == [0.3, 0.1, 0.6]
    assert first["success"] == 0.25
    assert 0.03 < first["low"] < 0.25 < first["high"] < 0.7
    assert (last["low"], last["success"], last["high"]) == (1, 1, 1)
    assert np.isnan(last["calibrated"])
    (unmeasured,) = step_table(prefixes, 1).to_dict("records")
    assert np.isnan([unmeasured[name] for name in ("success", "low", "high")]).all()
