"""Errors of uncalibrated rewards, aggregated by question in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from prmcal.db.reader import Source, connection_of, frame
from prmcal.db.tables import Cell, Job, JobInput, Reward, SuccessCount

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["measured_by", "reward_errors"]

_PREFIX = ("question_id", "trajectory", "step")


def reward_errors(source: Source, bins: int = 20) -> pd.DataFrame:
    """Return the errors of the uncalibrated rewards of each PRM, by question and bar of a histogram.

    The error of a prefix is its reward minus its success rate. Prefixes without follow-ups are left out, and so are
    prefixes that are too long for the PRM. The grid needs no calibrator for this.

    Parameters
    ----------
    source : Path or Connection
        The published copy.
    bins : int
        Number of bars of equal width over [-1, 1]. An error on an edge belongs to the bar above, and 1 to the last.

    Returns
    -------
    DataFrame
        Columns llm, prm, dataset, question_id, terminal (whether the prefixes contain their final answer), bin (from
        0), prefixes and total (the sum of their errors), sorted by these. Bars without prefixes have no row.
    """
    inputs = _measured_inputs()
    score, success = inputs.alias("score"), inputs.alias("success")
    counts = (
        sa.select(
            SuccessCount.job_key,
            *(getattr(SuccessCount, name) for name in _PREFIX),
            (
                sa.cast(sa.func.sum(SuccessCount.successes), sa.Double) / sa.func.sum(SuccessCount.follow_ups)
            ).label("success_rate"),
            sa.func.bool_or(SuccessCount.terminal).label("terminal"),
        )
        .group_by(SuccessCount.job_key, *(getattr(SuccessCount, name) for name in _PREFIX))
        .cte("counts")
    )
    group = [score.c.llm, score.c.prm, score.c.dataset]
    errors = (
        sa.select(
            *group,
            Reward.question_id,
            counts.c.terminal,
            (Reward.reward - counts.c.success_rate).label("error"),
        )
        .select_from(score)
        .join(success, sa.and_(*(score.c[name] == success.c[name] for name in ("llm", "prm", "dataset"))))
        .join(counts, counts.c.job_key == success.c.job_key)
        .join(
            Reward,
            sa.and_(
                Reward.job_key == score.c.job_key,
                *(getattr(Reward, name) == counts.c[name] for name in _PREFIX),
            ),
        )
        .where(score.c.kind == "score", success.c.kind == "success", Reward.reward.is_not(None))
        .cte("errors")
    )
    # Compare with the same edges as the metrics do: a rounded quotient could move errors on an edge to another bar.
    above = [
        sa.cast(errors.c.error >= float(edge), sa.Integer) for edge in np.linspace(-1, 1, bins + 1)[1:-1]
    ]
    keys = [
        *(errors.c[name] for name in ("llm", "prm", "dataset", "question_id", "terminal")),
        sum(above, sa.literal(0)).label("bin"),
    ]
    total = sa.func.sum(errors.c.error).label("total")
    query = sa.select(*keys, sa.func.count().label("prefixes"), total).group_by(*keys).order_by(*keys)
    return frame(source, query)


def measured_by(source: Source) -> pd.DataFrame:
    """Return each calibration cell with the parameters of its measuring job, such as bins and bootstrap."""
    query = (
        sa.select(Cell.cell_id, Cell.llm, Cell.prm, Cell.dataset, Job.parameters)
        .join(Job, Job.job_key == Cell.job_key)
        .where(Cell.leaderboard == "calibration")
        .order_by(Cell.cell_id)
    )
    with connection_of(source) as connection:
        return frame(connection, query)


def _measured_inputs() -> sa.CTE:
    """Select llm, prm, dataset, job_key and kind of the jobs behind cells, except inputs of calibrator fits."""
    place: list[sa.ColumnElement[Any]] = [Cell.llm, Cell.prm, Cell.dataset]  # type: ignore[list-item]
    upstream = (
        sa.select(*place, JobInput.input_key.label("job_key"))
        .join(JobInput, JobInput.job_key == Cell.job_key)
        .where(Cell.prm.is_not(None))
        .cte("upstream", recursive=True)
    )
    upstream = upstream.union(
        sa.select(upstream.c.llm, upstream.c.prm, upstream.c.dataset, JobInput.input_key)
        .join(JobInput, JobInput.job_key == upstream.c.job_key)
        .join(Job, Job.job_key == upstream.c.job_key)
        .where(Job.kind != "fit")
    )
    return (
        sa.select(*upstream.c, Job.kind).distinct().join(Job, Job.job_key == upstream.c.job_key).cte("inputs")
    )
