"""What the database says about a grid, read once for all tables and figures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prmcal.db.queries.catalog import METRICS, comparisons, datasets, measurements, plugins, reading, runs
from prmcal.db.queries.report import measured_by, reward_errors
from prmcal.db.statistics.bootstrap import Bootstrap, Metric, estimate, weighted_totals
from prmcal.db.statistics.standings import standings
from prmcal.errors import PrmcalError
from prmcal.harness.report.scaling_evidence import ScalingEvidence, read_scaling

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Evidence", "Place", "RewardErrors", "Value", "read_evidence", "title_of"]

_UNCALIBRATED = "uncalibrated"
_BARS = 20
_DIGITS = 9  # the order in which a database adds numbers up may change those that follow


@dataclass(frozen=True, order=True)
class Place:
    """One (data set, PRM, LLM): what the calibrators of a grid compete in."""

    dataset: str
    prm: str
    llm: str


@dataclass(frozen=True)
class Value:
    """A metric of a cell, or why there is none.

    Attributes
    ----------
    place : Place
    calibrator, metric, status : str
    value, low, high : float or None
        With its 95% interval by bootstrap over questions; no interval for a single question.
    prefixes, questions : int or None
        What it rests on.
    standing : {"best", "tied", "worse"} or None
        Among the values it is shown with.
    reason : str or None
        Why there is no value, in one line.
    """

    place: Place
    calibrator: str
    metric: str
    status: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    prefixes: int | None = None
    questions: int | None = None
    standing: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class RewardErrors:
    """Reward minus success rate of a PRM as it is.

    Attributes
    ----------
    counts : tuple of int
        Prefixes in each bar of equal width over [-1, 1].
    mean : float
        In [-1, 1]; above 0 the PRM overestimates.
    low, high : float or None
        95% interval of the mean by bootstrap over questions.
    prefixes, questions : int
    """

    counts: tuple[int, ...]
    mean: float
    low: float | None
    high: float | None
    prefixes: int
    questions: int


@dataclass(frozen=True, eq=False)
class Evidence:
    """A grid's calibration results.

    Attributes
    ----------
    run : dict
        The latest run, columns of the table of runs.
    splits : DataFrame
        The splits of data sets that were used.
    datasets, prms, llms, calibrators : tuple of str
        Labels, in the order of the grid.
    metrics : tuple of str
        Metrics that were measured at all, in the order of the leaderboard.
    uncalibrated : str or None
        Label of the calibrator that leaves rewards as they are, if the grid has it.
    registered : dict of str to str
        The plugin behind each calibrator's label.
    errors : dict of Place to RewardErrors
        Of the PRMs' own rewards; without those places where nothing was measured.
    found, compared : DataFrame
        Values and paired comparisons, as the database has them.
    scaling : ScalingEvidence
        What the strategies made of them.
    """

    run: dict[str, Any]
    splits: pd.DataFrame
    datasets: tuple[str, ...]
    prms: tuple[str, ...]
    llms: tuple[str, ...]
    calibrators: tuple[str, ...]
    metrics: tuple[str, ...]
    uncalibrated: str | None
    registered: dict[str, str]
    errors: dict[Place, RewardErrors]
    found: pd.DataFrame = field(repr=False)
    compared: pd.DataFrame = field(repr=False)
    scaling: ScalingEvidence = field(repr=False)

    @property
    def places(self) -> list[Place]:
        """Every (data set, PRM, LLM), in the order of rows."""
        return [
            Place(dataset, prm, llm) for dataset in self.datasets for prm in self.prms for llm in self.llms
        ]

    def among(self, calibrators: Iterable[str]) -> Evidence:
        """The same with some calibrators only, their standings among themselves."""
        kept = tuple(calibrators)
        found = self.found[self.found["calibrator"].isin(kept)].reset_index(drop=True)
        better = {metric.name: metric.better for metric in METRICS.values()}
        found["standing"] = standings(found, self.compared, better)["standing"]
        return replace(self, calibrators=kept, found=found)

    def value(self, place: Place, calibrator: str, metric: str) -> Value:
        """A metric of a cell; where there is none, what stands in its place says why."""
        if (place, calibrator, metric) in self._values:
            return self._values[place, calibrator, metric]
        status, reason = self._cells.get((place, calibrator), ("missing", None))
        reasons = {
            "failed": f"Failed: {reason or 'it left no reason.'}",
            "pending": "Pending: the run is not finished.",
            "missing": "The grid has no such cell.",
        }
        reason = reasons.get(status, f"The calibrator '{calibrator}' has no {title_of(metric)}.")
        return Value(place, calibrator, metric, status, reason=" ".join(reason.split()))

    @cached_property
    def _values(self) -> dict[tuple[Place, str, str], Value]:
        rows = self.found.dropna(subset=["metric", "value"]).to_dict("records")
        return {(each.place, each.calibrator, each.metric): each for each in map(_value, rows)}

    @cached_property
    def _cells(self) -> dict[tuple[Place, str], tuple[str, str | None]]:
        rows = self.found[["dataset", "prm", "llm", "calibrator", "status", "reason"]]
        return {
            (Place(dataset, prm, llm), calibrator): (status, reason)
            for dataset, prm, llm, calibrator, status, reason in rows.itertuples(index=False)
        }


def title_of(metric: str) -> str:
    """What a metric is called on the leaderboard."""
    return METRICS[metric].title if metric in METRICS else metric.replace("_", " ")


def read_evidence(published: Path) -> Evidence:
    """Read everything at one moment.

    Raises
    ------
    DatabaseError
        If there is no database, or it cannot be read.
    PrmcalError
        If it holds no calibration results.
    """
    with reading(published) as source:
        found = measurements(source, "calibration")
        named, ran, compared = plugins(source), runs(source), comparisons(source)
        scaling = read_scaling(source)
        splits, errors, measured = datasets(source), reward_errors(source, _BARS), measured_by(source)
    if found.empty or ran.empty:
        raise PrmcalError(
            f"{published.parent} holds no calibration results to report. Run a grid into this folder first."
        )
    registered = dict(named[named["kind"] == "calibrator"][["name", "plugin"]].itertuples(index=False))
    used = {kind: _in_order(named, found, kind) for kind in ("dataset", "prm", "llm", "calibrator")}
    plain = [name for name in used["calibrator"] if registered.get(name) == _UNCALIBRATED]
    return Evidence(
        run=ran.to_dict("records")[-1],
        splits=splits,
        datasets=used["dataset"],
        prms=used["prm"],
        llms=used["llm"],
        calibrators=used["calibrator"],
        metrics=_metrics_in_order(found),
        uncalibrated=plain[0] if plain else None,
        registered=registered,
        errors=_errors(errors, measured),
        found=found,
        compared=compared[compared["leaderboard"] == "calibration"],
        scaling=scaling,
    )


def _in_order(named: pd.DataFrame, found: pd.DataFrame, kind: str) -> tuple[str, ...]:
    labels = set(found[kind].dropna())
    known = [name for name in named[named["kind"] == kind]["name"] if name in labels]
    return (*known, *sorted(labels - set(known)))


def _metrics_in_order(found: pd.DataFrame) -> tuple[str, ...]:
    measured = set(found["metric"].dropna())
    known = [name for name in METRICS if name in measured]
    return (*known, *sorted(measured - set(known)))


def _value(row: dict[str, Any]) -> Value:
    import pandas as pd

    def known(name: str) -> Any:
        return None if pd.isna(row[name]) else row[name]

    return Value(
        place=Place(row["dataset"], row["prm"], row["llm"]),
        calibrator=row["calibrator"],
        metric=row["metric"],
        status=row["status"],
        value=known("value"),
        low=known("low"),
        high=known("high"),
        prefixes=known("rows"),
        questions=known("questions"),
        standing=known("standing"),
    )


def _errors(errors: pd.DataFrame, measured: pd.DataFrame) -> dict[Place, RewardErrors]:
    bootstraps = {
        Place(row.dataset, row.prm, row.llm): row.parameters.get("bootstrap") or {}
        for row in measured.itertuples()
    }
    return {
        place: _summary(group, Bootstrap(**bootstraps.get(place, {})))
        for (dataset, prm, llm), group in errors.groupby(["dataset", "prm", "llm"])
        for place in [Place(dataset, prm, llm)]
    }


class _MeanError(Metric):
    """Mean error over prefixes, from the sums that the database made of each question's."""

    def __init__(self, by_question: pd.DataFrame) -> None:
        self.question_ids = by_question.index.to_numpy()
        self._prefixes = by_question["prefixes"].to_numpy(dtype=np.float64)
        self._totals = by_question["total"].to_numpy(dtype=np.float64)
        self.rows = int(self._prefixes.sum())

    def values(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        return weighted_totals(weights, self._totals) / weighted_totals(weights, self._prefixes)


def _summary(group: pd.DataFrame, bootstrap: Bootstrap) -> RewardErrors:
    """The histogram of a place, and its mean with the interval that the leaderboard gives the signed error."""
    counts = np.bincount(group["bin"].astype(int), weights=group["prefixes"].astype(int), minlength=_BARS)
    by_question = group.groupby("question_id")[["prefixes", "total"]].sum()  # sorted, as for the metrics
    mean = estimate(_MeanError(by_question), bootstrap)
    low, high = (None if np.isnan(end) else round(end, _DIGITS) for end in (mean.low, mean.high))
    return RewardErrors(
        counts=tuple(int(count) for count in counts),
        mean=round(mean.value, _DIGITS),
        low=low,
        high=high,
        prefixes=mean.rows,
        questions=mean.questions,
    )
