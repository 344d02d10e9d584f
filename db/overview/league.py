"""The league of a run, as data and as a table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from prmcal.db.metrics import LEAGUE_BUDGETS, accuracy_at_name
from prmcal.db.overview.ranking import PLACE, mean_of_ends, means_over_places, rank_by_means
from prmcal.db.overview.types import UNKNOWN, Entry, League, LeagueRow
from prmcal.db.queries.cells import with_role
from prmcal.db.reader import Source, connection_of, frame
from prmcal.db.statistics.intervals import bounded_interval
from prmcal.db.statistics.paired import SIGNIFICANCE
from prmcal.db.tables import Cell, Comparison, Dataset, LeaguePoint, Plugin, QuestionResult, Result

if TYPE_CHECKING:
    import pandas as pd


_BY_QUESTION = ("area", "area_gain", *map(accuracy_at_name, LEAGUE_BUDGETS))
_RANKING = "area"


def league(
    source: Source,
    *,
    llm: Sequence[str] | None = None,
    prm: Sequence[str] | None = None,
    dataset: Sequence[str] | None = None,
    calibrator: Sequence[str] | None = None,
    strategy: Sequence[str] | None = None,
    tier: str | None = None,
) -> League:
    """Rank the strategies of a grid by their accuracy over budgets from 1 sample to N.

    Parameters
    ----------
    source : Path or Connection
        The published copy.
    llm, prm, dataset : sequence of str, optional
        Keep only places with these names.
    calibrator, strategy : sequence of str, optional
        Keep only entries with these names. Strategies without a calibrator stay.
    tier : str, optional
        Keep only cells that were verified at this tier or at a higher one.
    """
    chosen = {"llm": llm, "prm": prm, "dataset": dataset, "calibrator": calibrator, "strategy": strategy}
    with connection_of(source) as connection:
        cells, entries = _cells(connection, chosen, tier)
        done = cells[cells["status"] == "done"]
        values = _question_values(connection, done)
        results = _results(connection, done)
        tests = _tests(connection, done)
        points = frame(
            connection,
            sa.select(
                LeaguePoint.cell_id,
                sa.func.max(LeaguePoint.order_error).label("error"),
                sa.func.max(LeaguePoint.samples).label("most"),
            ).group_by(LeaguePoint.cell_id),
        )
        errors = points.set_index("cell_id")["error"]
        references = set(with_role(connection, "reference"))
        plugins = frame(connection, sa.select(Plugin.name, Plugin.citation).where(Plugin.kind == "strategy"))
        tested = frame(connection, sa.select(Dataset.name, Dataset.questions).where(Dataset.split == "test"))
    citations = dict(zip(plugins["name"], plugins["citation"], strict=True))
    competing = values[(values["metric"] == _RANKING) & ~values["strategy"].isin(references)]
    # Lower is better for a rank.
    ranks = rank_by_means(competing.assign(value=-competing["value"]), "entry")
    gains = means_over_places(values[values["metric"] == "area_gain"], "entry")
    accuracies = {
        budget: means_over_places(
            values[values["metric"] == accuracy_at_name(budget)], "entry", bounded_interval
        )
        for budget in LEAGUE_BUDGETS
    }
    counted = _counted(tests, [number for number, each in enumerate(entries) if each.strategy in references])
    rows = []
    for number, own in done.groupby("entry", sort=False):
        entry = entries[number]
        wins, ties, losses = counted[number]
        rows.append(
            LeagueRow(
                entry=entry,
                citation=citations.get(entry.strategy, ""),
                rank=ranks.get(number),
                wins=wins,
                ties=ties,
                losses=losses,
                gain=gains[number],
                accuracies={budget: found[number] for budget, found in accuracies.items() if number in found},
                saving=mean_of_ends(results[results["cell_id"].isin(own["cell_id"])]),
                order_error=float(errors.reindex(own["cell_id"]).max()),
                places=len(own),
            )
        )
    rows.sort(key=lambda row: (row.rank.rank if row.rank else np.inf, -row.gain.value, row.entry.name))
    counts = cells["status"].value_counts()
    return League(
        places=len(done[PLACE].drop_duplicates()),
        questions={
            name: int(number)
            for name, number in zip(tested["name"], tested["questions"], strict=True)
            if name in set(cells["dataset"])
        },
        budgets=tuple(sorted(set(done.merge(points, on="cell_id").groupby(PLACE)["most"].max().map(round)))),
        counts={name: int(counts.get(name, 0)) for name in ("done", "failed", "pending")},
        rows=tuple(rows),
    )


def league_points(
    source: Source, dataset: str, llm: str, prm: str, conditions: str | None = None
) -> pd.DataFrame:
    """Return the curves of all strategies at a place; with the first conditions of the place for None.

    Returns
    -------
    DataFrame
        Columns cell_id, strategy, calibrator, level, point, samples and accuracy with their intervals
        (``samples_low`` and so on), order_error and questions.
    """
    columns = [column for column in LeaguePoint.__table__.columns if column.name != "cell_id"]
    query = (
        sa.select(Cell.cell_id, Cell.conditions, Cell.strategy, Cell.calibrator, Cell.level, *columns)
        .join(LeaguePoint, LeaguePoint.cell_id == Cell.cell_id)
        .where(
            Cell.leaderboard == "league",
            Cell.status == "done",
            Cell.dataset == dataset,
            Cell.llm == llm,
            Cell.prm == prm,
            Cell.version == "",
        )
        .order_by(Cell.cell_id, LeaguePoint.point)
    )
    with connection_of(source) as connection:
        found = frame(connection, query)
    chosen = found["conditions"].min() if conditions is None else conditions
    return found[found["conditions"] == chosen].drop(columns="conditions").reset_index(drop=True)


def _cells(
    connection: sa.Connection, chosen: dict[str, Sequence[str] | None], tier: str | None
) -> tuple[pd.DataFrame, list[Entry]]:
    """Return the cells of the league with these names, and the entries in their order.

    The cells have the columns cell_id, dataset, llm, prm, strategy, calibrator, level, status, and entry, which is the
    number of the entry.
    """
    import pandas as pd

    columns = [
        getattr(Cell, name) for name in ("cell_id", *PLACE, "strategy", "calibrator", "level", "status")
    ]
    query = sa.select(*columns).where(Cell.leaderboard == "league", Cell.version == "").order_by(Cell.cell_id)
    if tier is not None:
        query = query.where(Cell.at_tier(tier))
    found = frame(connection, query)
    for name, values in chosen.items():
        if values is not None:
            found = found[found[name].isin(list(values)) | found[name].isna()]
    named = [
        Entry(str(strategy), calibrator or "", None if level is None else float(level))
        for strategy, calibrator, level in (
            (None if pd.isna(value) else value for value in row)
            for row in found[["strategy", "calibrator", "level"]].itertuples(index=False)
        )
    ]
    entries = sorted(set(named), key=lambda entry: (entry.strategy, entry.calibrator, entry.level or 0.0))
    numbers = {entry: number for number, entry in enumerate(entries)}
    return found.assign(entry=np.array([numbers[each] for each in named], dtype=np.int64)), entries


def _question_values(connection: sa.Connection, cells: pd.DataFrame) -> pd.DataFrame:
    query = sa.select(
        QuestionResult.cell_id, QuestionResult.question_id, QuestionResult.metric, QuestionResult.value
    ).where(QuestionResult.metric.in_(_BY_QUESTION))
    joined = cells[["cell_id", *PLACE, "strategy", "entry"]].merge(frame(connection, query), on="cell_id")
    return joined.sort_values(["cell_id", "metric", "question_id"], ignore_index=True)


def _results(connection: sa.Connection, cells: pd.DataFrame) -> pd.DataFrame:
    """Return the savings of the cells: cell_id, value, low and high, in an order that depends on the names only."""
    query = sa.select(Result.cell_id, Result.value, Result.low, Result.high).where(
        Result.metric == "saving_95", Result.question_level.is_(None)
    )
    return cells[["cell_id"]].merge(frame(connection, query), on="cell_id")


def _tests(connection: sa.Connection, cells: pd.DataFrame) -> pd.DataFrame:
    """Return the tests between the entries: first, second, difference and p_adjusted."""
    query = sa.select(
        Comparison.cell_a, Comparison.cell_b, Comparison.difference, Comparison.p_adjusted
    ).where(Comparison.leaderboard == "league", Comparison.metric == _RANKING)
    entry = cells.set_index("cell_id")["entry"]
    found = frame(connection, query).dropna(subset=["p_adjusted"])
    found = found[found["cell_a"].isin(entry.index) & found["cell_b"].isin(entry.index)]
    return found.assign(
        first=entry.reindex(found["cell_a"]).to_numpy(), second=entry.reindex(found["cell_b"]).to_numpy()
    )


def _counted(tests: pd.DataFrame, references: Sequence[int]) -> dict[int, tuple[int, int, int]]:
    """Return the wins, ties and losses of each entry. Tests against references do not count."""
    found: dict[int, tuple[int, int, int]] = defaultdict(lambda: (0, 0, 0))
    real, first_higher = tests["p_adjusted"] < SIGNIFICANCE, tests["difference"] > 0
    sides = [("first", "second", first_higher), ("second", "first", ~first_higher)]
    for own, other, higher in sides:
        counts = tests[~tests[other].isin(references)]
        outcomes = (
            counts.assign(win=real & higher, tie=~real, loss=real & ~higher)
            .groupby(own)[["win", "tie", "loss"]]
            .sum()
        )
        for entry, row in zip(outcomes.index, outcomes.itertuples(index=False), strict=True):
            before = found[int(entry)]
            found[int(entry)] = (
                before[0] + int(row.win),
                before[1] + int(row.tie),
                before[2] + int(row.loss),
            )
    return found


def league_frame(found: League) -> pd.DataFrame:
    """Return the league with one row per entry, the best first.

    Returns
    -------
    DataFrame
        Columns strategy, calibrator, level, rank, rank_low, rank_high, mean_rank, places, wins, ties, losses,
        area_gain, ``accuracy_at_<n>``, saving_95, order_error and citation: see
        :class:`prmcal.db.overview.types.LeagueRow`. A ``Quantity`` has two columns more, ``<column>_low`` and
        ``<column>_high``. A reference has no rank.
    """
    import pandas as pd

    return pd.DataFrame([_row(each) for each in found.rows])


def _row(row: LeagueRow) -> dict[str, Any]:
    rank = row.rank
    return {
        "strategy": row.entry.strategy,
        "calibrator": row.entry.calibrator or None,
        "level": row.entry.level,
        "rank": rank.rank if rank else None,
        "rank_low": rank.rank_low if rank else None,
        "rank_high": rank.rank_high if rank else None,
        **(rank.mean_rank if rank else UNKNOWN).columns("mean_rank"),
        "places": row.places,
        "wins": row.wins,
        "ties": row.ties,
        "losses": row.losses,
        **row.gain.columns("area_gain"),
        **{
            name: end
            for budget, quantity in row.accuracies.items()
            for name, end in quantity.columns(accuracy_at_name(budget)).items()
        },
        **row.saving.columns("saving_95"),
        "order_error": row.order_error,
        "citation": row.citation,
    }
