"""Curves of accuracy against cost: saved by the run, and exact ones of a pool of samples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import sqlalchemy as sa
from numpy.typing import NDArray

from prmcal.db.queries.cells import with_role
from prmcal.db.reader import Source, connection_of, frame
from prmcal.db.statistics.budgets import (
    Curve,
    at_equal_cost,
    equal_cost_values,
    half_widths_at_once,
    whole_samples_needed,
)
from prmcal.db.statistics.intervals import IntervalRule, bounded_interval, exact_interval
from prmcal.db.tables import CalibratedReward, Cell, CurvePoint, JobInput, JobRow, QuestionResult, SampleAccuracy

_OF_JOB = (JobRow.dataset, JobRow.llm, JobRow.prm, JobRow.calibrator)


def curve_points(source: Source) -> pd.DataFrame:
    """Return the points of all curves: dataset, llm, prm, calibrator (null: fixed n) and the columns of the table."""
    order = (*_OF_JOB, CurvePoint.question_level, CurvePoint.level, CurvePoint.point)
    points = sa.select(*_OF_JOB, CurvePoint.__table__).join(JobRow, JobRow.job_key == CurvePoint.job_key)
    points = points.order_by(*(column.nulls_first() for column in order))
    return frame(source, points).drop(columns="job_key")


def references(source: Source) -> list[str]:
    """Return the cells of strategies that need the truth, and so cannot be used in practice.

    These are the strategies whose jobs read success counts, and strategies with the role "reference".
    """
    with connection_of(source) as connection:
        in_role = sa.select(Cell.cell_id).where(Cell.strategy.in_(with_role(connection, "reference")))
        cells = {*_reading(connection, "success"), *connection.scalars(in_role)}
    return sorted(cells)


def searches(source: Source) -> list[str]:
    """Return the cells of searches, whose samples are steps."""
    return _reading(source, "graded_search")


def _reading(source: Source, kind: str) -> list[str]:
    """Return the cells of strategies whose jobs read a job of this kind."""
    query = sa.select(Cell.cell_id).join(JobInput, JobInput.job_key == Cell.job_key)
    query = query.join(JobRow, JobRow.job_key == JobInput.input_key)
    query = query.where(Cell.leaderboard != "calibration", JobRow.kind == kind)
    return list(frame(source, query.distinct().order_by(Cell.cell_id))["cell_id"])


def question_accuracies(source: Source, cells: Sequence[str]) -> pd.DataFrame:
    """Return the accuracy of cells on single questions: a row for each question_id, a column for each cell.

    A cell without values for single questions has no column. A question that a cell lacks is NaN.
    """
    query = sa.select(QuestionResult.question_id, QuestionResult.cell_id, QuestionResult.value).where(
        QuestionResult.metric == "accuracy", QuestionResult.cell_id.in_(list(cells))
    )
    return frame(source, query).pivot(index="question_id", columns="cell_id", values="value")


@dataclass(frozen=True, eq=False)
class ExactCurves:
    """The data for computing the curves of one data set, LLM and PRM."""

    question_ids: NDArray[np.object_]
    """Of shape (questions,)."""
    accuracy: NDArray[np.float64]
    """Expected accuracy of best-of-n for n from 1 to N. Of shape (questions, N), float64."""
    rewards: dict[tuple[str, float], NDArray[np.float64]]
    """Calibrated rewards of the bare question, by calibrator and level; NaN if the question is too long for the PRM. Of
    shape (questions,), float64."""

    @property
    def most(self) -> int:
        """N, the largest number of samples per question."""
        return int(self.accuracy.shape[1])

    def fixed(self, counts: Sequence[int]) -> Curve:
        """Return the curve of best-of-n with the same n for every question.

        `counts` are the values of n, in [1, N]. Each is a point.
        """
        samples = np.tile(np.asarray(counts, dtype=np.int64), (len(self.question_ids), 1))
        return self._curve(samples, exact_interval)

    def adaptive(self, calibrator: str, level: float, targets: Sequence[float]) -> Curve:
        """Return the curve of best-of-n + IAS with the rewards of a calibrator at one level beta.

        The calibrator and the level must be a key of `rewards`. `targets` are target probabilities C in (0, 1); each
        gives a point.
        """
        rule = partial(bounded_interval, upper=float(self.most))
        return self._curve(self._samples(calibrator, level, targets), rule)

    def at_equal_cost(self, calibrator: str, level: float, targets: Sequence[float]) -> dict[str, NDArray[np.float64]]:
        """Compare best-of-n + IAS with the fixed n that has the same mean number of samples, for each target C.

        Parameters are as in :meth:`adaptive`; :func:`prmcal.db.statistics.budgets.at_equal_cost` has the definition.
        """
        return at_equal_cost(self.accuracy, self._samples(calibrator, level, targets))

    def at_once(self, levels: Mapping[str, float], target: float) -> dict[str, float]:
        """Return the half widths of intervals for the differences of :meth:`at_equal_cost` of all calibrators at once.

        `levels` has the level of each calibrator. See
        :func:`prmcal.db.statistics.budgets.half_widths_at_once`.
        """
        samples = np.concatenate([self._samples(*setting, [target]) for setting in levels.items()], axis=1)
        halves = half_widths_at_once(equal_cost_values(self.accuracy, samples))
        return dict(zip(levels, halves.tolist(), strict=True))

    def _samples(self, calibrator: str, level: float, targets: Sequence[float]) -> NDArray[np.int64]:
        """Return the samples of each question and target, of shape (questions, targets), in [1, N]."""
        counts = [whole_samples_needed(self.rewards[calibrator, level], target) for target in targets]
        samples = np.clip(np.nan_to_num(np.array(counts).T, nan=self.most), 1, self.most)
        return samples.astype(np.int64)

    def _curve(self, samples: NDArray[np.int64], rule: IntervalRule) -> Curve:
        return Curve(samples.astype(np.float64), np.take_along_axis(self.accuracy, samples - 1, axis=1), rule)


def exact_curves(source: Source, dataset: str, llm: str, prm: str) -> ExactCurves | None:
    """Read the curves of one data set, LLM and PRM; None if the run has not computed them."""
    of_setting = (JobRow.dataset == dataset, JobRow.llm == llm, JobRow.prm == prm, JobRow.kind == "curves")
    with connection_of(source) as connection:
        query = sa.select(JobRow.job_key).where(*of_setting, JobRow.calibrator.is_(None), JobRow.status == "done")
        key = connection.scalar(query.limit(1))
        if key is None:
            return None
        values = sa.select(SampleAccuracy).where(SampleAccuracy.job_key == key)
        table = frame(connection, values.order_by(SampleAccuracy.question_id, SampleAccuracy.samples))
        rewards = frame(connection, _bare_rewards(of_setting))
    ids = table["question_id"].unique()
    return ExactCurves(
        question_ids=np.asarray(ids, dtype=object),
        accuracy=table["accuracy"].to_numpy(np.float64).reshape(len(ids), -1),
        rewards={
            (calibrator, level): group.set_index("question_id")["reward"].reindex(ids).to_numpy(np.float64)
            for (calibrator, level), group in rewards.groupby(["calibrator", "level"], sort=False)
        },
    )


def _bare_rewards(of_setting: tuple[sa.ColumnElement[bool], ...]) -> sa.Select[tuple[str, float, str, float]]:
    """Select calibrator, level, question_id and reward at step 0, which all trajectories of a question share."""
    read_by = sa.select(JobRow.calibrator, JobInput.input_key).join(JobInput, JobInput.job_key == JobRow.job_key)
    keys = read_by.where(*of_setting, JobRow.calibrator.is_not(None)).distinct().subquery()
    reward = sa.func.min(CalibratedReward.reward).label("reward")
    columns = (keys.c.calibrator, CalibratedReward.level, CalibratedReward.question_id)
    rewards = sa.select(*columns, reward).join(keys, keys.c.input_key == CalibratedReward.job_key)
    return rewards.where(CalibratedReward.step == 0).group_by(*columns).order_by(*columns)
