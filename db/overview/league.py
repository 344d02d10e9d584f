"""The league of a run, as data and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from prmcal.db.metrics import LEAGUE_BUDGETS, PLACE, accuracy_at_name
from prmcal.db.overview.ranking import mean_of_ends, means_over_places, rank_by_means
from prmcal.db.overview.reading import (
    citations,
    counted_tests,
    question_values,
    results,
    status_counts,
    tested_questions,
    tests_between,
)
from prmcal.db.overview.types import UNKNOWN, Entry, League, LeagueRow, Outcomes, flat
from prmcal.db.queries.cells import kept, with_role
from prmcal.db.queries.health import health
from prmcal.db.reader import Source, connection_of, frame
from prmcal.db.statistics.intervals import bounded_interval
from prmcal.db.tables import Cell, LeaguePoint

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

    `llm`, `prm`, `dataset` and `tier` are as for :func:`prmcal.db.overview.query.overview`. `calibrator` and `strategy`
    keep only entries with these names. Strategies without a calibrator stay.
    """
    chosen = {"llm": llm, "prm": prm, "dataset": dataset, "calibrator": calibrator, "strategy": strategy}
    with connection_of(source) as connection:
        cells, entries = _cells(connection, chosen, tier)
        findings = health(connection, llm=llm, prm=prm, dataset=dataset)
        done = cells[cells["status"] == "done"]
        placed = done[["cell_id", *PLACE, "strategy", "entry"]]
        values = question_values(connection, placed, _BY_QUESTION, ["cell_id", "metric"])
        savings = results(connection, placed, ["saving_95"])
        tests = tests_between(connection, placed, _RANKING, "entry")
        points = frame(
            connection,
            sa.select(
                LeaguePoint.cell_id,
                sa.func.max(LeaguePoint.order_error).label("error"),
                sa.func.max(LeaguePoint.samples).label("most"),
            ).group_by(LeaguePoint.cell_id),
        )
        references = with_role(connection, "reference")
        published, questions = citations(connection, "strategy"), tested_questions(connection, cells)
    errors = points.set_index("cell_id")["error"]
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
    without = [number for number, each in enumerate(entries) if each.strategy in references]
    counts = counted_tests(tests, lower_wins=False, without=without)
    rows = []
    for number, own in done.groupby("entry", sort=False):
        entry = entries[number]
        rows.append(
            LeagueRow(
                outcomes=counts.get(number, Outcomes()),
                entry=entry,
                citation=published.get(entry.strategy, ""),
                rank=ranks.get(number),
                gain=gains[number],
                accuracies={budget: found[number] for budget, found in accuracies.items() if number in found},
                saving=mean_of_ends(savings[savings["entry"] == number]),
                order_error=float(errors.reindex(own["cell_id"]).max()),
                places=len(own),
            )
        )
    rows.sort(key=lambda row: (row.rank.rank if row.rank else np.inf, -row.gain.value, row.entry.name))
    return League(
        places=len(done[PLACE].drop_duplicates()),
        questions=questions,
        budgets=tuple(sorted(set(done.merge(points, on="cell_id").groupby(PLACE)["most"].max().map(round)))),
        counts=status_counts(cells),
        rows=tuple(rows),
        health=findings,
    )


def league_points(
    source: Source, dataset: str, llm: str, prm: str, conditions: str | None = None
) -> pd.DataFrame:
    """Return the curves of all strategies at a place; with the first conditions of the place for None.

    The columns are cell_id, strategy, calibrator, level, point, samples and accuracy with their intervals
    (``samples_low`` and so on), order_error and questions.
    """
    columns = [column for column in LeaguePoint.__table__.columns if column.name != "cell_id"]
    query = (
        sa.select(*Cell.columns("cell_id", "conditions", "strategy", "calibrator", "level"), *columns)
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
    found = frame(source, query)
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

    names = ("cell_id", *PLACE, "strategy", "calibrator", "level", "status")
    query = sa.select(*Cell.columns(*names)).where(Cell.leaderboard == "league", Cell.version == "")
    query = query.order_by(Cell.cell_id)
    if tier is not None:
        query = query.where(Cell.at_tier(tier))
    found = kept(frame(connection, query), **chosen)
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


def league_frame(found: League) -> pd.DataFrame:
    """Return the league with one row per entry, the best first. A reference has no rank.

    The columns are strategy, calibrator, level, rank, rank_low, rank_high, mean_rank, places, wins, ties, losses,
    area_gain, ``accuracy_at_<n>``, saving_95, order_error and citation: see
    :class:`prmcal.db.overview.types.LeagueRow`. A ``Quantity`` has two columns more, ``<column>_low`` and
    ``<column>_high``.
    """
    import pandas as pd

    return pd.DataFrame([_row(each) for each in found.rows])


def _row(row: LeagueRow) -> dict[str, Any]:
    ranks = ("rank", "rank_low", "rank_high")
    return flat(
        {
            "strategy": row.entry.strategy,
            "calibrator": row.entry.calibrator or None,
            "level": row.entry.level,
            **{name: getattr(row.rank, name, None) for name in ranks},
            "mean_rank": row.rank.mean_rank if row.rank else UNKNOWN,
            "places": row.places,
            **vars(row.outcomes),
            "area_gain": row.gain,
            **{accuracy_at_name(budget): value for budget, value in row.accuracies.items()},
            "saving_95": row.saving,
            "order_error": row.order_error,
            "citation": row.citation,
        }
    )
