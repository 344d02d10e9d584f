"""The scaling results of a grid: strategies on the leaderboard, and curves of accuracy against budget."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prmcal.db import catalog
from prmcal.db.queries.trajectories import MEDIAN
from prmcal.db.reader import Source
from prmcal.harness.report.evidence.values import Group, Value, value_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ScalingEvidence", "read_scaling", "strategy_value"]

# The setting of the tables of the paper. A grid without it is shown with its nearest setting.
_TARGET, _LEVEL = 0.99, 0.1


@dataclass(frozen=True, eq=False)
class ScalingEvidence:
    """The scaling results of a grid.

    Attributes
    ----------
    registered : dict of str to str
        The registered name of each strategy, in the order of the grid.
    measured : DataFrame
        Values of the scaling leaderboard, for every target C and level beta.
    cells : DataFrame
        The rows of `measured` for the target C and the levels beta of the tables.
    by_difficulty : DataFrame
        The values of `cells` over the questions of one difficulty, with the column question_level.
    points : DataFrame
        The points of all curves, from :func:`prmcal.db.queries.curves.curve_points`.
    target : float or None
        Target C of the cells; None if no strategy has one.
    """

    registered: dict[str, str]
    measured: pd.DataFrame = field(repr=False)
    cells: pd.DataFrame = field(repr=False)
    by_difficulty: pd.DataFrame = field(repr=False)
    points: pd.DataFrame = field(repr=False)
    target: float | None = None

    def named(self, plugin: str) -> list[str]:
        """Return the names in the grid of the strategies with this registered name."""
        return [label for label, registered in self.registered.items() if registered == plugin]

    def curves(self, group: Group) -> pd.DataFrame:
        """Return the points of one group, over all questions and by difficulty."""
        points = self.points
        return points[
            (points["dataset"] == group.dataset) & (points["prm"] == group.prm) & (points["llm"] == group.llm)
        ]

    def predicts_quantiles(self, calibrator: str) -> bool:
        """Return whether a calibrator has a level besides the median. Without one, it has only a point estimate."""
        known = (each.loc[each["calibrator"] == calibrator, "level"] for each in (self.measured, self.points))
        return any((levels.dropna() != MEDIAN).any() for levels in known)


def strategy_value(
    cells: pd.DataFrame, group: Group, strategy: str, calibrator: str | None, metric: str
) -> Value:
    """Return the value of a strategy, or the reason why there is none.

    Parameters
    ----------
    cells : DataFrame
        Rows of :func:`prmcal.db.queries.leaderboard.measurements`. The first that fits is used.
    group : Group
        A strategy without a PRM fits every PRM.
    strategy : str
    calibrator : str or None
    metric : str
    """
    here = cells[
        (cells["dataset"] == group.dataset)
        & (cells["llm"] == group.llm)
        & (cells["strategy"] == strategy)
        & (cells["prm"].isna() | (cells["prm"] == group.prm))
        & (cells["calibrator"].isna() if calibrator is None else cells["calibrator"] == calibrator)
    ]
    found = here[here["metric"] == metric]
    if len(found):
        return value_of(group, found.iloc[0].to_dict())
    status = "missing" if here.empty else str(here["status"].iloc[0])
    reasons = {
        "missing": "The grid has no such cell.",
        "failed": f"Failed: {'' if here.empty else here['reason'].iloc[0]}",
        "pending": "Pending: the run is not finished.",
    }
    reason = reasons.get(status, "It was not measured.")
    return Value(group, calibrator, metric, status, reason=reason, strategy=strategy)


def read_scaling(source: Source) -> ScalingEvidence:
    """Read the scaling results. A grid may have none."""
    measured, named = catalog.measurements(source, "scaling"), catalog.plugins(source)
    strategies = named[named["kind"] == "strategy"].sort_values("position")
    target = _nearest(measured["target"], _TARGET)
    cells = _at_one_level(measured[measured["target"].isna() | (measured["target"] == target)])
    points = catalog.curve_points(source)
    return ScalingEvidence(
        registered=dict(strategies[["name", "plugin"]].itertuples(index=False)),
        measured=measured,
        cells=cells,
        by_difficulty=_by_difficulty(source, cells, points),
        points=points,
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


def _by_difficulty(source: Source, cells: pd.DataFrame, points: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    levels = sorted(int(level) for level in points["question_level"].dropna().unique())
    parts = [
        catalog.measurements(source, "scaling", question_level=level).assign(question_level=level)
        for level in levels
    ]
    found = pd.concat(parts, ignore_index=True) if parts else cells.head(0).assign(question_level=None)
    return found[found["cell_id"].isin(cells["cell_id"]) & found["metric"].notna()].reset_index(drop=True)
