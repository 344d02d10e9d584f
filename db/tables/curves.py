"""Tables of curves: accuracy against budget, areas under it, and risk against coverage."""

from __future__ import annotations

from sqlalchemy.orm import Mapped, mapped_column

from prmcal.db.tables.base import Base, identified_by

__all__ = ["CurveArea", "CurvePoint", "LeaguePoint", "RiskPoint", "SampleAccuracy"]


class CurvePoint(Base):
    """A point of a curve of accuracy against budget."""

    __tablename__ = "curve_points"
    __table_args__ = (
        {
            "comment": "Accuracy against budget, computed exactly from the pool: best-of-n + IAS for the paper's eight "
            "targets C at every level beta, or best-of-n with a fixed n if the job has no calibrator."
        },
    )

    job_key: Mapped[str] = mapped_column(comment="Curves job: jobs.job_key, which has the coordinates")
    level: Mapped[float | None] = mapped_column(comment="Quantile level beta; null: fixed n")
    target: Mapped[float | None] = mapped_column(comment="Target probability C; null: fixed n")
    question_level: Mapped[int | None] = mapped_column(
        comment="Difficulty of the questions; null: all questions"
    )
    point: Mapped[int] = mapped_column(comment="Index on the curve, from 0")
    samples: Mapped[float] = mapped_column(comment="Mean samples per question")
    samples_low: Mapped[float | None] = mapped_column(comment="Lower end of its 95% interval")
    samples_high: Mapped[float | None] = mapped_column(comment="Upper end of its 95% interval")
    accuracy: Mapped[float] = mapped_column(comment="Share of questions that are answered correctly")
    accuracy_low: Mapped[float | None] = mapped_column(comment="Lower end of its 95% interval")
    accuracy_high: Mapped[float | None] = mapped_column(comment="Upper end of its 95% interval")
    questions: Mapped[int] = mapped_column(comment="Number of questions")

    __mapper_args__ = identified_by(job_key, level, question_level, point)


class CurveArea(Base):
    """The area under a curve."""

    __tablename__ = "curve_areas"
    __table_args__ = (
        {
            "comment": "Areas under curves. area: mean accuracy over budgets from 1 sample to N, on a logarithmic "
            "scale. risk_coverage_area: mean risk over all coverages if questions with low rewards are not answered."
        },
    )

    job_key: Mapped[str] = mapped_column(comment="Curves job: jobs.job_key, which has the coordinates")
    name: Mapped[str] = mapped_column(
        comment="area (higher is better) or risk_coverage_area (lower is better)"
    )
    level: Mapped[float | None] = mapped_column(comment="Quantile level beta; null: fixed n")
    value: Mapped[float] = mapped_column(comment="The area, in [0, 1]")
    low: Mapped[float | None] = mapped_column(comment="Lower end of the 95% interval; null: single question")
    high: Mapped[float | None] = mapped_column(comment="Upper end of the 95% interval; null: single question")
    questions: Mapped[int] = mapped_column(comment="Number of questions")

    __mapper_args__ = identified_by(job_key, name, level)


class RiskPoint(Base):
    """Risk and coverage of selective answering at one threshold."""

    __tablename__ = "risk_points"
    __table_args__ = (
        {
            "comment": "Selective answering: best-of-N answers only the questions whose calibrated reward is at least "
            "a threshold."
        },
    )

    job_key: Mapped[str] = mapped_column(comment="Curves job: jobs.job_key, which has the coordinates")
    level: Mapped[float] = mapped_column(comment="Quantile level beta of the reward")
    threshold: Mapped[float] = mapped_column(comment="Questions with at least this reward are answered")
    coverage: Mapped[float] = mapped_column(comment="Share of questions that are answered")
    coverage_low: Mapped[float | None] = mapped_column(comment="Lower end of its 95% interval")
    coverage_high: Mapped[float | None] = mapped_column(comment="Upper end of its 95% interval")
    risk: Mapped[float] = mapped_column(
        comment="Share of wrong answers among the answered questions; 0: none is answered"
    )
    risk_low: Mapped[float | None] = mapped_column(
        comment="Lower end of its 95% interval; null: fewer than two questions are answered"
    )
    risk_high: Mapped[float | None] = mapped_column(comment="Upper end of its 95% interval")
    questions: Mapped[int] = mapped_column(comment="Number of questions")

    __mapper_args__ = identified_by(job_key, level, threshold)


class SampleAccuracy(Base):
    """Accuracy of best-of-n on one question."""

    __tablename__ = "sample_accuracies"
    __table_args__ = (
        {
            "comment": "Accuracy of best-of-n on every question for every n, computed exactly from the pool. Results "
            "for any C and level beta follow from it."
        },
    )

    job_key: Mapped[str] = mapped_column(comment="Curves job without a calibrator: jobs.job_key")
    question_id: Mapped[str] = mapped_column(comment="Question: questions.question_id")
    question_level: Mapped[int | None] = mapped_column(comment="Difficulty of the question")
    samples: Mapped[int] = mapped_column(comment="Samples n, from 1 to N")
    accuracy: Mapped[float] = mapped_column(
        comment="Expected accuracy of the sample with the highest score among n"
    )

    __mapper_args__ = identified_by(job_key, question_id, samples)


class LeaguePoint(Base):
    """A point of the curve of a strategy."""

    __tablename__ = "league_points"
    __table_args__ = (
        {
            "comment": "Curves of accuracy against samples of the strategies of the league, one for each of its cells."
        },
    )

    cell_id: Mapped[str] = mapped_column(comment="Cell: cells.cell_id")
    point: Mapped[int] = mapped_column(comment="Index on the curve, from 0; 0: one sample of each question")
    samples: Mapped[float] = mapped_column(comment="Mean samples per question")
    samples_low: Mapped[float | None] = mapped_column(comment="Lower end of its 95% interval")
    samples_high: Mapped[float | None] = mapped_column(comment="Upper end of its 95% interval")
    accuracy: Mapped[float] = mapped_column(comment="Share of questions that are answered correctly")
    accuracy_low: Mapped[float | None] = mapped_column(comment="Lower end of its 95% interval")
    accuracy_high: Mapped[float | None] = mapped_column(comment="Upper end of its 95% interval")
    order_error: Mapped[float] = mapped_column(
        comment="Largest standard error of an accuracy of the curve from a limited number of random orders; 0: exact"
    )
    questions: Mapped[int] = mapped_column(comment="Number of questions")

    __mapper_args__ = identified_by(cell_id, point)
