"""The scaling results of a grid: strategies on the leaderboard, and curves of accuracy against budget."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prmcal.db.queries import catalog
from prmcal.db.reader import Source

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ScalingEvidence", "read_scaling"]

# The setting of the tables of the paper. A grid without it is shown with its nearest setting.
_TARGET, _LEVEL = 0.99, 0.1


@dataclass(frozen=True, eq=False)
class ScalingEvidence:
    """The scaling results of a grid.

    Attributes
    ----------
    registered : dict of str to str
        The registered name of each strategy, in the order of the grid.
    cells : DataFrame
        Values of the scaling leaderboard, for the target C and the levels beta of the tables.
    points : DataFrame
        The points of all curves, from :func:`prmcal.db.queries.curves.curve_points`.
    target : float or None
        Target C of the cells; None if no strategy has one.
    """

    registered: dict[str, str]
    cells: pd.DataFrame = field(repr=False)
    points: pd.DataFrame = field(repr=False)
    target: float | None = None

    def named(self, plugin: str) -> list[str]:
        """Return the names in the grid of the strategies with this registered name."""
        return [label for label, registered in self.registered.items() if registered == plugin]

    def curves(self, dataset: str, prm: str, llm: str) -> pd.DataFrame:
        """Return the points of one group, over all questions and by difficulty."""
        points = self.points
        here = (points["dataset"] == dataset) & (points["prm"] == prm) & (points["llm"] == llm)
        return points[here]


def read_scaling(source: Source) -> ScalingEvidence:
    """Read the scaling results. A grid may have none."""
    cells, named = catalog.measurements(source, "scaling"), catalog.plugins(source)
    strategies = named[named["kind"] == "strategy"].sort_values("position")
    target = _nearest(cells["target"], _TARGET)
    cells = cells[cells["target"].isna() | (cells["target"] == target)]
    return ScalingEvidence(
        registered=dict(strategies[["name", "plugin"]].itertuples(index=False)),
        cells=_at_one_level(cells),
        points=catalog.curve_points(source),
        target=target,
    )


def _nearest(values: pd.Series[Any], wanted: float) -> float | None:
    known = sorted(set(values.dropna()), key=lambda value: (abs(value - wanted), value))
    return float(known[0]) if known else None


def _at_one_level(cells: pd.DataFrame) -> pd.DataFrame:
    """Keep one level beta of each calibrator, the nearest to 0.1. A point estimate has only the median."""
    levels = {
        calibrator: _nearest(group["level"], _LEVEL)
        for calibrator, group in cells.dropna(subset=["level"]).groupby("calibrator")
    }
    chosen = cells["calibrator"].map(levels)
    return cells[cells["level"].isna() | (cells["level"] == chosen)].reset_index(drop=True)
