"""The ranking of an overview as a table of numbers, for files and notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prmcal.db.metrics import MAIN_METRICS, RANKING_METRIC
from prmcal.db.overview.types import UNKNOWN, Gain, Overview, Standing

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ranking_frame"]


def ranking_frame(found: Overview) -> pd.DataFrame:
    """Return the ranking with one row per calibrator, the best first.

    Returns
    -------
    DataFrame
        Columns calibrator, rank, rank_low, rank_high, mean_rank, places, lowest, wins, ties, losses, brier, cut, the
        other main metrics of the calibration leaderboard, ias_accuracy, ias_samples, ias_share, ias_to_best_of_n,
        ias_to_equal_cost, fit_seconds and citation: see :class:`prmcal.db.overview.types.Standing` and
        :class:`prmcal.db.overview.types.Gain`. A ``Quantity`` has two columns more, ``<column>_low`` and
        ``<column>_high``. What was not measured is missing.
    """
    import pandas as pd

    return pd.DataFrame([_row(each) for each in found.ranking])


def _row(standing: Standing) -> dict[str, Any]:
    others = [name for name in MAIN_METRICS["calibration"] if name != RANKING_METRIC]
    names = ("calibrator", "rank", "rank_low", "rank_high")
    counts = ("places", "lowest", "wins", "ties", "losses")
    return {
        **{name: getattr(standing, name) for name in names},
        **standing.mean_rank.columns("mean_rank"),
        **{name: getattr(standing, name) for name in counts},
        **standing.brier.columns("brier"),
        **(standing.cut or UNKNOWN).columns("cut"),
        **{
            key: end
            for name in others
            for key, end in (standing.errors.get(name) or UNKNOWN).columns(name).items()
        },
        **_gain(standing.gain),
        "fit_seconds": float("nan") if standing.fit_seconds is None else standing.fit_seconds,
        "citation": standing.citation,
    }


def _gain(gain: Gain | None) -> dict[str, float]:
    parts = ("accuracy", "samples", "share", "to_best_of_n", "to_equal_cost")
    return {
        key: end
        for part in parts
        for key, end in (getattr(gain, part, None) or UNKNOWN).columns(f"ias_{part}").items()
    }
