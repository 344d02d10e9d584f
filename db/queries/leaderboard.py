"""The leaderboards, and the tables of the paper beside the measured values."""

from collections.abc import Collection
from pathlib import Path
from statistics import NormalDist
from typing import Any, Unpack

import pandas as pd
import sqlalchemy as sa

from prmcal.db.metrics import COORDINATES, Leaderboard
from prmcal.db.queries.cells import Names, metrics, numbered_cells, with_names
from prmcal.db.queries.curves import references
from prmcal.db.reader import Source, connection_of, frame
from prmcal.db.statistics.paired import standings
from prmcal.db.tables import Cell, Comparison, DescribedMetric, Result, SignedErrorBin


def measurements(
    source: Source,
    table: Leaderboard = "calibration",
    *,
    question_level: int | str | None = None,
    **names: Unpack[Names],
) -> pd.DataFrame:
    """Return the measured values of a leaderboard, one per row, in the order of the grid.

    `llm`, `prm`, `calibrator`, `dataset` and `strategy` keep only cells with these names
    (:class:`prmcal.db.queries.cells.Names`). Standings are among all cells. With `question_level`, the values are over
    the questions of this difficulty, and have no standing.

    The columns are cell_id, number (the short number), those of :data:`prmcal.db.metrics.COORDINATES`, status, reason,
    difference (what another run has under the same key, such as ``brier 0.0081``), metric, value, low, high, rows,
    questions, standing. A cell without values (failed or pending) has one row with a null metric.

    Cells with the same data set, LLM and PRM compete. The standing is "best", "tied" (not significantly different from
    the best after Holm's correction), "worse" (significantly different), or null if the value was not compared.
    """
    cells = numbered_cells(*COORDINATES, "status", "reason", "difference").where(Cell.leaderboard == table)
    # It is null for values over all questions.
    same_level = Result.question_level == (None if question_level is None else str(question_level))
    values = "metric", "value", "low", "high", "rows", "questions"
    done = sa.select(*Result.columns("cell_id", *values)).join(Cell, Cell.cell_id == Result.cell_id)
    # A condition on cells beside the outer join would make it twenty times slower.
    results = done.where(Cell.status == "done", same_level).subquery()
    same_cell = results.c.cell_id == Cell.cell_id
    query = cells.add_columns(*(results.c[name] for name in values)).outerjoin(results, same_cell)
    with connection_of(source) as connection:
        descriptions = metrics(connection)
        rows = frame(connection, query).assign(standing=None)
        if question_level is None:
            unranked = references(connection)
            rivals = ~rows["cell_id"].isin(unranked)
            tests = frame(connection, _tests_with_best(table, unranked))
            rows.loc[rivals, "standing"] = standings(rows[rivals], tests, descriptions)
    rows = with_names(rows, names)
    order = {name: position for position, name in enumerate(descriptions.ordered(rows["metric"].dropna().unique()))}
    rows = rows.assign(position=rows["metric"].map(order)).sort_values(["number", "position"], kind="stable")
    return rows.drop(columns="position").reset_index(drop=True)


def _tests_with_best(table: Leaderboard, unranked: Collection[str]) -> sa.Select[*tuple[Any, ...]]:
    """Select the comparisons with the best cells of all settings. Their number grows only with the number of cells."""
    value = Result.value
    cost = sa.case({"lower": value, "higher": -value, "near zero": sa.func.abs(value)}, value=DescribedMetric.better)
    rank = sa.func.rank().over(partition_by=(Result.metric, Cell.dataset, Cell.llm, Cell.prm), order_by=cost)
    ranked = (
        sa.select(Result.metric, Result.cell_id, rank.label("rank"))
        .join(Cell, Cell.cell_id == Result.cell_id)
        .join(DescribedMetric, DescribedMetric.name == Result.metric)
        .where(Cell.leaderboard == table, Cell.status == "done", Result.question_level.is_(None))
        .where(DescribedMetric.better.is_not(None), ~sa.func.isnan(value), Cell.cell_id.not_in(unranked))
        .subquery()
    )
    tests = sa.select(*Comparison.columns("metric", "cell_a", "cell_b", "p_adjusted"))
    tests = tests.where(Comparison.leaderboard == table)
    is_best = (ranked.c.metric == Comparison.metric) & (ranked.c.rank == 1)
    sides = Comparison.cell_a, Comparison.cell_b
    return sa.select(
        sa.union_all(*(tests.join(ranked, is_best & (ranked.c.cell_id == side)) for side in sides)).subquery()
    )


