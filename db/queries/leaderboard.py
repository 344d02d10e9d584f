"""The two leaderboards: calibration errors, and what calibrated rewards buy at inference.

Rows have a total order that depends on the grid alone, and no column holds a time or the name of a run:
the same grid gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import sqlalchemy as sa
from sqlalchemy.orm import aliased

from prmcal.db.reader import Source, connection_of, frame
from prmcal.db.statistics.standings import SIGNIFICANCE, standings
from prmcal.db.tables import Cell, Comparison, Plugin, Result

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["COORDINATES", "COSTS", "METRICS", "SIGNIFICANCE", "Metric", "leaderboard", "measurements"]

Leaderboard = Literal["calibration", "scaling"]

COORDINATES = ("dataset", "llm", "prm", "strategy", "target", "level", "calibrator")
"""What tells one cell of a leaderboard from another, in the order of rows."""


@dataclass(frozen=True)
class Metric:
    """A column of a leaderboard.

    Attributes
    ----------
    name, title : str
        As stored; as shown.
    leaderboard : {"calibration", "scaling"}
        Where it stands.
    better : {"lower", "higher", "near zero"} or None
        Which value wins. None where a smaller value is no merit by itself (a budget may be too small).
    description : str
        What it measures, in one sentence.
    """

    name: str
    title: str
    leaderboard: Leaderboard
    better: Literal["lower", "higher", "near zero"] | None
    description: str


COSTS = ("generated_tokens", "prefill_tokens", "prm_tokens")
"""Metrics that say what a strategy cost, beside its samples. Nothing competes in them."""

METRICS = {
    metric.name: metric
    for metric in (
        Metric(
            "brier", "Brier", "calibration", "lower", "Mean squared difference of reward and success rate."
        ),
        Metric(
            "brier_corrected",
            "Brier, corrected",
            "calibration",
            "lower",
            "Brier score less the Monte Carlo noise of the success rates; may fall below 0 by chance.",
        ),
        Metric(
            "positive_brier",
            "Positive Brier",
            "calibration",
            "lower",
            "Brier score of overestimation only: rewards below the success rate count as 0.",
        ),
        Metric(
            "ece",
            "ECE",
            "calibration",
            "lower",
            "Calibration error over bins of equal width, weighted by count.",
        ),
        Metric(
            "adaptive_ce", "Adaptive CE", "calibration", "lower", "Calibration error over bins of equal mass."
        ),
        Metric(
            "average_ce",
            "Average CE",
            "calibration",
            "lower",
            "Plain mean of the calibration error over filled bins.",
        ),
        Metric(
            "signed_error",
            "Signed error",
            "calibration",
            "near zero",
            "Mean of reward minus success rate: above 0 the PRM overestimates.",
        ),
        Metric(
            "coverage_0.1",
            "Coverage, beta 0.1",
            "calibration",
            None,
            "How often the success probability is at least the reward (level 0.1, or a point estimate): 0.9 is right.",
        ),
        Metric(
            "coverage_0.5",
            "Coverage, beta 0.5",
            "calibration",
            None,
            "How often the success probability is at least the reward (the median): 0.5 is right.",
        ),
        Metric(
            "coverage_0.9",
            "Coverage, beta 0.9",
            "calibration",
            None,
            "How often the success probability is at least the reward (level 0.9, or a point estimate): 0.1 is right.",
        ),
        Metric("accuracy", "Accuracy", "scaling", "higher", "Share of questions answered right."),
        Metric(
            "budget_ratio",
            "Budget ratio",
            "scaling",
            None,
            "Mean generations per question over those of the fixed budget.",
        ),
        Metric(
            "samples",
            "Samples",
            "scaling",
            None,
            "LLM calls per question: trajectories that are drawn, or steps of a beam search.",
        ),
        Metric(
            "pass_at_n",
            "pass@N",
            "scaling",
            "higher",
            "Share of questions with a right answer among the samples that were drawn.",
        ),
        Metric(
            "generated_tokens",
            "Generated tokens",
            "scaling",
            None,
            "Mean tokens per question that the LLM writes.",
        ),
        Metric(
            "prefill_tokens",
            "Prefill tokens",
            "scaling",
            None,
            "Mean prompt tokens per question that the LLM reads; a prompt of several samples counts once.",
        ),
        Metric("prm_tokens", "PRM tokens", "scaling", None, "Mean tokens per question that the PRM reads."),
    )
}


def measurements(
    source: Source,
    table: Leaderboard = "calibration",
    *,
    llm: Sequence[str] | None = None,
    prm: Sequence[str] | None = None,
    calibrator: Sequence[str] | None = None,
    dataset: Sequence[str] | None = None,
    strategy: Sequence[str] | None = None,
    question_level: int | None = None,
) -> pd.DataFrame:
    """Return one row per measured value of a leaderboard, in the order of the grid.

    Parameters
    ----------
    source : Path or Connection
        The published copy.
    table : {"calibration", "scaling"}
        Which leaderboard.
    llm, prm, calibrator, dataset, strategy : sequence of str, optional
        Keep these only, and what uses none of the kind: pass@1 is the baseline of every PRM.
    question_level : int, optional
        Values over the questions of this difficulty instead of all; they carry no standing.

    Returns
    -------
    DataFrame
        Columns cell_id, those of :data:`COORDINATES`, status, reason, metric, value, low, high, rows,
        questions, standing, letters. A cell without values (failed or pending) has one row with a null metric. The
        standing is "best" of its group, "tied" (not distinguishable from the best after Holm's correction),
        "worse" (the difference is real), or null where nothing was compared. Two cells that share one of their
        letters are not distinguishable, "a" is on the best; null where nothing was compared or the alphabet is too
        short. What competes is one (data set, LLM, PRM): its calibrators, and on the scaling leaderboard its
        strategies too.
    """
    chosen = {"llm": llm, "prm": prm, "calibrator": calibrator, "dataset": dataset, "strategy": strategy}
    cells = sa.select(
        Cell.cell_id, *(getattr(Cell, name) for name in COORDINATES), Cell.status, Cell.reason
    ).where(Cell.leaderboard == table)
    same_level = (
        Result.question_level.is_(None) if question_level is None else Result.question_level == question_level
    )
    query = cells.add_columns(
        Result.metric, Result.value, Result.low, Result.high, Result.rows, Result.questions
    ).outerjoin(Result, sa.and_(Result.cell_id == Cell.cell_id, Cell.status == "done", same_level))
    with connection_of(source) as connection:
        found = frame(connection, query)
        positions = frame(connection, sa.select(Plugin.kind, Plugin.name, Plugin.position))
        compared = frame(connection, _comparisons(table)) if question_level is None else None
    better = {metric.name: metric.better for metric in METRICS.values()}
    standing = None if compared is None else standings(found, compared, better)
    for name in ("standing", "letters"):
        found[name] = None if standing is None else standing[name]
    for name, values in chosen.items():
        if values is not None:
            found = found[found[name].isin(list(values)) | found[name].isna()]
    return _ordered(found, positions)


def leaderboard(source: Source, table: Leaderboard = "calibration", **filters: Any) -> pd.DataFrame:
    """Return one row per cell, with every metric of the leaderboard in columns of its own.

    Parameters
    ----------
    source, table
        As for :func:`measurements`.
    **filters
        The filters of :func:`measurements`.

    Returns
    -------
    DataFrame
        Columns cell_id, those of :data:`COORDINATES`, then ``<metric>``, ``<metric>_low``, ``<metric>_high``,
        ``<metric>_standing`` and ``<metric>_letters`` for each metric, then rows, questions (the smallest behind
        any value of the row), status and reason.
    """
    import pandas as pd

    long = measurements(source, table, **filters)
    identity = ["cell_id", *COORDINATES]
    wide = long.drop_duplicates("cell_id")[[*identity, "status", "reason"]].set_index("cell_id", drop=False)
    parts = [wide[identity]]
    known = [metric.name for metric in METRICS.values() if metric.leaderboard == table]
    for metric in [*known, *sorted(set(long["metric"].dropna()) - set(known))]:
        measured = long[long["metric"] == metric].set_index("cell_id")
        rows = measured[["value", "low", "high", "standing", "letters"]]
        rows.columns = [metric, *(f"{metric}_{name}" for name in rows.columns[1:])]
        parts.append(rows.reindex(wide.index))
    parts.append(long.groupby("cell_id")[["rows", "questions"]].min().reindex(wide.index))
    parts.append(wide[["status", "reason"]])
    return pd.concat(parts, axis=1).reset_index(drop=True)


def _comparisons(table: Leaderboard) -> sa.Select[*tuple[Any, ...]]:
    first, second = aliased(Cell), aliased(Cell)
    return (
        sa.select(Comparison.metric, Comparison.cell_a, Comparison.cell_b, Comparison.p_adjusted)
        .join(first, sa.and_(first.cell_id == Comparison.cell_a, first.status == "done"))
        .join(second, sa.and_(second.cell_id == Comparison.cell_b, second.status == "done"))
        .where(Comparison.leaderboard == table)
    )


def _ordered(found: pd.DataFrame, positions: pd.DataFrame) -> pd.DataFrame:
    place = {(kind, name): position for kind, name, position in positions.itertuples(index=False)}

    def key(row: Any) -> tuple[Any, ...]:
        plugins = {
            kind: (name is not None, place.get((kind, name), len(place)), name or "")
            for kind, name in (
                (kind, _or_none(getattr(row, kind)))
                for kind in ("dataset", "llm", "prm", "strategy", "calibrator")
            )
        }
        metric = _or_none(row.metric) or ""
        return (
            plugins["dataset"],
            plugins["llm"],
            plugins["prm"],
            plugins["strategy"],
            _or_none(row.target) or 0.0,
            _or_none(row.level) or 0.0,
            plugins["calibrator"],
            row.cell_id,
            list(METRICS).index(metric) if metric in METRICS else len(METRICS),
            metric,
        )

    rows = list(found.itertuples(index=False))
    order = sorted(range(len(rows)), key=lambda index: key(rows[index]))
    return found.iloc[order].reset_index(drop=True)


def _or_none(value: Any) -> Any:
    return None if value is None or value != value else value
