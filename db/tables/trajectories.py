"""Tables of trajectories, success counts, rewards, calibrated rewards and searches, loaded in bulk from Parquet.

Every row has the key of the job that computed it. The tables have no primary key in the database: see
:func:`prmcal.db.tables.runs.identified_by`.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from prmcal.db.tables.runs import Base, identified_by

_VERDICTS = "correct, incorrect, unparsed or timed out"


class Trajectory(Base):
    """A sampled and graded trajectory."""

    __tablename__ = "trajectories"
    __table_args__ = ({"comment": "Sampled and graded trajectories of LLMs."},)

    job_key: Mapped[str] = mapped_column(comment="Job that sampled it: jobs.job_key")
    question_id: Mapped[str] = mapped_column(comment="Question: questions.question_id")
    trajectory: Mapped[int] = mapped_column(comment="Index within its question, from 0")
    text: Mapped[str | None] = mapped_column(
        comment="Text of the trajectory; null if the submission has no texts"
    )
    steps: Mapped[int] = mapped_column(comment="Number of steps T")
    tokens: Mapped[int] = mapped_column(comment="Number of generated tokens")
    prompt_tokens: Mapped[int] = mapped_column(
        comment="Number of prompt tokens; 0 if the LLM does not report it"
    )
    finish_reason: Mapped[str] = mapped_column(
        comment="end (at the LLM's end token), stop (at a stop string), length (at the token limit) or thought (at the "
        "token limit, inside a thought)"
    )
    answer: Mapped[str | None] = mapped_column(
        comment="Final answer found in the text; null if there is none"
    )
    verdict: Mapped[str] = mapped_column(comment=f"Verdict on the answer: {_VERDICTS}")
    correct: Mapped[bool] = mapped_column(comment="Whether the answer is correct")

    __mapper_args__ = identified_by(job_key, question_id, trajectory)


class SuccessCount(Base):
    """Monte Carlo success counts of a prefix (Definition 1)."""

    __tablename__ = "successes"
    __table_args__ = ({"comment": "Monte Carlo success counts of prefixes: k of n follow-ups were correct."},)

    job_key: Mapped[str] = mapped_column(comment="Success job: jobs.job_key")
    question_id: Mapped[str] = mapped_column(comment="Question: questions.question_id")
    trajectory: Mapped[int] = mapped_column(comment="Index within its question, from 0")
    step: Mapped[int] = mapped_column(comment="Prefix length t in steps; 0: the question alone")
    successes: Mapped[int] = mapped_column(comment="k: number of follow-ups with a correct answer")
    follow_ups: Mapped[int] = mapped_column(comment="n: number of follow-ups")
    terminal: Mapped[bool] = mapped_column(
        comment="Whether the prefix contains the final answer; then k is 0 or n"
    )

    __mapper_args__ = identified_by(job_key, question_id, trajectory, step)


class Reward(Base):
    """The score of a prefix by a PRM."""

    __tablename__ = "rewards"
    __table_args__ = ({"comment": "Scores of prefixes by PRMs, before calibration."},)

    job_key: Mapped[str] = mapped_column(comment="Score job: jobs.job_key")
    question_id: Mapped[str] = mapped_column(comment="Question: questions.question_id")
    trajectory: Mapped[int] = mapped_column(comment="Index within its question, from 0")
    step: Mapped[int] = mapped_column(comment="Prefix length t in steps; 0: the question alone")
    logit: Mapped[float | None] = mapped_column(
        sa.REAL, comment="Log-odds of success, 32 bits; null if the prefix is too long"
    )
    reward: Mapped[float | None] = mapped_column(
        comment="Score as a probability in [0, 1]; null if the prefix is too long"
    )
    over_long: Mapped[bool] = mapped_column(comment="Whether the prefix is too long for the PRM")

    __mapper_args__ = identified_by(job_key, question_id, trajectory, step)


class CalibratedReward(Base):
    """The calibrated reward r^(beta) of a prefix at one level."""

    __tablename__ = "calibrated_rewards"
    __table_args__ = ({"comment": "Calibrated rewards of prefixes, one row per quantile level."},)

    job_key: Mapped[str] = mapped_column(comment="Calibrated job: jobs.job_key")
    question_id: Mapped[str] = mapped_column(comment="Question: questions.question_id")
    trajectory: Mapped[int] = mapped_column(comment="Index within its question, from 0")
    step: Mapped[int] = mapped_column(comment="Prefix length t in steps; 0: the question alone")
    level: Mapped[float] = mapped_column(comment="Quantile level beta in (0, 1); 0.5: the point estimate")
    reward: Mapped[float] = mapped_column(
        comment="Calibrated reward in [0, 1]; prefixes that are too long have no row"
    )

    __mapper_args__ = identified_by(job_key, question_id, trajectory, step, level)


class Search(Base):
    """The result of a search on one question."""

    __tablename__ = "searches"
    __table_args__ = ({"comment": "Searches: the chosen answer of each question, and the cost."},)

    job_key: Mapped[str] = mapped_column(comment="Search job: jobs.job_key")
    question_id: Mapped[str] = mapped_column(comment="Question: questions.question_id")
    text: Mapped[str | None] = mapped_column(
        comment="Text of the chosen trajectory; null if the submission has no texts"
    )
    steps: Mapped[int] = mapped_column(comment="Number of steps T of the chosen trajectory")
    reward: Mapped[float | None] = mapped_column(
        comment="Reward by which it was chosen, the PRM's own or the calibrated median; null if it is too long"
    )
    answer: Mapped[str | None] = mapped_column(
        comment="Final answer found in the text; null if there is none"
    )
    verdict: Mapped[str] = mapped_column(comment=f"Verdict on the answer: {_VERDICTS}")
    correct: Mapped[bool] = mapped_column(comment="Whether the answer is correct")
    finished: Mapped[int] = mapped_column(
        comment="Number of finished trajectories, also those that were pruned"
    )
    any_correct: Mapped[bool] = mapped_column(comment="Whether any finished trajectory is correct")
    rounds: Mapped[int] = mapped_column(comment="Number of rounds, each with one scoring by the PRM")
    generations: Mapped[int] = mapped_column(comment="Number of LLM calls, each of which draws a step")
    generated_tokens: Mapped[int] = mapped_column(
        sa.BigInteger, comment="Number of tokens generated by the LLM"
    )
    prefill_tokens: Mapped[int] = mapped_column(
        sa.BigInteger,
        comment="Number of prompt tokens, once for all continuations of a prefix; 0: unknown",
    )
    scored_tokens: Mapped[int] = mapped_column(sa.BigInteger, comment="Number of tokens read by the PRM")

    __mapper_args__ = identified_by(job_key, question_id)
