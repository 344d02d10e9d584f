"""Heavy tables, loaded from Parquet in bulk: trajectories, success counts, rewards, calibrated rewards.

They have no primary key in the database: an index would cost more than the rest of a load. What
identifies a row is declared to the mapper only. Each row carries the key of the job that made it.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from prmcal.db.tables.base import Base, identified_by

__all__ = ["CalibratedReward", "Reward", "Search", "SuccessCount", "Trajectory"]


class Trajectory(Base):
    """A sampled solution, graded."""

    __tablename__ = "trajectories"
    __table_args__ = ({"comment": "Sampled solutions of an LLM, graded."},)

    job_key: Mapped[str] = mapped_column(comment="Rollout that sampled it: jobs.job_key")
    question_id: Mapped[str] = mapped_column(comment="Question: questions.question_id")
    trajectory: Mapped[int] = mapped_column(comment="Index within its question, from 0")
    text: Mapped[str] = mapped_column(comment="What the LLM wrote")
    steps: Mapped[int] = mapped_column(comment="Number of steps T")
    tokens: Mapped[int] = mapped_column(comment="Tokens generated")
    prompt_tokens: Mapped[int] = mapped_column(comment="Tokens of its prompt; 0 if the LLM does not tell")
    finish_reason: Mapped[str] = mapped_column(comment="stop, or length if it was cut off")
    answer: Mapped[str | None] = mapped_column(comment="Final answer found in the text")
    verdict: Mapped[str] = mapped_column(comment="correct, incorrect, unparsed or timed out")
    correct: Mapped[bool] = mapped_column(comment="Whether the answer is right")

    __mapper_args__ = identified_by(job_key, question_id, trajectory)


class SuccessCount(Base):
    """Monte Carlo counts of a prefix (Definition 1)."""

    __tablename__ = "successes"
    __table_args__ = ({"comment": "Monte Carlo success counts of prefixes: k of n follow-ups were right."},)

    job_key: Mapped[str] = mapped_column(comment="Success job: jobs.job_key")
    question_id: Mapped[str] = mapped_column(comment="Question: questions.question_id")
    trajectory: Mapped[int] = mapped_column(comment="Index within its question, from 0")
    step: Mapped[int] = mapped_column(comment="Prefix length t in steps; 0 is the bare question")
    successes: Mapped[int] = mapped_column(comment="k: follow-ups that reached the right answer")
    follow_ups: Mapped[int] = mapped_column(comment="n: follow-ups drawn")
    terminal: Mapped[bool] = mapped_column(
        comment="Whether the prefix already holds the final answer (k is 0 or n)"
    )

    __mapper_args__ = identified_by(job_key, question_id, trajectory, step)


class Reward(Base):
    """A PRM's score of a prefix."""

    __tablename__ = "rewards"
    __table_args__ = ({"comment": "Scores of prefixes by a PRM, as it gave them."},)

    job_key: Mapped[str] = mapped_column(comment="Score job: jobs.job_key")
    question_id: Mapped[str] = mapped_column(comment="Question: questions.question_id")
    trajectory: Mapped[int] = mapped_column(comment="Index within its question, from 0")
    step: Mapped[int] = mapped_column(comment="Prefix length t in steps; 0 is the bare question")
    logit: Mapped[float | None] = mapped_column(
        sa.REAL, comment="Log-odds of success, 32 bits; null if over-long"
    )
    reward: Mapped[float | None] = mapped_column(
        comment="The score as a probability in [0, 1]; null if over-long"
    )
    over_long: Mapped[bool] = mapped_column(comment="Whether the prefix did not fit into the PRM's context")

    __mapper_args__ = identified_by(job_key, question_id, trajectory, step)


class CalibratedReward(Base):
    """A calibrated reward r^(beta) of a prefix."""

    __tablename__ = "calibrated_rewards"
    __table_args__ = ({"comment": "Calibrated rewards of prefixes, one row per quantile level."},)

    job_key: Mapped[str] = mapped_column(comment="Calibrated job: jobs.job_key")
    question_id: Mapped[str] = mapped_column(comment="Question: questions.question_id")
    trajectory: Mapped[int] = mapped_column(comment="Index within its question, from 0")
    step: Mapped[int] = mapped_column(comment="Prefix length t in steps; 0 is the bare question")
    level: Mapped[float] = mapped_column(comment="Quantile level beta in (0, 1); 0.5 is the point estimate")
    reward: Mapped[float] = mapped_column(
        comment="Calibrated reward in [0, 1]; over-long prefixes have no row"
    )

    __mapper_args__ = identified_by(job_key, question_id, trajectory, step, level)


class Search(Base):
    """What a beam search came to."""

    __tablename__ = "searches"
    __table_args__ = (
        {"comment": "Beam searches: the answer that was chosen for each question, and its cost."},
    )

    job_key: Mapped[str] = mapped_column(comment="Search job: jobs.job_key")
    question_id: Mapped[str] = mapped_column(comment="Question: questions.question_id")
    text: Mapped[str] = mapped_column(comment="The chosen trajectory")
    steps: Mapped[int] = mapped_column(comment="Its number of steps T")
    reward: Mapped[float | None] = mapped_column(
        comment="Its median reward, which chose it; null if over-long"
    )
    answer: Mapped[str | None] = mapped_column(comment="Final answer found in the text")
    verdict: Mapped[str] = mapped_column(comment="correct, incorrect or unparsed")
    correct: Mapped[bool] = mapped_column(comment="Whether the answer is right")
    finished: Mapped[int] = mapped_column(comment="Finished trajectories that it was chosen from")
    any_correct: Mapped[bool] = mapped_column(comment="Whether any of them is right")
    rounds: Mapped[int] = mapped_column(comment="How often the PRM was asked which prefixes go on")
    generations: Mapped[int] = mapped_column(comment="LLM calls: steps that were drawn")
    generated_tokens: Mapped[int] = mapped_column(sa.BigInteger, comment="Tokens that the LLM generated")
    prefill_tokens: Mapped[int] = mapped_column(
        sa.BigInteger, comment="Tokens of prefixes, each once for all of its continuations; 0 if not told"
    )
    scored_tokens: Mapped[int] = mapped_column(sa.BigInteger, comment="Tokens that the PRM read")

    __mapper_args__ = identified_by(job_key, question_id)
