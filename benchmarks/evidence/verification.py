"""How well the PRM distinguishes right from wrong. Calibration is only useful for a PRM that does.

    python -m benchmarks.evidence.verification runs/nano

It prints a Markdown table with one line per data set, LLM and PRM: the area under the ROC curve of the last step's
reward, within each question that has both right and wrong trajectories, and best-of-N beside pass@1.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import sqlalchemy as sa
import sqlalchemy.orm
from sklearn.metrics import roc_auc_score

from benchmarks.documents.shown import markdown, measured, with_interval
from prmcal.db.catalog import leaderboard
from prmcal.db.reader import frame
from prmcal.db.run_folder import published_path
from prmcal.db.statistics.bootstrap import Bootstrap, QuestionMean, estimate
from prmcal.db.statistics.intervals import bounded_interval
from prmcal.db.tables import JobRow, Reward, TrajectoryRow


def verification(directory: Path) -> pd.DataFrame:
    """Return the table of a finished run, as text."""
    source = published_path(directory)
    scaling = leaderboard(source, "scaling")
    rows = []
    for cell in scaling[scaling["strategy"] == "best-of-n"].to_dict("records"):
        same_llm = scaling[(scaling["dataset"] == cell["dataset"]) & (scaling["llm"] == cell["llm"])]
        single = same_llm[same_llm["strategy"] == "pass@1"].iloc[0].to_dict()
        area = estimate(QuestionMean(_areas(source, cell), interval=bounded_interval), Bootstrap())
        rows.append(
            {
                "data set": cell["dataset"],
                "LLM": cell["llm"],
                "PRM": cell["prm"],
                "AUC within a question": with_interval(area.value, area.low, area.high),
                "questions": str(area.questions),
                "pass@1": measured(single, "accuracy"),
                "best-of-N": measured(cell, "accuracy"),
            }
        )
    return pd.DataFrame(rows)


def _areas(source: Path, cell: dict[str, Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the area under the ROC curve for each question that has both right and wrong trajectories."""
    last = last_rewards(source, cell)
    mixed = [group for _, group in last.groupby("question_id") if group["correct"].nunique() == 2]
    return np.array([roc_auc_score(group["correct"], group["logit"]) for group in mixed])


def last_rewards(source: Path, cell: dict[str, Any]) -> pd.DataFrame:
    """Return the test trajectories of a data set and an LLM, with the last score of a PRM and the final answer."""
    rollout, score = sa.orm.aliased(JobRow), sa.orm.aliased(JobRow)
    query = (
        sa.select(
            TrajectoryRow.question_id,
            TrajectoryRow.trajectory,
            TrajectoryRow.answer,
            TrajectoryRow.correct,
            Reward.step,
            Reward.logit,
        )
        .join(rollout, rollout.job_key == TrajectoryRow.job_key)
        .join(
            Reward,
            sa.and_(Reward.question_id == TrajectoryRow.question_id, Reward.trajectory == TrajectoryRow.trajectory),
        )
        .join(score, score.job_key == Reward.job_key)
        .where(
            rollout.llm == cell["llm"],
            rollout.dataset == cell["dataset"],
            rollout.split == score.split,
            rollout.split == "test",
            score.llm == cell["llm"],
            score.prm == cell["prm"],
            score.dataset == cell["dataset"],
        )
    )
    rows: pd.DataFrame = frame(source, query)
    return rows.sort_values("step").drop_duplicates(["question_id", "trajectory"], keep="last")


if __name__ == "__main__":
    print(markdown(verification(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/nano"))))
