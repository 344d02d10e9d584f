from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from prmcal.db import catalog
from prmcal.db.metrics import cell_id
from prmcal.db.queries.runs import jobs_of
from prmcal.db.reader import reading
from prmcal.errors import UnknownCellError
from tests.db import factory, parquet_files

CELL = cell_id("calibration", "weak", "nano-math", prm="qwen", calibrator="isotonic")
JUDGED = """
    SELECT question_id, trajectory, step, s.terminal, s.successes / s.follow_ups AS success, r.reward,
        c.reward AS calibrated_reward
    FROM successes s JOIN rewards r USING (question_id, trajectory, step)
    JOIN calibrated_rewards c USING (question_id, trajectory, step)
    WHERE s.job_key = 'success-weak-nano-math' AND r.job_key = 'score-weak-nano-math'
    AND c.job_key = 'calibrated-weak-isotonic-nano-math'
"""


def test_questions_have_their_pass_rate_and_mean_errors_over_the_prefixes_that_count(published: Path) -> None:
    found = catalog.questions(published, CELL)
    assert len(found) == parquet_files.QUESTIONS
    assert found["question_id"].is_monotonic_increasing
    assert list(found["correct"]) == [2, 1, 2, 1]
    assert found["pass_at_1"].tolist() == pytest.approx([2 / 3, 1 / 3, 2 / 3, 1 / 3])
    with reading(published) as connection:
        means = connection.exec_driver_sql(
            f"SELECT avg(reward - success), avg(calibrated_reward - success), count(*) FROM ({JUDGED}) "
            "WHERE NOT terminal GROUP BY question_id ORDER BY question_id"
        ).all()
    columns = ["reward_error", "calibrated_error", "prefixes"]
    assert [tuple(row) for row in found[columns].to_numpy()] == [pytest.approx(row) for row in means]


@pytest.mark.parametrize("column", ["reward", "calibrated_reward"])
def test_the_worst_prefixes_come_first(
    published: Path, column: Literal["reward", "calibrated_reward"]
) -> None:
    with reading(published) as connection:
        errors = [
            row[0]
            for row in connection.exec_driver_sql(
                f"SELECT {column} - success AS error FROM ({JUDGED}) ORDER BY error DESC"
            )
        ]
    over = catalog.worst_prefixes(published, CELL, column=column, limit=5)
    under = catalog.worst_prefixes(published, CELL, column=column, over=False, limit=3)
    assert over["error"].tolist() == errors[:5]
    assert under["error"].tolist() == errors[:-4:-1]


def test_a_scaling_cell_leads_to_the_rewards_that_it_rests_on(published: Path) -> None:
    named: dict[str, Any] = {"prm": "qwen", "calibrator": "temperature"}
    scaled = cell_id(
        "scaling", "weak", "nano-math", **named, strategy="best-of-n + IAS", target=0.99, level=0.1
    )
    pass_at_1 = cell_id("scaling", "weak", "nano-math", strategy="pass@1")
    with reading(published) as connection:
        assert jobs_of(connection, scaled).cell["cell_id"] == cell_id(
            "calibration", "weak", "nano-math", **named
        )
        assert jobs_of(connection, pass_at_1).cell["cell_id"] == cell_id(
            "calibration", "weak", "nano-math", prm="qwen", calibrator=factory.CALIBRATORS[0]
        )
        with pytest.raises(UnknownCellError):
            jobs_of(connection, "scaling/nobody")


def test_calibration_cells_come_in_the_order_of_the_grid(published: Path) -> None:
    cells = catalog.cells(published).query("leaderboard == 'calibration'")
    board = catalog.leaderboard(published)
    assert list(cells["cell_id"]) == list(board["cell_id"])
