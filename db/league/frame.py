"""The league as a table of numbers, for files and notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prmcal.db.league.types import League, LeagueRow
from prmcal.db.metrics import accuracy_at_name
from prmcal.db.overview.types import UNKNOWN

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["league_frame"]


def league_frame(found: League) -> pd.DataFrame:
    """Return the league with one row per entry, the best first.

    Returns
    -------
    DataFrame
        Columns strategy, calibrator, level, rank, rank_low, rank_high, mean_rank, places, wins, ties, losses,
        area_gain, ``accuracy_at_<n>``, saving_95, order_error and citation: see
        :class:`prmcal.db.league.types.LeagueRow`. A ``Quantity`` has two columns more, ``<column>_low`` and
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
