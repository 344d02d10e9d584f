"""The results of a run, read once from its published database for all tables and figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prmcal.db import catalog
from prmcal.db.metrics import Metrics
from prmcal.db.overview.query import overview
from prmcal.db.overview.types import Overview
from prmcal.db.queries.cells import with_role
from prmcal.db.queries.leaderboard import reported
from prmcal.db.queries.trajectories import MEDIAN
from prmcal.db.reader import Source, reading
from prmcal.db.statistics.paired import standings
from prmcal.errors import PrmcalError

if TYPE_CHECKING:
    import pandas as pd


# The setting of the tables of the paper. A grid without it is shown with its nearest setting.
_TARGET, _LEVEL = 0.99, 0.1
_TABLE_1 = "cal_qwen"
_PLACE = ("dataset", "prm", "llm")


@dataclass(frozen=True, order=True)
class Group:
    """A data set, PRM and LLM. Cells of the same group compete."""

    dataset: str
    prm: str
    llm: str


@dataclass(frozen=True)
class Value:
    """The value of a metric of a cell, or the reason why there is none.

    Attributes
    ----------
    group : Group
    calibrator : str or None
        None for a strategy without a calibrator.
    metric, status : str
    value, low, high : float or None
        The value with its 95% interval over questions. A single question has no interval.
    prefixes, questions : int or None
        Number of prefixes (of trajectories, for a strategy) and of questions behind the value.
    standing : {"best", "tied", "worse", "kept", "not kept", "open"} or None
        Rank among the values that it competes with, or the verdict on a promise.
    reason : str or None
        Why there is no value, in one line.
    strategy : str or None
    target, level : float or None
        Target probability C and quantile level beta of a strategy.
    question_level : int or None
        Difficulty of the questions; None for all questions.
    published : str or None
        The number of the paper for the same names, with the digits of the paper.
    """

    group: Group
    calibrator: str | None
    metric: str
    status: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    prefixes: int | None = None
    questions: int | None = None
    standing: str | None = None
    reason: str | None = None
    strategy: str | None = None
    target: float | None = None
    level: float | None = None
    question_level: int | None = None
    published: str | None = None


class Values:
    """The values of a leaderboard by their cells.

    Parameters
    ----------
    rows : DataFrame
        As :func:`prmcal.db.queries.leaderboard.measurements` returns it. Of equal cells, the first counts.
    """

    def __init__(self, rows: pd.DataFrame) -> None:
        self._cells: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        known = rows.astype(object).where(rows.notna(), None)
        for row in known.to_dict("records"):
            cell = tuple(row[name] for name in ("dataset", "prm", "llm", "strategy", "calibrator"))
            self._cells.setdefault(cell, row)
            if row["value"] is not None:
                self._rows.setdefault((*cell, row["metric"]), row)

    def value(self, group: Group, calibrator: str | None, metric: str, strategy: str | None = None) -> Value:
        """Return the value of a metric of a cell. A missing value has the reason.

        A strategy without a PRM is shown with every PRM.
        """
        cells = [(group.dataset, prm, group.llm, strategy, calibrator) for prm in (group.prm, None)]
        for cell in cells:
            if (*cell, metric) in self._rows:
                return _value_of(group, self._rows[*cell, metric])
        found = next((self._cells[cell] for cell in cells if cell in self._cells), None)
        status = "missing" if found is None else str(found["status"])
        reasons = {
            "missing": "The grid has no such cell.",
            "failed": f"Failed: {(found or {}).get('reason') or 'no reason was recorded.'}",
            "pending": "Pending: the run is not finished.",
        }
        reason = " ".join(reasons.get(status, "It was not measured.").split())
        return Value(group, calibrator, metric, status, reason=reason, strategy=strategy)


def _value_of(group: Group, row: Mapping[str, Any]) -> Value:
    return Value(
        group=group,
        prefixes=row["rows"],
        **{
            name: row[name]
            for name in (
                *("calibrator", "metric", "status", "value", "low", "high", "questions", "standing"),
                *("strategy", "target", "level"),
            )
        },
    )


@dataclass(frozen=True, eq=False)
class Evidence:
    """The results of a grid.

    Attributes
    ----------
    run : dict
        The row of the latest run in the table ``runs``.
    splits : DataFrame
        The splits of data sets that the run uses.
    datasets, prms, llms, calibrators : tuple of str
        Names in the order of the grid.
    metrics : tuple of str
        The measured calibration metrics, in the order of the leaderboard.
    described : Metrics
        The metrics of the run, for their titles and directions.
    uncalibrated : str or None
        Name of the calibrator that leaves rewards unchanged; None if the grid has none.
    registered : dict of (str, str) to str
        The registered name of each calibrator and strategy, by its kind and its name.
    histograms : DataFrame
        Signed errors of rewards: dataset, prm, llm, calibrator, lower, upper and count (of prefixes).
    others : int
        Number of further calibration cells with the names of another one, which are left out.
    found, compared : DataFrame
        Calibration results and paired comparisons from the database.
    measured : DataFrame
        Results of strategies for every target C and level beta.
    target : float or None
        The target C of the tables; None if no strategy has one.
    cells : DataFrame
        The rows of `measured` for this target and the levels beta of the tables.
    by_difficulty : dict of int to Values
        The values of `cells` over the questions of one difficulty.
    points : DataFrame
        The points of all curves, from :func:`prmcal.db.queries.curves.curve_points`.
    overview : Overview
        The ranking of the calibrators.
    """

    run: dict[str, Any]
    splits: pd.DataFrame
    datasets: tuple[str, ...]
    prms: tuple[str, ...]
    llms: tuple[str, ...]
    calibrators: tuple[str, ...]
    metrics: tuple[str, ...]
    described: Metrics
    uncalibrated: str | None
    registered: dict[tuple[str, str], str]
    histograms: pd.DataFrame
    others: int
    found: pd.DataFrame = field(repr=False)
    compared: pd.DataFrame = field(repr=False)
    measured: pd.DataFrame = field(repr=False)
    target: float | None
    cells: pd.DataFrame = field(repr=False)
    by_difficulty: dict[int, Values] = field(repr=False)
    points: pd.DataFrame = field(repr=False)
    overview: Overview = field(repr=False)

    @property
    def groups(self) -> list[Group]:
        """All groups, in the order of rows."""
        return [
            Group(dataset, prm, llm) for dataset in self.datasets for prm in self.prms for llm in self.llms
        ]

    def among(self, calibrators: Iterable[str]) -> Evidence:
        """Return the results of some calibrators. Their standings are among themselves."""
        kept = tuple(calibrators)
        found = self.found[self.found["calibrator"].isin(kept)].reset_index(drop=True)
        better = {name: self.described.better(name) for name in self.described}
        found["standing"] = standings(found, self.compared, better)["standing"]
        return replace(self, calibrators=kept, found=found)

    def value(self, group: Group, calibrator: str, metric: str) -> Value:
        """Return the value of a calibration metric of a cell."""
        return self._calibration.value(group, calibrator, metric)

    def strategy_value(self, group: Group, strategy: str, calibrator: str | None, metric: str) -> Value:
        """Return the value of a strategy in the setting of the tables."""
        return self._strategies.value(group, calibrator, metric, strategy)

    @cached_property
    def _calibration(self) -> Values:
        return Values(self.found)

    @cached_property
    def _strategies(self) -> Values:
        return Values(self.cells)

    def named(self, plugin: str) -> list[str]:
        """Return the names in the grid of the strategies with this registered name."""
        return [name for (kind, name), own in self.registered.items() if (kind, own) == ("strategy", plugin)]

    def strategies_of_paper(self, label: str) -> tuple[list[str], list[str]]:
        """Return the names of the strategies of a table of the paper: with a fixed budget, and with IAS."""
        rows = reported(table=label)
        adaptive = rows["calibrator"].notna()
        fixed, scaled = (
            [each for plugin in used["strategy"].unique() for each in self.named(plugin)]
            for used in (rows[~adaptive], rows[adaptive])
        )
        return fixed, scaled

    @property
    def method(self) -> str | None:
        """The calibrator for "after calibration": that of Table 1 of the paper, else the last of the grid.

        It is not the one with the lowest error, since that would be a choice on the test questions.
        """
        others = [name for name in self.calibrators if name != self.uncalibrated]
        of_paper = set(reported(table=_TABLE_1)["calibrator"])
        proposed = [name for name in others if self.registered.get(("calibrator", name)) in of_paper]
        return next(iter([*proposed, *reversed(others)]), None)

    def predicts_quantiles(self, calibrator: str) -> bool:
        """Return whether a calibrator has a level besides the median. Without one, it has only a point estimate."""
        known = (each.loc[each["calibrator"] == calibrator, "level"] for each in (self.measured, self.points))
        return any((levels.dropna() != MEDIAN).any() for levels in known)

    def difficulties(self, dataset: str) -> list[int]:
        """Return the difficulties of the questions of a data set for which the run has curves."""
        levels = self.points.loc[self.points["dataset"] == dataset, "question_level"]
        return sorted(map(int, levels.dropna().unique()))


def read_evidence(published: Path) -> Evidence:
    """Read a published database on one connection, so that all results belong to one state.

    Raises
    ------
    DatabaseError
        If there is no database, or it cannot be read.
    PrmcalError
        If the database has no calibration results.
    """
    with reading(published) as source:
        found, described = catalog.measurements(source, "calibration"), catalog.metrics(source)
        named, ran, compared = catalog.plugins(source), catalog.runs(source), catalog.comparisons(source)
        if found.empty or ran.empty:
            raise PrmcalError(
                f"{published.parent} has no calibration results to report. Run a grid with this output folder first."
            )
        measured, points = catalog.measurements(source, "scaling"), catalog.curve_points(source)
        # On a merged leaderboard, cells of the same names differ in their seeds, versions or conditions.
        points = points.drop_duplicates([*_PLACE, "calibrator", "level", "question_level", "point"])
        first = found.drop_duplicates([*_PLACE, "calibrator"])["cell_id"]
        bars = catalog.error_histograms(source)
        target = _nearest(measured["target"], _TARGET)
        cells = _at_one_level(measured[measured["target"].isna() | (measured["target"] == target)])
        used = {kind: _in_order(named, found, kind) for kind in ("dataset", "prm", "llm", "calibrator")}
        baselines = with_role(source, "baseline")
        ordered = named.sort_values(["kind", "position"])[["kind", "name", "plugin"]]
        return Evidence(
            run=ran.to_dict("records")[-1],
            splits=catalog.datasets(source),
            datasets=used["dataset"],
            prms=used["prm"],
            llms=used["llm"],
            calibrators=used["calibrator"],
            metrics=tuple(described.ordered(found["metric"].dropna())),
            described=described,
            uncalibrated=next((name for name in used["calibrator"] if name in baselines), None),
            registered={(kind, name): plugin for kind, name, plugin in ordered.itertuples(index=False)},
            histograms=bars[bars["cell_id"].isin(first)],
            others=found["cell_id"].nunique() - len(first),
            found=found,
            compared=compared[compared["leaderboard"] == "calibration"],
            measured=measured,
            target=target,
            cells=cells,
            by_difficulty=_by_difficulty(source, cells, points),
            points=points,
            overview=overview(source),
        )


def _in_order(named: pd.DataFrame, found: pd.DataFrame, kind: str) -> tuple[str, ...]:
    labels = set(found[kind].dropna())
    known = [name for name in named[named["kind"] == kind]["name"] if name in labels]
    return (*known, *sorted(labels - set(known)))


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


def _by_difficulty(source: Source, cells: pd.DataFrame, points: pd.DataFrame) -> dict[int, Values]:
    found = {}
    for level in sorted(int(level) for level in points["question_level"].dropna().unique()):
        rows = catalog.measurements(source, "scaling", question_level=level)
        found[level] = Values(rows[rows["cell_id"].isin(cells["cell_id"])])
    return found
