"""Layout 6: submissions, verifications and where cells come from. Texts may be absent."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic.operations import Operations

__all__ = ["upgrade"]

_NO_TEXTS = "null if the submission has no texts"


def upgrade(op: Operations) -> None:
    """Change a database of layout 5."""
    for column in (
        _text(
            "base_id",
            "Identifier by the names in the grids, which cells of several versions or seeds share; null: "
            "cell_id",
        ),
        _text(
            "variant",
            "What differs from other cells with the same base_id, e.g. seed 2; empty if nothing does",
            server_default="",
        ),
        _moment("measured_at", "End of the run that measured it, UTC; null in the database of a run"),
        _text(
            "outdated",
            "Versions of jobs, plugins or graders behind it that are no longer current; null if all are",
        ),
        _text(
            "tier",
            "Highest tier at which one of its submissions was verified: verifications.tier; null if none was",
        ),
        _text("verified_by", "Who verified it at this tier; null if nobody did"),
        _moment("verified_at", "When, UTC; null if nobody did"),
    ):
        op.add_column("cells", column)
    # DuckDB adds no column that is not null. The default is only for the rows that are there.
    op.alter_column("cells", "variant", nullable=False, server_default=None)
    for table, column_name, comment in (
        ("questions", "text", f"Text of the question; {_NO_TEXTS}"),
        ("questions", "answer", f"Reference answer; {_NO_TEXTS}"),
        ("trajectories", "text", f"Text of the trajectory; {_NO_TEXTS}"),
        ("searches", "text", f"Text of the chosen trajectory; {_NO_TEXTS}"),
    ):
        op.alter_column(table, column_name, nullable=True, comment=comment, existing_type=sa.Text())
    _create_tables(op)


def _create_tables(op: Operations) -> None:
    op.create_table(
        "submissions",
        _text("submission_id", "First 12 hexadecimal digits of the hash of its content", primary_key=True),
        _text("submitter", "Name that the submitter gave; empty for a run's folder", nullable=False),
        _text("licence", "Licence of the results; empty for a run's folder", nullable=False),
        _text("note", "Note of the submitter", nullable=False),
        _text("signed_by", "Fingerprint of the key of its valid signature; null if it is not signed"),
        _text("run_id", "Run that measured it: runs.run_id", nullable=False),
        _required("cells", sa.Integer(), "Number of finished cells that came with it"),
        _required("texts", sa.Boolean(), "Whether it has the texts of questions and trajectories"),
        comment="What was merged: bundles, and folders of runs. Empty for a run's own database.",
    )
    op.create_table(
        "cell_submissions",
        _text("cell_id", "Cell: cells.cell_id", primary_key=True),
        _text("submission_id", "Submission: submissions.submission_id", primary_key=True),
        comment="Which submissions have which cells. Equal results of several are one cell.",
    )
    op.create_table(
        "verifications",
        _text("verification_id", "First 12 hexadecimal digits of the hash of its record", primary_key=True),
        _text("submission_id", "Submission: submissions.submission_id", nullable=False),
        _text(
            "tier",
            "Highest tier that it tried: consistent, graded again, scored again or reproduced",
            nullable=False,
        ),
        _required("passed", sa.Boolean(), "Whether all checks of this tier and of those before it passed"),
        _text("verified_by", "Name of who verified it", nullable=False),
        _moment("verified_at", "When, UTC", nullable=False),
        _text("prmcal_version", "Version of prmcal that verified it", nullable=False),
        _required("checks", sa.JSON(), "The checks with their numbers, as in its record"),
        sa.CheckConstraint("tier IN ('consistent', 'graded again', 'scored again', 'reproduced')"),
        comment="Verifications of submissions. A verification that failed stays, with its checks.",
    )
    op.create_table(
        "seed_spreads",
        _text("cell_id", "Cell: cells.cell_id", primary_key=True),
        _text("metric", "Name of the metric: results.metric", primary_key=True),
        _required("seeds", sa.Integer(), "Number of seeds, at least 2"),
        _required("mean", sa.Double(), "Mean of the values of all seeds"),
        _required(
            "standard_deviation",
            sa.Double(),
            "Standard deviation of the values between seeds, with n - 1 in the denominator",
        ),
        _required("lowest", sa.Double(), "Lowest value of a seed"),
        _required("highest", sa.Double(), "Highest value of a seed"),
        comment="Cells that differ only in the seed: the spread of their values over all questions.",
    )


def _text(name: str, comment: str, **options: Any) -> sa.Column[Any]:
    # As the models declare it: texts are sorted by their bytes in both kinds of database.
    kind = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    return sa.Column(name, kind, comment=comment, **options)


def _moment(name: str, comment: str, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.DateTime(), comment=comment, **options)


def _required(name: str, kind: sa.types.TypeEngine[Any], comment: str) -> sa.Column[Any]:
    return sa.Column(name, kind, comment=comment, nullable=False)