def leaderboard(source: Source, /, table: Leaderboard = "calibration", **filters: Any) -> pd.DataFrame:
    """Return a leaderboard with one row per cell and separate columns for every metric.

    Filters are as in :func:`measurements`. The columns are cell_id, number and those of
    :data:`prmcal.db.metrics.COORDINATES`; for each metric ``<metric>``, ``<metric>_low``, ``<metric>_high`` and
    ``<metric>_standing``; then rows and questions (the smallest numbers behind any value of the cell), on the
    calibration leaderboard independent (how many independent prefixes have a mean error as uncertain as these), status,
    reason and difference.
    """
    with connection_of(source) as connection:
        long, descriptions = measurements(connection, table, **filters), metrics(connection)
    identity = ["cell_id", "number", *COORDINATES]
    status_columns = ["status", "reason", "difference"]
    wide = long.drop_duplicates("cell_id")[[*identity, *status_columns]].set_index("cell_id", drop=False)
    blocks = [wide[identity]]
    known_metrics = [metric.name for metric in descriptions.of(table)]
    for metric in [*known_metrics, *sorted(set(long["metric"].dropna().unique()) - set(known_metrics))]:
        of_metric = long[long["metric"] == metric].set_index("cell_id")
        rows = of_metric[["value", "low", "high", "standing"]]
        rows.columns = [metric, *(f"{metric}_{name}" for name in rows.columns[1:])]
        blocks.append(rows.reindex(wide.index))
    blocks.append(long.groupby("cell_id")[["rows", "questions"]].min().reindex(wide.index))
    if table == "calibration":
        blocks.append(_independent(pd.concat(blocks[1:], axis=1)))
    blocks.append(wide[status_columns])
    # The copy joins the blocks of the metrics. Without it, pandas warns a caller who adds a column.
    return pd.concat(blocks, axis=1).reset_index(drop=True).copy()


def _independent(board: pd.DataFrame) -> "pd.Series[float]":
    """Return the variance of the errors of prefixes, divided by the variance of their mean from its 95% interval."""
    errors = board.reindex(columns=["brier", "signed_error", "signed_error_low", "signed_error_high"]).astype(float)
    deviation = (errors["signed_error_high"] - errors["signed_error_low"]) / (2 * NormalDist().inv_cdf(0.975))
    number = (errors["brier"] - errors["signed_error"] ** 2) / deviation.where(deviation > 0) ** 2
    return number.clip(upper=board["rows"].astype(float)).rename("independent")


_FILE = Path(__file__).with_name("reported.csv")

NAMED = ["dataset", "llm", "prm", "calibrator", "strategy", "metric"]
"""The columns that assign a number of the paper to a measured value."""


def reported(**filters: str) -> pd.DataFrame:
    """Return the numbers of the paper, one per row. Filters such as ``dataset="math500"`` select rows.

    The columns are table (its label in the paper's source), dataset, llm, prm, calibrator, strategy, metric, value,
    digits (decimal places in the paper) and status, which is ``reported``. Calibrators and strategies have the names
    under which they are registered, and LLMs, PRMs and data sets the names in ``grids/paper.yaml``. A coordinate that
    does not apply is None: a calibration error has no strategy.
    """
    text = pd.read_csv(_FILE, dtype=str, keep_default_na=False)
    for column, name in filters.items():
        text = text[text[column] == name]
    numbers = text.replace("", None).reset_index(drop=True)
    numbers["digits"] = text["value"].str.partition(".")[2].str.len().to_numpy()
    numbers["value"] = text["value"].astype(float).to_numpy()
    numbers["status"] = "reported"
    return numbers


def error_histograms(source: Source) -> pd.DataFrame:
    """Return the histograms of the errors of the rewards: point estimate minus success rate.

    The columns are dataset, prm, llm, calibrator, cell_id, bin (from 0), lower and upper (the edges, in [-1, 1]) and
    count (the number of prefixes). Rows are sorted by these. Only finished cells have rows.
    """
    cell_columns = Cell.columns("dataset", "prm", "llm", "calibrator", "cell_id")
    bars = SignedErrorBin.columns("bin", "lower", "upper", "count")
    query = (
        sa.select(*cell_columns, *bars)
        .join(SignedErrorBin, SignedErrorBin.cell_id == Cell.cell_id)
        .where(Cell.leaderboard == "calibration", Cell.status == "done")
        .order_by(*cell_columns, SignedErrorBin.bin)
    )
    return frame(source, query)
