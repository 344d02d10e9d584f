"""The two leaderboards: calibration errors, and accuracy and budget of strategies.

The order of rows depends on the grid only, and no column contains a time or the name of a run. Equal grids give equal
bytes. Cells of a merged leaderboard have further columns at the end, which say where they come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.orm import aliased

from prmcal.db.cell_names import cell_numbers
from prmcal.db.described import metrics
from prmcal.db.metrics import COORDINATES, Leaderboard
from prmcal.db.queries.submissions import PROVENANCE, cell_provenance, is_merged, seed_spreads
from prmcal.db.reader import Source, connection_of, frame
from prmcal.db.statistics.standings import standings
from prmcal.db.tables import Cell, Comparison, Result

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BETWEEN_SEEDS", "leaderboard", "measurements"]

BETWEEN_SEEDS = "_between_seeds"
"""What the names of columns end with that have the standard deviation of a metric between seeds."""


def measurements(
    source: Source,
    table: Leaderboard = "calibration",
    *,
    llm: Sequence[str] | None = None,
    prm: Sequence[str] | None = None,
    calibrator: Sequence[str] | None = None,
    dataset: Sequence[str] | None = None,
    strategy: Sequence[str] | None = None,
    tier: str | None = None,
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
    tier : str, optional
        Keep only cells that were verified at this tier of :data:`prmcal.db.tiers.TIERS` or at a higher one.
        Standings are those among all cells.
    question_level : int, optional
        Return values over the questions of this difficulty instead of all. They have no standing.

    Returns
    -------
    DataFrame
        Columns cell_id, number (the short number), those of :data:`prmcal.db.metrics.COORDINATES`, status, reason,
        metric, value, low, high, rows, questions, standing, letters. A cell without values (failed or pending) has one
        row with a null metric. The database of a merged leaderboard adds the columns of
        :data:`prmcal.db.queries.submissions.PROVENANCE`.

        Cells with the same data set, LLM and PRM compete. The standing is "best", "tied" (not significantly different
        from the best after Holm's correction), "worse" (significantly different), or null if the value was not
        compared. Cells of a group that share a letter do not differ significantly, and the best has "a". Letters are
        null if the value was not compared or the alphabet is too short.
    """
    chosen = {"llm": llm, "prm": prm, "calibrator": calibrator, "dataset": dataset, "strategy": strategy}
    numbers = cell_numbers()
    coordinates = [getattr(Cell, name) for name in COORDINATES]
    cells = (
        sa.select(Cell.cell_id, numbers.c.number, *coordinates, Cell.status, Cell.reason)
        .join(numbers, numbers.c.cell_id == Cell.cell_id)
        .where(Cell.leaderboard == table)
    )
    same_level = (
        Result.question_level.is_(None) if question_level is None else Result.question_level == question_level
    )
    query = cells.add_columns(
        Result.metric, Result.value, Result.low, Result.high, Result.rows, Result.questions
    ).outerjoin(Result, sa.and_(Result.cell_id == Cell.cell_id, Cell.status == "done", same_level))
    with connection_of(source) as connection:
        described = metrics(connection)
        found = frame(connection, query)
        compared = frame(connection, _comparisons(table)) if question_level is None else None
        provenance = cell_provenance(connection) if is_merged(connection) else None
        verified = (
            None
            if tier is None
            else set(connection.scalars(sa.select(Cell.cell_id).where(Cell.at_tier(tier))))
        )
    better = {name: described.better(name) for name in described}
    standing = None if compared is None else standings(found, compared, better)
    for name in ("standing", "letters"):
        found[name] = None if standing is None else standing[name]
    for name, values in chosen.items():
        if values is not None:
            found = found[found[name].isin(list(values)) | found[name].isna()]
    if verified is not None:
        found = found[found["cell_id"].isin(verified)]
    if provenance is not None:
        found = found.merge(provenance, on="cell_id", how="left")
    order = {name: place for place, name in enumerate(described)}
    place = found["metric"].map(lambda name: order.get(name, len(order)))
    rows = found.assign(place=place).sort_values(["number", "place", "metric"], kind="stable")
    return rows.drop(columns="place").reset_index(drop=True)


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
        Columns cell_id, number and those of :data:`prmcal.db.metrics.COORDINATES`; for each metric ``<metric>``,
        ``<metric>_low``, ``<metric>_high``, ``<metric>_standing`` and ``<metric>_letters``; then rows and questions
        (the smallest numbers behind any value of the cell), status and reason. The database of a merged leaderboard
        adds the columns of :data:`prmcal.db.queries.submissions.PROVENANCE`. If it has cells of several seeds, it also
        adds ``seeds`` (their number) and for each metric ``<metric>_between_seeds`` (the standard deviation of the
        value between seeds, with n - 1).
    """
    import pandas as pd

    with connection_of(source) as connection:
        long, described = measurements(connection, table, **filters), metrics(connection)
        spreads = seed_spreads(connection) if is_merged(connection) else None
    identity = ["cell_id", "number", *COORDINATES]
    last = ["status", "reason", *(name for name in PROVENANCE if name in long)]
    wide = long.drop_duplicates("cell_id")[[*identity, *last]].set_index("cell_id", drop=False)
    parts = [wide[identity]]
    known = [metric.name for metric in described.of(table)]
    for metric in [*known, *sorted(set(long["metric"].dropna()) - set(known))]:
        measured = long[long["metric"] == metric].set_index("cell_id")
        rows = measured[["value", "low", "high", "standing", "letters"]]
        rows.columns = [metric, *(f"{metric}_{name}" for name in rows.columns[1:])]
        parts.append(rows.reindex(wide.index))
    parts.append(long.groupby("cell_id")[["rows", "questions"]].min().reindex(wide.index))
    if spreads is not None:
        parts += _between_seeds(spreads[spreads["cell_id"].isin(wide.index)], [*known], wide.index)
    parts.append(wide[last])
    return pd.concat(parts, axis=1).reset_index(drop=True)


def _between_seeds(spreads: pd.DataFrame, metrics: Sequence[str], cells: pd.Index) -> list[pd.DataFrame]:
    """Return the columns of the spread between seeds; none if no cell has several seeds."""
    if spreads.empty:
        return []
    deviations = spreads.pivot(index="cell_id", columns="metric", values="standard_deviation").reindex(cells)
    shown = [name for name in metrics if name in deviations]
    seeds = spreads.groupby("cell_id")[["seeds"]].first().reindex(cells)
    return [seeds, deviations[shown].rename(columns=lambda name: f"{name}{BETWEEN_SEEDS}")]


def _comparisons(table: Leaderboard) -> sa.Select[*tuple[Any, ...]]:
    first, second = aliased(Cell), aliased(Cell)
    return (
        sa.select(Comparison.metric, Comparison.cell_a, Comparison.cell_b, Comparison.p_adjusted)
        .join(first, sa.and_(first.cell_id == Comparison.cell_a, first.status == "done"))
        .join(second, sa.and_(second.cell_id == Comparison.cell_b, second.status == "done"))
        .where(Comparison.leaderboard == table)
    )
