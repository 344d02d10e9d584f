from __future__ import annotations

import pandas as pd
import pytest

from prmcal.errors import DataError
from prmcal.harness.jobs.context import _added_up as added_up


def counts(terminal: list[bool]) -> pd.DataFrame:
    """Two blocks of follow-ups of one prefix, and one of another."""
    return pd.DataFrame(
        {
            "question_id": ["q", "r", "q"],
            "trajectory": [0, 0, 0],
            "step": [1, 1, 1],
            "terminal": terminal,
            "successes": [1, 2, 3],
            "follow_ups": [4, 4, 4],
        }
    )


def test_blocks_of_follow_ups_of_a_prefix_are_added_up() -> None:
    *_, successes, follow_ups = added_up(counts([False, True, False]))
    assert successes.tolist() == [4, 2] and follow_ups.tolist() == [8, 4]


def test_a_prefix_that_is_terminal_and_not_is_refused() -> None:
    with pytest.raises(DataError, match=r"terminal, and others are not\. Delete artifacts/success"):
        added_up(counts([False, True, True]))
