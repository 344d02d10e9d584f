"""The results of a run, read once from its published database for all tables and figures."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from prmcal.db import catalog
from prmcal.db.metrics import COORDINATES, Metrics
from prmcal.db.overview.types import Overview
from prmcal.db.queries.leaderboard import reported
from prmcal.db.reader import known_levels, reading
from prmcal.db.statistics.paired import standings
from prmcal.errors import PrmcalError

SETTING = ["dataset", "prm", "llm"]
"""A data set, a PRM and an LLM are a setting. Cells of one setting compete."""
_TARGET, _LEVEL = 0.99, 0.1  # of the tables of the paper; a grid without them is shown with its nearest ones


@dataclass(frozen=True, eq=False, repr=False)
class Evidence:
    """The results of a grid.

    `run` is the row of the latest run, and `names` has the names of each kind in the order of the grid. `before` has
    the calibrator that leaves rewards unchanged. `after` has the calibrator of the paper's Table 1, else the last one.
    The calibrator of the lowest error would be a choice on the test questions. Strategies are for `target`, the C of
    the tables, and for one level. Strategies without a PRM are there for every PRM. `plugin` is their registered name.
    """

    run: dict[str, Any]
    names: dict[str, list[str]]
    before: list[str]
    after: list[str]
    metrics: Metrics
    calibration: pd.DataFrame
    compared: pd.DataFrame
    histograms: pd.DataFrame
    target: float | None
    strategies: pd.DataFrame
    by_difficulty: pd.DataFrame
    points: pd.DataFrame
    overview: Overview

    def errors(self, metrics: Sequence[str], calibrators: Sequence[str]) -> pd.DataFrame:
        """Return metrics of calibrators in every setting, a row each, with their standings among themselves."""
        rows = self.calibration[self.calibration["calibrator"].isin(calibrators)].reset_index(drop=True)
        rows = rows.assign(standing=standings(rows, self.compared, self.metrics))
        return self.in_order(by_metric(rows, metrics))

    def strategies_of(self, table: str) -> pd.DataFrame:
        """Return the results of the strategies of a table of the paper, in the settings where one has a calibrator."""
        rows = self.strategies[self.strategies["plugin"].isin(reported(table=table)["strategy"])]
        return rows.merge(rows.loc[rows["calibrator"].notna(), SETTING].drop_duplicates())

    def in_order(self, rows: pd.DataFrame, by: Sequence[str] = SETTING) -> pd.DataFrame:
        """Return rows in the order that the names of some kinds have in the grid."""

        def placed(column: pd.Series) -> pd.Series:
            return column.map(self.names[str(column.name)].index, na_action="ignore")

        return rows.sort_values([*by], key=placed, na_position="first", kind="stable")


def by_metric(rows: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """Return a row for each pair of a cell and a metric, even if it has no value. Of equal cells, the first counts."""
    cells = rows.drop_duplicates(COORDINATES)[["cell_id", *COORDINATES, "status", "reason"]]
    pairs = cells.merge(pd.DataFrame({"metric": list(metrics)}), how="cross")
    values = rows[["cell_id", "metric", "value", "low", "high", "rows", "questions", "standing"]]
    values = values.drop_duplicates(["cell_id", "metric"]).rename(columns={"rows": "prefixes"})
    return pairs.merge(values, how="left", on=["cell_id", "metric"])


def for_every_prm(rows: pd.DataFrame, prms: Iterable[str]) -> pd.DataFrame:
    """Repeat rows without a PRM for each PRM, before the rows with one."""
    without = rows["prm"].isna()
    shared = rows[without].drop(columns="prm").merge(pd.DataFrame({"prm": list(prms)}), how="cross")
    return pd.concat([shared, rows[~without]], ignore_index=True) if len(shared) else rows


def at_one_level(rows: pd.DataFrame) -> pd.DataFrame:
    """Keep one level beta of each calibrator, the nearest to 0.1. A point estimate has only the median."""
    distance = (rows["level"] - _LEVEL).abs() + 1e-9 * rows["level"]  # the lower one of two that are as near
    return rows[~(distance > distance.groupby(rows["calibrator"]).transform("min"))]


def read_evidence(published: Path, ranked: Overview | None = None) -> Evidence:
    """Read a published database, without reading its overview twice. Raise PrmcalError without results."""
    with reading(published) as source:
        rows, runs, plugins = catalog.measurements(source), catalog.runs(source), catalog.plugins(source)
        if rows.empty or runs.empty:
            raise PrmcalError(f"{published.parent} has no calibration results to report. Run its grid first.")
        metrics, baselines = catalog.metrics(source), catalog.with_role(source, "baseline")
        compared, histograms = catalog.comparisons(source), catalog.error_histograms(source)
        scaling, points = catalog.measurements(source, "scaling"), catalog.curve_points(source)
        by_difficulty = [
            catalog.measurements(source, "scaling", question_level=level).assign(question_level=level)
            for level in known_levels(points["question_level"])
        ]
        overview = ranked or catalog.overview(source)
    plugin_of = plugins.sort_values("position").set_index(["kind", "name"])["plugin"]
    measured = {kind: set(rows[kind]) for kind in (*SETTING, "calibrator")} | {"strategy": set(scaling["strategy"])}
    names = {kind: [*filter(used.__contains__, plugin_of.get(kind, {}).keys())] for kind, used in measured.items()}
    before = [name for name in names["calibrator"] if name in baselines][:1]
    other_calibrators = [name for name in names["calibrator"] if name not in before]
    of_paper = set(reported(table="cal_qwen")["calibrator"])
    proposed = [name for name in other_calibrators if plugin_of["calibrator", name] in of_paper]
    targets = scaling["target"].dropna().unique()
    target = min(targets, key=lambda value: (abs(value - _TARGET), value), default=None)
    strategies = at_one_level(scaling[scaling["target"].isna() | (scaling["target"] == target)])
    strategies["plugin"] = strategies["strategy"].map(plugin_of.get("strategy", {}))
    return Evidence(
        run=runs.to_dict("records")[-1],
        names=names,
        before=before,
        after=[*proposed, *reversed(other_calibrators)][:1],
        metrics=metrics,
        calibration=rows,
        compared=compared[compared["leaderboard"] == "calibration"],
        histograms=histograms.drop_duplicates([*SETTING, "calibrator", "lower"]),
        target=target,
        strategies=for_every_prm(strategies, names["prm"]),
        by_difficulty=pd.concat(by_difficulty or [scaling.head(0).assign(question_level=None)]),
        points=points.drop_duplicates([*SETTING, "calibrator", "level", "question_level", "point"]),
        overview=overview,
    )
