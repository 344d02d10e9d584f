"""Tables of a merged leaderboard: submissions, the cells of each, verifications, and spreads between seeds."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from prmcal.db.metrics import TIERS
from prmcal.db.tables.base import Base

__all__ = ["CellSubmission", "SeedSpread", "Submission", "Verification"]


class Submission(Base):
    """Results that were merged into the leaderboard together."""

    __tablename__ = "submissions"
    __table_args__ = (
        {"comment": "What was merged: bundles, and folders of runs. Empty for a run's own database."},
    )

    submission_id: Mapped[str] = mapped_column(
        primary_key=True, comment="First 12 hexadecimal digits of the hash of its content"
    )
    submitter: Mapped[str] = mapped_column(comment="Name that the submitter gave; empty for a run's folder")
    licence: Mapped[str] = mapped_column(comment="Licence of the results; empty for a run's folder")
    note: Mapped[str] = mapped_column(default="", comment="Note of the submitter")
    signed_by: Mapped[str | None] = mapped_column(
        comment="Fingerprint of the key of its valid signature; null if it is not signed"
    )
    run_id: Mapped[str] = mapped_column(comment="Run that measured it: runs.run_id")
    cells: Mapped[int] = mapped_column(comment="Number of finished cells that came with it")
    texts: Mapped[bool] = mapped_column(comment="Whether it has the texts of questions and trajectories")


class CellSubmission(Base):
    """A cell that came with a submission."""

    __tablename__ = "cell_submissions"
    __table_args__ = (
        {"comment": "Which submissions have which cells. Equal results of several are one cell."},
    )

    cell_id: Mapped[str] = mapped_column(primary_key=True, comment="Cell: cells.cell_id")
    submission_id: Mapped[str] = mapped_column(
        primary_key=True, comment="Submission: submissions.submission_id"
    )


class Verification(Base):
    """A verification of a submission."""

    __tablename__ = "verifications"
    __table_args__ = (
        sa.CheckConstraint(f"tier IN {TIERS}"),
        {"comment": "Verifications of submissions. A verification that failed stays, with its checks."},
    )

    verification_id: Mapped[str] = mapped_column(
        primary_key=True, comment="First 12 hexadecimal digits of the hash of its record"
    )
    submission_id: Mapped[str] = mapped_column(comment="Submission: submissions.submission_id")
    tier: Mapped[str] = mapped_column(
        comment="Highest tier that it tried: consistent, graded again, scored again or reproduced"
    )
    passed: Mapped[bool] = mapped_column(
        comment="Whether all checks of this tier and of those before it passed"
    )
    verified_by: Mapped[str] = mapped_column(comment="Name of who verified it")
    verified_at: Mapped[datetime] = mapped_column(comment="When, UTC")
    prmcal_version: Mapped[str] = mapped_column(comment="Version of prmcal that verified it")
    checks: Mapped[dict[str, Any]] = mapped_column(comment="The checks with their numbers, as in its record")


class SeedSpread(Base):
    """The spread of a value between seeds."""

    __tablename__ = "seed_spreads"
    __table_args__ = (
        {"comment": "Cells that differ only in the seed: the spread of their values over all questions."},
    )

    cell_id: Mapped[str] = mapped_column(primary_key=True, comment="Cell: cells.cell_id")
    metric: Mapped[str] = mapped_column(primary_key=True, comment="Name of the metric: results.metric")
    seeds: Mapped[int] = mapped_column(comment="Number of seeds, at least 2")
    mean: Mapped[float] = mapped_column(comment="Mean of the values of all seeds")
    standard_deviation: Mapped[float] = mapped_column(
        comment="Standard deviation of the values between seeds, with n - 1 in the denominator"
    )
    lowest: Mapped[float] = mapped_column(comment="Lowest value of a seed")
    highest: Mapped[float] = mapped_column(comment="Highest value of a seed")
