"""The two leaderboards: calibration errors, and accuracy and budget of strategies.

The order of rows depends on the grid only, and no column contains a time or the name of a run. Equal grids give equal
bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.orm import aliased

from prmcal.db.metrics import COORDINATES, METRICS, Leaderboard
from prmcal.db.reader import Source, connection_of, frame
from prmcal.db.statistics.standings import standings
from prmcal.db.tables import Cell, Comparison, Plugin, Result

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["leaderboard", "measurements"]


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
    """Return the measured values of a leaderboard, one per row, in the order of the grid.

    Parameters
    ----------
    source : Path or Connection
        The published copy.
    table : {"calibration", "scaling"}
        Which leaderboard.
    llm, prm, calibrator, dataset, strategy : sequence of str, optional
        Keep only cells with these names, and cells without a plugin of the kind: a strategy without a PRM is a
        baseline for every PRM.
    question_level : int, optional
        Return values over the questions of this difficulty instead of all. They have no standing.

    Returns
    -------
    DataFrame
        Columns cell_id, those of :data:`prmcal.db.metrics.COORDINATES`, status, reason, metric, value, low, high,
        rows, questions, standing, letters. A cell without values (failed or pending) has one row with a null metric.

        Cells with the same data set, LLM and PRM compete. The standing is "best", "tied" (not significantly different
        from the best after Holm's correction), "worse" (significantly different), or null if the value was not
        compared. Cells of a group that share a letter do not differ significantly, and the best has "a". Letters are
        null if the value was not compared or the alphabet is too short.
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
    """Return a leaderboard with one row per cell and separate columns for every metric.

    Parameters
    ----------
    source, table
        As for :func:`measurements`.
    **filters
        The filters of :func:`measurements`.

    Returns
    -------
    DataFrame
        Columns cell_id and those of :data:`prmcal.db.metrics.COORDINATES`; for each metric ``<metric>``,
        ``<metric>_low``, ``<metric>_high``, ``<metric>_standing`` and ``<metric>_letters``; then rows and questions
        (the smallest numbers behind any value of the cell), status and reason.
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
    """Sort values by their cells in the order of the grid, then by metrics in the order of columns."""
    import numpy as np

    place = {(kind, name): position for kind, name, position in positions.itertuples(index=False)}

    def named(kind: str, name: Any) -> tuple[bool, int, str]:
        known = isinstance(name, str)
        return known, place.get((kind, name), len(place)) if known else len(place), name if known else ""

    def key(cell: dict[str, Any]) -> tuple[Any, ...]:
        return (
            *(named(kind, cell[kind]) for kind in ("dataset", "llm", "prm", "strategy")),
            *(_or_zero(cell[kind]) for kind in ("target", "level")),
            named("calibrator", cell["calibrator"]),
            cell["cell_id"],
        )

    cells = found.drop_duplicates("cell_id")[["cell_id", *COORDINATES]].to_dict("records")
    place_of_cell = {cell["cell_id"]: number for number, cell in enumerate(sorted(cells, key=key))}
    place_of_metric = {metric: number for number, metric in enumerate(METRICS)}
    others = sorted(set(found["metric"].dropna()) - set(METRICS))
    place_of_metric |= {metric: len(METRICS) + number for number, metric in enumerate(others)}
    order = np.lexsort((found["metric"].map(place_of_metric), found["cell_id"].map(place_of_cell)))
    return found.iloc[order].reset_index(drop=True)


def _or_zero(value: float | None) -> float:
    return 0.0 if value is None or value != value else value
