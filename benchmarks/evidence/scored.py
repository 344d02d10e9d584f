"""Write the small file of scored solutions that ships, from a finished run.

    python -m benchmarks.evidence.scored runs/demo grids/scored.jsonl

It has the solutions of one LLM to the test questions of one data set, with the rewards of the PRM for all prefixes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import sqlalchemy as sa

from prmcal.db.reader import frame
from prmcal.db.run_folder import published_path
from prmcal.db.tables import JobRow, QuestionRow, Reward, TrajectoryRow
from prmcal.steps import split_steps

_SOLUTIONS = 8
_DIGITS = 3


def main() -> None:
    """Write the file."""
    run, out = map(Path, sys.argv[1:])
    source = published_path(run)
    jobs = frame(
        source, sa.select(JobRow.job_key, JobRow.kind, JobRow.llm, JobRow.dataset).where(JobRow.split == "test")
    )
    first = jobs[jobs["kind"] == "score"].iloc[0]
    same_setting = jobs[(jobs["llm"] == first["llm"]) & (jobs["dataset"] == first["dataset"])]
    keys = {kind: same_setting.loc[same_setting["kind"] == kind, "job_key"].iloc[0] for kind in ("rollout", "score")}
    texts = frame(
        source,
        sa.select(
            *(TrajectoryRow.question_id, TrajectoryRow.trajectory, TrajectoryRow.text, TrajectoryRow.answer),
            *(TrajectoryRow.correct, QuestionRow.text.label("question")),
        )
        .join(QuestionRow, QuestionRow.question_id == TrajectoryRow.question_id)
        .where(
            *(TrajectoryRow.job_key == keys["rollout"], TrajectoryRow.trajectory < _SOLUTIONS),
            *(QuestionRow.dataset == first["dataset"], QuestionRow.split == "test"),
        )
        .order_by(TrajectoryRow.question_id, TrajectoryRow.trajectory),
    )
    rewards = frame(
        source,
        sa.select(Reward.question_id, Reward.trajectory, Reward.step, Reward.reward)
        .where(Reward.job_key == keys["score"], Reward.trajectory < _SOLUTIONS)
        .order_by(Reward.question_id, Reward.trajectory, Reward.step),
    )
    scores = rewards.groupby(["question_id", "trajectory"])["reward"].apply(list)
    with out.open("w", encoding="utf-8") as file:
        for question, group in texts.groupby("question", sort=False):
            solutions = [
                {
                    "steps": list(split_steps(row.text)),
                    "scores": [round(score, _DIGITS) for score in scores[row.question_id, row.trajectory]],
                    "correct": bool(row.correct),
                }
                for row in group.itertuples()
            ]
            file.write(json.dumps({"question": question, "solutions": solutions}) + "\n")


if __name__ == "__main__":
    main()
