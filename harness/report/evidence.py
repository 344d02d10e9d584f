"""The results of a run, read once from its published database for all tables and figures."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from prmcal.db import catalog
from prmcal.db.metrics import Metrics
from prmcal.db.overview.query import overview
from prmcal.db.overview.types import Overview
from prmcal.db.queries.leaderboard import reported
from prmcal.db.reader import known_levels, reading
from prmcal.db.statistics.paired import standings
from prmcal.errors import PrmcalError

PLACE = ("dataset", "prm", "llm")
"""A data set, PRM and LLM name a place. Cells of the same place compete."""
_CELL = (*PLACE, "strategy", "calibrator")
# The setting of the tables of the paper. A grid without it is shown with its nearest setting.
_TARGET, _LEVEL = 0.99, 0.1
_TABLE_1 = "cal_qwen"


@dataclass(frozen=True, eq=False, repr=False)
class Evidence:
    """The results of a grid.

    `run` is the row of the latest run in the table ``runs``. Names are in the order of the grid; those of the measured
    calibration metrics are in the order of the leaderboard, and `described` has their titles. `uncalibrated` is the
    calibrator that leaves rewards unchanged, if there is one. `registered` has the registered name of each calibrator
    and strategy, by its kind and its name.

    `histograms` has the signed errors of rewards: dataset, prm, llm, calibrator, lower, upper and count (of prefixes).
    `calibration` has the results of calibrators, as :func:`prmcal.db.queries.leaderboard.measurements` returns them,
    and `compared` the paired comparisons.

    `target` is the C of the tables, if strategies have one, and `strategies` has the results of strategies for it and
    for the levels of the tables. `by_difficulty` has the same over the questions of one difficulty, with the column
    question_level; there, best-of-n with a fixed n, from the curves, is the strategy ``n = 4`` and so on.
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
    calibration: pd.DataFrame
    compared: pd.DataFrame
    target: float | None
    strategies: pd.DataFrame
    by_difficulty: pd.DataFrame
    overview: Overview

    @property
    def places(self) -> dict[str, tuple[str, ...]]:
        """The names of which all places are made, for :func:`wanted`."""
        return {"dataset": self.datasets, "prm": self.prms, "llm": self.llms}

    def among(self, calibrators: Iterable[str]) -> pd.DataFrame:
        """Return the calibration results of some calibrators. Their standings are among themselves."""
        kept = self.calibration["calibrator"].isin(list(calibrators))
        found = self.calibration[kept].reset_index(drop=True)
        return found.assign(standing=standings(found, self.compared, self.described)["standing"])

    def strategies_of_paper(self, label: str) -> tuple[list[str], list[str]]:
        """Return the names of the strategies of a table of the paper: with a fixed budget, and with IAS."""
        rows = reported(table=label)
        adaptive = rows["calibrator"].notna()

        def named(plugins: pd.Series) -> list[str]:
            known = [(name, own) for (kind, name), own in self.registered.items() if kind == "strategy"]
            return [name for plugin in plugins.unique() for name, own in known if own == plugin]

        return named(rows.loc[~adaptive, "strategy"]), named(rows.loc[adaptive, "strategy"])

    @property
    def method(self) -> str | None:
        """The calibrator for "after calibration": that of Table 1 of the paper, else the last of the grid.

        It is not the one with the lowest error, since that would be a choice on the test questions.
        """
        others = [name for name in self.calibrators if name != self.uncalibrated]
        of_paper = set(reported(table=_TABLE_1)["calibrator"])
        proposed = [name for name in others if self.registered.get(("calibrator", name)) in of_paper]
        return next(iter([*proposed, *reversed(others)]), None)

    @property
    def before_and_after(self) -> list[str]:
        """The uncalibrated rewards and the method, as far as the grid has them."""
        return [name for name in (self.uncalibrated, self.method) if name is not None]


