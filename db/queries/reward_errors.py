"""How far rewards are from success rates, prefix by prefix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from prmcal.db.queries.trajectories import PREFIX, counted
from prmcal.db.reader import Source, frame
from prmcal.db.statistics.intervals import bin_edges, inner_bounds
from prmcal.db.tables import Cell, Job, JobInput, Reward, SignedErrorBin, SuccessCount

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["error_histograms", "reward_errors"]


def reward_errors(source: Source, bins: int = 20) -> pd.DataFrame:
    """Return the errors of the uncalibrated rewards of each PRM, by question and bar of a histogram.

    The error of a prefix is its reward minus its success rate. Prefixes without follow-ups are left out, and so are
    prefixes that are too long for the PRM, and terminal prefixes where the metrics leave them out. The grid needs no
    calibrator for this.

    Parameters
    ----------
    source : Path or Connection
        The published copy.
    bins : int
        Number of bars of equal width over [-1, 1]. An error on an edge belongs to the bar above, and 1 to the last.

    Returns
    -------
    DataFrame
        Columns llm, prm, dataset, question_id, bin (from 0), prefixes and total (the sum of their errors), sorted by
        these. Bars without prefixes have no row.
    """
    inputs = _measured_inputs()
    score, success = inputs.alias("score"), inputs.alias("success")
    counts = (
        sa.select(
            SuccessCount.job_key,
            *(getattr(SuccessCount, name) for name in PREFIX),
            (
                sa.cast(sa.func.sum(SuccessCount.successes), sa.Double) / sa.func.sum(SuccessCount.follow_ups)
            ).label("success_rate"),
            sa.func.bool_or(SuccessCount.terminal).label("terminal"),
        )
        .group_by(SuccessCount.job_key, *(getattr(SuccessCount, name) for name in PREFIX))
        .cte("counts")
    )
    group = [score.c.llm, score.c.prm, score.c.dataset]
    measured = ("llm", "prm", "dataset", "seed", "conditions", "leaderboard")
    measured = ("llm", "prm", "dataset", "seed", "conditions", "leaderboard")
    same_place = [getattr(Cell, name) == score.c[name] for name in ("llm", "prm", "dataset")]
    errors = (
        sa.select(
            *group,
            score.c.seed,
            *(getattr(Reward, name) for name in PREFIX),
            (Reward.reward - counts.c.success_rate).label("error"),
        )
        .select_from(score)
        .join(success, sa.and_(*(score.c[name].is_not_distinct_from(success.c[name]) for name in measured)))
        .join(counts, counts.c.job_key == success.c.job_key)
        .join(
            Reward,
            sa.and_(
                Reward.job_key == score.c.job_key,
                *(getattr(Reward, name) == counts.c[name] for name in PREFIX),
            ),
        )
        .where(
            score.c.kind == "score",
            success.c.kind == "success",
            Reward.reward.is_not(None),
            counted(counts.c.terminal, *same_place),
        )
        # On a merged leaderboard, two jobs of one place can have the same prefixes.
        .distinct()
        .cte("errors")
    )
    # Compare with the same bounds as the metrics do: a rounded quotient could move errors on an edge to another bar.
    bounds = inner_bounds(bin_edges(bins, -1.0, 1.0))
    above = [sa.cast(errors.c.error >= float(bound), sa.Integer) for bound in bounds]
    keys = [
        *(errors.c[name] for name in ("llm", "prm", "dataset", "question_id")),
        sum(above, sa.literal(0)).label("bin"),
    ]
    total = sa.func.sum(errors.c.error).label("total")
    query = sa.select(*keys, sa.func.count().label("prefixes"), total).group_by(*keys).order_by(*keys)
    return frame(source, query)


def error_histograms(source: Source) -> pd.DataFrame:
    """Return the histograms of the errors of the calibrated rewards: point estimate minus success rate.

    Returns
    -------
    DataFrame
        Columns dataset, prm, llm, calibrator, bin (from 0), lower and upper (the edges, in [-1, 1]) and count (the
        number of prefixes), sorted by these. Only finished cells have rows.
    """
    place = [getattr(Cell, name) for name in ("dataset", "prm", "llm", "calibrator")]
    bars = [getattr(SignedErrorBin, name) for name in ("bin", "lower", "upper", "count")]
    query = (
        sa.select(*place, *bars)
        .join(SignedErrorBin, SignedErrorBin.cell_id == Cell.cell_id)
        .where(Cell.leaderboard == "calibration", Cell.status == "done")
        .order_by(*place, SignedErrorBin.bin)
    )
    return frame(source, query)


def _measured_inputs() -> sa.CTE:
    """Select llm, prm, dataset, job_key and kind of the jobs behind cells, except inputs of calibrator fits.

    A strategy may also read jobs of another LLM or of the calibration questions, which are not what a cell measures.
    """
    measuring = sa.orm.aliased(Job)
    names = ("llm", "prm", "dataset", "seed", "conditions", "leaderboard")
    place: list[sa.ColumnElement[Any]] = [getattr(Cell, name) for name in names]
    upstream = (
        sa.select(*place, JobInput.input_key.label("job_key"))
        .join(JobInput, JobInput.job_key == Cell.job_key)
        .join(Job, Job.job_key == JobInput.input_key)
        .outerjoin(measuring, measuring.job_key == Cell.job_key)
        .where(
            Cell.prm.is_not(None),
            Job.llm == Cell.llm,
            sa.or_(measuring.split.is_(None), measuring.split == Job.split),
        )
        .cte("upstream", recursive=True)
    )
    upstream = upstream.union(
        sa.select(*(upstream.c[name] for name in names), JobInput.input_key)
        .join(JobInput, JobInput.job_key == upstream.c.job_key)
        .join(Job, Job.job_key == upstream.c.job_key)
        .where(Job.kind != "fit")
    )
    return (
        sa.select(*upstream.c, Job.kind).distinct().join(Job, Job.job_key == upstream.c.job_key).cte("inputs")
    )
