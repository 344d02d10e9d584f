"""The calibration results of a grid, read once for all tables and figures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from prmcal.db import catalog
from prmcal.db.metrics import Metrics
from prmcal.db.overview.query import overview
from prmcal.db.overview.types import Overview
from prmcal.db.queries.cells import with_role
from prmcal.db.reader import reading
from prmcal.db.statistics.bootstrap import Ratio
from prmcal.db.statistics.paired import standings
from prmcal.errors import PrmcalError
from prmcal.harness.report.evidence.scaling import ScalingEvidence, read_scaling
from prmcal.harness.report.evidence.values import Group, RewardErrors, Value, value_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Evidence", "read_evidence"]

_BARS = 20
_DIGITS = 9  # later digits may change with the order of summation in the database


@dataclass(frozen=True, eq=False)
class Evidence:
    """A grid's calibration results.

    Attributes
    ----------
    run : dict
        The row of the latest run in the table ``runs``.
    splits : DataFrame
        The splits of data sets that the run uses.
    datasets, prms, llms, calibrators : tuple of str
        Names in the order of the grid.
    metrics : tuple of str
        The measured metrics, in the order of the leaderboard.
    described : Metrics
        The metrics of the run, for their titles and directions.
    uncalibrated : str or None
        Name of the calibrator that leaves rewards unchanged; None if the grid has none.
    registered : dict of str to str
        The registered name of each calibrator.
    errors : dict of Group to RewardErrors
        Errors of the uncalibrated rewards. Groups without measured prefixes are left out.
    histograms : dict of (Group, str) to tuple of int
        Histograms of the errors of calibrated rewards, by group and calibrator: the number of prefixes in each bar of
        equal width over [-1, 1]. Cells without values are left out.
    found, compared : DataFrame
        Values and paired comparisons from the database.
    scaling : ScalingEvidence
        Results of strategies.
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
    registered: dict[str, str]
    errors: dict[Group, RewardErrors]
    histograms: dict[tuple[Group, str], tuple[int, ...]]
    found: pd.DataFrame = field(repr=False)
    compared: pd.DataFrame = field(repr=False)
    scaling: ScalingEvidence = field(repr=False)
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
        """Return the value of a metric of a cell. A missing value has the reason."""
        if (group, calibrator, metric) in self._values:
            return self._values[group, calibrator, metric]
        status, reason = self._cells.get((group, calibrator), ("missing", None))
        reasons = {
            "failed": f"Failed: {reason or 'no reason was recorded.'}",
            "pending": "Pending: the run is not finished.",
            "missing": "The grid has no such cell.",
        }
        reason = reasons.get(status, f"The calibrator '{calibrator}' has no {self.described.title(metric)}.")
        return Value(group, calibrator, metric, status, reason=" ".join(reason.split()))

    @cached_property
    def _values(self) -> dict[tuple[Group, str, str], Value]:
        rows = self.found.dropna(subset=["metric", "value"]).to_dict("records")
        values = [
            (row["calibrator"], value_of(Group(row["dataset"], row["prm"], row["llm"]), row)) for row in rows
        ]
        return {(each.group, calibrator, each.metric): each for calibrator, each in values}

    @cached_property
    def _cells(self) -> dict[tuple[Group, str], tuple[str, str | None]]:
        rows = self.found[["dataset", "prm", "llm", "calibrator", "status", "reason"]]
        return {
            (Group(dataset, prm, llm), calibrator): (status, reason)
            for dataset, prm, llm, calibrator, status, reason in rows.itertuples(index=False)
        }


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
        scaling, splits, baselines = (
            read_scaling(source),
            catalog.datasets(source),
            with_role(source, "baseline"),
        )
        ranked = overview(source)
        errors, bars = catalog.reward_errors(source, _BARS), catalog.error_histograms(source)
    if found.empty or ran.empty:
        raise PrmcalError(
            f"{published.parent} has no calibration results to report. Run a grid with this output folder first."
        )
    registered = dict(named[named["kind"] == "calibrator"][["name", "plugin"]].itertuples(index=False))
    used = {kind: _in_order(named, found, kind) for kind in ("dataset", "prm", "llm", "calibrator")}
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
        registered=registered,
        errors=_errors(errors),
        histograms={
            (Group(dataset, prm, llm), calibrator): tuple(map(int, rows["count"]))
            for (dataset, prm, llm, calibrator), rows in bars.groupby(["dataset", "prm", "llm", "calibrator"])
        },
        found=found,
        compared=compared[compared["leaderboard"] == "calibration"],
        scaling=scaling,
        overview=ranked,
    )


def _in_order(named: pd.DataFrame, found: pd.DataFrame, kind: str) -> tuple[str, ...]:
    labels = set(found[kind].dropna())
    known = [name for name in named[named["kind"] == kind]["name"] if name in labels]
    return (*known, *sorted(labels - set(known)))


def _errors(errors: pd.DataFrame) -> dict[Group, RewardErrors]:
    return {
        Group(dataset, prm, llm): _summary(rows)
        for (dataset, prm, llm), rows in errors.groupby(["dataset", "prm", "llm"])
    }


def _summary(rows: pd.DataFrame) -> RewardErrors:
    """Return the histogram and the mean of the errors of a group. The interval is that of the leaderboard."""
    counts = np.bincount(rows["bin"].astype(int), weights=rows["prefixes"].astype(int), minlength=_BARS)
    by_question = rows.groupby("question_id")[["prefixes", "total"]].sum()
    mean = Ratio(by_question["total"], by_question["prefixes"], by_question.index)
    low, high = (None if np.isnan(end) else round(end, _DIGITS) for end in mean.interval())
    return RewardErrors(
        counts=tuple(int(count) for count in counts),
        mean=round(mean.value(), _DIGITS),
        low=low,
        high=high,
        prefixes=int(by_question["prefixes"].sum()),
        questions=len(by_question),
    )
