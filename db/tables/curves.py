"""Tables of curves: accuracy against budget, areas, risk against coverage, and what they are read from."""

from __future__ import annotations

from sqlalchemy.orm import Mapped, mapped_column

from prmcal.db.tables.base import Base, identified_by

__all__ = ["CurveArea", "CurvePoint", "RiskPoint", "SampleAccuracy"]


class CurvePoint(Base):
    """A point of accuracy against budget."""

    __tablename__ = "curve_points"
    __table_args__ = (
        {
            "comment": "Accuracy against budget, exactly from the pool: best-of-n + IAS for the paper's eight targets "
            "C at every level beta, or best-of-n with a fixed n where the job has no calibrator."
        },
    )

    job_key: Mapped[str] = mapped_column(comment="Curves job: jobs.job_key, which has the coordinates")
    level: Mapped[float | None] = mapped_column(comment="Quantile level beta; null for a fixed n")
    target: Mapped[float | None] = mapped_column(comment="Target probability C; null for a fixed n")
    question_level: Mapped[int | None] = mapped_column(
        comment="Questions of this difficulty only; null is all"
    )
    point: Mapped[int] = mapped_column(comment="Place on its curve, from 0")
    samples: Mapped[float] = mapped_column(comment="Mean samples per question")
    samples_low: Mapped[float | None] = mapped_column(comment="Lower end of its 95% interval")
    samples_high: Mapped[float | None] = mapped_column(comment="Upper end of its 95% interval")
    accuracy: Mapped[float] = mapped_column(comment="Share of questions answered right")
    accuracy_low: Mapped[float | None] = mapped_column(comment="Lower end of its 95% interval")
    accuracy_high: Mapped[float | None] = mapped_column(comment="Upper end of its 95% interval")
    questions: Mapped[int] = mapped_column(comment="Number of questions, the unit of the bootstrap")

    __mapper_args__ = identified_by(job_key, level, question_level, point)


class CurveArea(Base):
    """The area under a curve."""

    __tablename__ = "curve_areas"
    __table_args__ = (
        {
            "comment": "Areas under curves. area: mean accuracy over budgets from 1 sample to N, every doubling alike. "
            "risk_coverage_area: mean risk over all coverages when questions of low reward are not answered."
        },
    )

    job_key: Mapped[str] = mapped_column(comment="Curves job: jobs.job_key, which has the coordinates")
    name: Mapped[str] = mapped_column(
        comment="area (higher is better) or risk_coverage_area (lower is better)"
    )
    level: Mapped[float | None] = mapped_column(comment="Quantile level beta; null for a fixed n")
    value: Mapped[float] = mapped_column(comment="The area, in [0, 1]")
    low: Mapped[float | None] = mapped_column(comment="Lower end of the 95% interval; null for one question")
    high: Mapped[float | None] = mapped_column(comment="Upper end of the 95% interval; null for one question")
    questions: Mapped[int] = mapped_column(comment="Number of questions, the unit of the bootstrap")

    __mapper_args__ = identified_by(job_key, name, level)


class RiskPoint(Base):
    """Risk and coverage of answering above a threshold."""

    __tablename__ = "risk_points"
    __table_args__ = (
        {
            "comment": "Selective answering: only questions with a calibrated reward of at least a threshold are "
            "answered, by best-of-N."
        },
    )

    job_key: Mapped[str] = mapped_column(comment="Curves job: jobs.job_key, which has the coordinates")
    level: Mapped[float] = mapped_column(comment="Quantile level beta of the reward")
    threshold: Mapped[float] = mapped_column(comment="Smallest reward of a question that is answered")
    coverage: Mapped[float] = mapped_column(comment="Share of questions that are answered")
    coverage_low: Mapped[float | None] = mapped_column(comment="Lower end of its 95% interval")
    coverage_high: Mapped[float | None] = mapped_column(comment="Upper end of its 95% interval")
    risk: Mapped[float] = mapped_column(comment="Share of wrong answers among them; 0 if there are none")
    risk_low: Mapped[float | None] = mapped_column(comment="Lower end of its 95% interval")
    risk_high: Mapped[float | None] = mapped_column(comment="Upper end of its 95% interval")
    questions: Mapped[int] = mapped_column(comment="Number of questions, the unit of the bootstrap")

    __mapper_args__ = identified_by(job_key, level, threshold)


class SampleAccuracy(Base):
    """Accuracy of a question with n samples."""

    __tablename__ = "sample_accuracies"
    __table_args__ = (
        {
            "comment": "Best-of-n of every single question for every n, exactly from the pool: what any C and level "
            "would come to can be read from it."
        },
    )

    job_key: Mapped[str] = mapped_column(comment="Curves job without a calibrator: jobs.job_key")
    question_id: Mapped[str] = mapped_column(comment="Question: questions.question_id")
    question_level: Mapped[int | None] = mapped_column(comment="Its difficulty")
    samples: Mapped[int] = mapped_column(comment="Samples n, from 1 to N")
    accuracy: Mapped[float] = mapped_column(comment="Expected accuracy of the best-scored of n samples")

    __mapper_args__ = identified_by(job_key, question_id, samples)