def wanted(columns: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    """Return all combinations of some names, a row each. The last column varies fastest."""
    return pd.DataFrame(itertools.product(*columns.values()), columns=list(columns), dtype=object)


def values(measured: pd.DataFrame, asked: pd.DataFrame) -> pd.DataFrame:
    """Return the values that are asked for. A strategy without a PRM has the same values for every PRM.

    `measured` has the results, of which the first of equal cells counts. `asked` has the columns metric, dataset, prm,
    llm, and those of strategy, calibrator, target, level and question_level that tell the values apart. The result has
    the rows of `asked` in their order, with value, low, high, prefixes (for a strategy: trajectories), questions,
    standing, status, and the reason for a missing value. What is missing is None.
    """
    cell = [name for name in (*_CELL, "target", "level", "question_level") if name in asked or name in _CELL]
    asked = asked.reindex(columns=list(dict.fromkeys([*asked.columns, *cell])))
    every = for_every_prm(measured, asked["prm"].unique()).rename(columns={"rows": "prefixes"})
    found = every[every["value"].notna()].drop_duplicates([*cell, "metric"])
    states = every.drop_duplicates(cell)[[*cell, "status", "reason"]]
    others = ("value", "low", "high", "prefixes", "questions", "standing", "target", "level")
    found = found[[*cell, "metric", *(name for name in others if name not in cell)]]
    rows = with_none(asked).merge(with_none(found), how="left", on=[*cell, "metric"])
    rows = with_none(rows.merge(with_none(states), how="left", on=cell))
    reasons = [
        None if row["value"] is not None else _reason(row["status"], row["reason"])
        for row in rows.to_dict("records")
    ]
    return with_none(rows.assign(reason=reasons, status=rows["status"].fillna("missing")))


def _reason(status: str | None, reason: str | None) -> str:
    reasons = {
        None: "The grid has no such cell.",
        "failed": f"Failed: {reason or 'no reason was recorded.'}",
        "pending": "Pending: the run is not finished.",
    }
    return " ".join(reasons.get(status, "It was not measured.").split())


def for_every_prm(rows: pd.DataFrame, prms: Iterable[str]) -> pd.DataFrame:
    """Return rows in which those without a PRM are repeated for each PRM, after those that have one."""
    without = rows["prm"].isna()
    shared = rows[without].drop(columns="prm").merge(pd.DataFrame({"prm": list(prms)}), how="cross")
    return pd.concat([rows[~without], shared]) if len(shared) else rows[~without]


def with_none(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows in which everything that is missing is None, so that joins match it."""
    return rows.astype(object).where(rows.notna(), None)


def read_evidence(published: Path) -> Evidence:
    """Read a published database on one connection, so that all results belong to one state.

    Raise DatabaseError if it cannot be read, and PrmcalError if it has no calibration results.
    """
    with reading(published) as source:
        found, described = catalog.measurements(source, "calibration"), catalog.metrics(source)
        named, ran, compared = catalog.plugins(source), catalog.runs(source), catalog.comparisons(source)
        if found.empty or ran.empty:
            raise PrmcalError(
                f"{published.parent} has no calibration results to report. Run a grid with this output folder first."
            )
        scaling, points = catalog.measurements(source, "scaling"), catalog.curve_points(source)
        bars, splits = catalog.error_histograms(source), catalog.datasets(source)
        baselines, ranked = catalog.with_role(source, "baseline"), overview(source)
        difficulties = known_levels(points["question_level"].dropna().unique())
        by_difficulty = [
            catalog.measurements(source, "scaling", question_level=level).assign(question_level=level)
            for level in difficulties
        ]
    target = _nearest(scaling["target"], _TARGET)
    strategies = _at_one_level(scaling[scaling["target"].isna() | (scaling["target"] == target)])
    of_tables = [each[each["cell_id"].isin(strategies["cell_id"])] for each in by_difficulty]
    used = {kind: _in_order(named, found, kind) for kind in (*PLACE, "calibrator")}
    ordered = named.sort_values(["kind", "position"])[["kind", "name", "plugin"]]
    return Evidence(
        run=ran.to_dict("records")[-1],
        splits=splits,
        datasets=used["dataset"],
        prms=used["prm"],
        llms=used["llm"],
        calibrators=used["calibrator"],
        metrics=tuple(described.ordered(found["metric"].dropna())),
        described=described,
        uncalibrated=next((name for name in used["calibrator"] if name in baselines), None),
        registered={(kind, name): plugin for kind, name, plugin in ordered.itertuples(index=False)},
        histograms=bars,
        calibration=found,
        compared=compared[compared["leaderboard"] == "calibration"],
        target=target,
        strategies=strategies,
        by_difficulty=pd.concat([*of_tables, _of_fixed_n(points)]),
        overview=ranked,
    )


def _in_order(named: pd.DataFrame, found: pd.DataFrame, kind: str) -> tuple[str, ...]:
    labels = set(found[kind].dropna())
    known = [name for name in named[named["kind"] == kind]["name"] if name in labels]
    return (*known, *sorted(labels - set(known)))


def _nearest(numbers: pd.Series, asked: float) -> float | None:
    known = sorted(set(numbers.dropna()), key=lambda value: (abs(value - asked), value))
    return float(known[0]) if known else None


def _at_one_level(cells: pd.DataFrame) -> pd.DataFrame:
    """Keep one level beta of each calibrator, the nearest to 0.1. A point estimate has only the median."""
    levels = {
        calibrator: _nearest(group["level"], _LEVEL)
        for calibrator, group in cells.dropna(subset=["level"]).groupby("calibrator")
    }
    chosen = cells["calibrator"].map(levels)
    return cells[cells["level"].isna() | (cells["level"] == chosen)].reset_index(drop=True)


def _of_fixed_n(points: pd.DataFrame) -> pd.DataFrame:
    """Return the accuracies of best-of-n by difficulty, as strategies."""
    rows = points[points["calibrator"].isna() & points["question_level"].notna()]
    ends = {"accuracy": "value", "accuracy_low": "low", "accuracy_high": "high"}
    names = [f"n = {n:g}" for n in rows["samples"]]
    return rows.rename(columns=ends).assign(strategy=names, metric="accuracy", status="done", reason=None)
