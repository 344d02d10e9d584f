"""What the database says about inference: strategies on the leaderboard, and curves of accuracy against budget."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prmcal.db.queries.catalog import measurements, plugins
from prmcal.db.queries.curves import curve_areas, curve_points
from prmcal.db.reader import Source

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ScalingEvidence", "read_scaling"]

# The setting of the paper's tables; a grid without it is shown with what is nearest.
_TARGET, _LEVEL = 0.99, 0.1


@dataclass(frozen=True, eq=False)
class ScalingEvidence:
    """A grid's results of inference.

    Attributes
    ----------
    registered : dict of str to str
        The plugin behind each strategy's label, in the order of the grid.
    cells : DataFrame
        Values of the scaling leaderboard, for the target C and levels beta of the tables.
    points, areas : DataFrame
        The curves, as :mod:`prmcal.db.queries.curves` gives them.
    target : float or None
        C of the cells; None if no strategy has one.
    """

    registered: dict[str, str]
    cells: pd.DataFrame = field(repr=False)
    points: pd.DataFrame = field(repr=False)
    areas: pd.DataFrame = field(repr=False)
    target: float | None = None

    def labels(self, plugin: str) -> list[str]:
        """The strategies of the grid that are this plugin."""
        return [label for label, registered in self.registered.items() if registered == plugin]

    def curves(self, dataset: str, prm: str, llm: str) -> pd.DataFrame:
        """The points of one place, of all its questions and of those of each difficulty."""
        points = self.points
        here = (points["dataset"] == dataset) & (points["prm"] == prm) & (points["llm"] == llm)
        return points[here]


def read_scaling(source: Source) -> ScalingEvidence:
    """Read what there is; nothing of it is an error where it is absent."""
    cells, named = measurements(source, "scaling"), plugins(source)
    strategies = named[named["kind"] == "strategy"].sort_values("position")
    target = _nearest(cells["target"], _TARGET)
    cells = cells[cells["target"].isna() | (cells["target"] == target)]
    return ScalingEvidence(
        registered=dict(strategies[["name", "plugin"]].itertuples(index=False)),
        cells=_at_one_level(cells),
        points=curve_points(source),
        areas=curve_areas(source),
        target=target,
    )


def _nearest(values: pd.Series[Any], wanted: float) -> float | None:
    known = sorted(set(values.dropna()), key=lambda value: (abs(value - wanted), value))
    return float(known[0]) if known else None


def _at_one_level(cells: pd.DataFrame) -> pd.DataFrame:
    """Of each calibrator the level nearest to 0.1; a point estimate has only its median."""
    levels = {
        calibrator: _nearest(group["level"], _LEVEL)
        for calibrator, group in cells.dropna(subset=["level"]).groupby("calibrator")
    }
    chosen = cells["calibrator"].map(levels)
    return cells[cells["level"].isna() | (cells["level"] == chosen)].reset_index(drop=True)
