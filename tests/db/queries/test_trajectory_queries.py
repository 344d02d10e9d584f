from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prmcal.db import catalog
from prmcal.db.metrics import cell_id
from prmcal.db.queries.runs import jobs_of
from prmcal.db.reader import reading
from prmcal.errors import UnknownCellError
from tests.db import factory

CELL = cell_id("calibration", "weak", "nano-math", prm="qwen", calibrator="isotonic")
JUDGED = """
    SELECT question_id, trajectory, step, s.terminal, s.successes / s.follow_ups AS success, r.reward,
        c.reward AS calibrated_reward
    FROM successes s JOIN rewards r USING (question_id, trajectory, step)
    JOIN calibrated_rewards c USING (question_id, trajectory, step)
    WHERE s.job_key = 'success-weak-nano-math' AND r.job_key = 'score-weak-nano-math'
    AND c.job_key = 'calibrated-weak-isotonic-nano-math'
"""


def test_solutions_have_their_mean_errors_over_the_prefixes_that_count(published: Path) -> None:
    found = catalog.solutions(published, CELL)
    assert found["repaired"].is_monotonic_decreasing, "those come first of which calibration repairs most"
    assert found["repaired"].tolist() == pytest.approx((found["before"] - found["after"]).tolist())
    errors = ("reward - success", "calibrated_reward - success")
    means = ", ".join(f"avg({each})" for each in (*errors, *(f"abs({error})" for error in errors)))
    with reading(published) as connection:
        expected = connection.exec_driver_sql(
            f"SELECT question_id, trajectory, count(*), {means} FROM ({JUDGED}) "
            "WHERE NOT terminal GROUP BY ALL ORDER BY ALL"
        ).all()
        right = connection.exec_driver_sql(
            "SELECT question_id, trajectory FROM trajectories WHERE correct AND job_key LIKE '%weak-nano-math'"
        ).all()
    columns = ["prefixes", "reward_error", "calibrated_error", "before", "after"]
    rows = found.set_index(["question_id", "trajectory"]).sort_index()
    assert list(rows.index) == [tuple(row[:2]) for row in expected]
    assert [tuple(row) for row in rows[columns].to_numpy()] == [pytest.approx(row[2:]) for row in expected]
    assert set(rows.index[rows["correct"]]) == {tuple(row) for row in right} & set(rows.index)


def test_a_scaling_cell_leads_to_the_rewards_that_it_rests_on(published: Path) -> None:
    named: dict[str, Any] = {"prm": "qwen", "calibrator": "temperature"}
    scaled = cell_id("scaling", "weak", "nano-math", **named, strategy="best-of-n + IAS", target=0.99, level=0.1)
    pass_at_1 = cell_id("scaling", "weak", "nano-math", strategy="pass@1")
    with reading(published) as connection:
        for other, names in ((scaled, named), (pass_at_1, {"prm": "qwen", "calibrator": factory.CALIBRATORS[0]})):
            calibration = cell_id("calibration", "weak", "nano-math", **names)
            assert jobs_of(connection, other) == jobs_of(connection, calibration)
        with pytest.raises(UnknownCellError):
            jobs_of(connection, "scaling/nobody")


def test_calibration_cells_come_in_the_order_of_the_grid(published: Path) -> None:
    cells = catalog.cells(published).query("leaderboard == 'calibration'")
    board = catalog.leaderboard(published)
    assert list(cells["cell_id"]) == list(board["cell_id"])
