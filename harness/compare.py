"""Two cells of the reader's choice, paired: what ``prmcal compare`` shows.

A pair that competes on a leaderboard has its stored comparison, adjusted for all pairs of its group. Any other pair
of one data set is compared here from the replicates that the cells were measured with, and is not adjusted.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from db.comparison import common_prefixes, question_differences, question_values, stored_comparisons
from db.leaderboard import METRICS, SIGNIFICANCE
from db.provenance import CellDetail, cell
from db.reader import reading
from harness.comparisons import comparable, replicated
from harness.folder import RunFolder
from harness.keys import content_key
from harness.metrics.bootstrap import Bootstrap, QuestionMean, estimate
from harness.metrics.comparison import Replicated, compare_replicates
from harness.plan import ArtifactRef
from harness.store import Store
from registry.errors import DataError, PrmcalError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CellComparison", "MetricComparison", "compare"]


@dataclass(frozen=True)
class MetricComparison:
    """One metric of two cells.

    Attributes
    ----------
    a, b : tuple of float
        The cells' own values with their 95% intervals: (value, low, high).
    difference, low, high : float
        A - B with its 95% interval; the distances from 0 where 0 is the best value.
    from_zero : bool
        Whether it is of the distances from 0.
    p_value : float
        Two-sided, not adjusted.
    p_adjusted : float or None
        After Holm's correction over the pairs of the group; None for cells that do not compete.
    pairs : int or None
        How many pairs that are.
    """

    metric: str
    a: tuple[float, float, float]
    b: tuple[float, float, float]
    difference: float
    low: float
    high: float
    from_zero: bool
    p_value: float
    p_adjusted: float | None
    pairs: int | None

    @property
    def p(self) -> float:
        """The p value that decides: the adjusted one, if there is one."""
        return self.p_value if self.p_adjusted is None else self.p_adjusted

    @property
    def real(self) -> bool:
        """Whether the difference is more than chance."""
        return self.p < SIGNIFICANCE


@dataclass(frozen=True, eq=False)
class CellComparison:
    """Two cells, paired.

    Attributes
    ----------
    a, b : dict
        Their rows of the table ``cells``.
    metrics : tuple of MetricComparison
        In the order of the leaderboard.
    questions : int
        Questions that both were measured on.
    prefixes : tuple of int, or None
        Prefixes of A and of B on the calibration leaderboard.
    common_prefixes : int or None
        How many of them are the same; None for different LLMs.
    differing : DataFrame
        Where they differ most: as :func:`db.comparison.question_differences` returns it.
    """

    a: dict[str, Any]
    b: dict[str, Any]
    metrics: tuple[MetricComparison, ...]
    questions: int
    prefixes: tuple[int, int] | None
    common_prefixes: int | None
    differing: pd.DataFrame


def compare(directory: Path, cell_a: str, cell_b: str, metric: str | None = None) -> CellComparison:
    """Compare two finished cells of one data set over the questions that they were measured on.

    Parameters
    ----------
    directory : Path
        The output folder of a run.
    cell_a, cell_b : str
        Cell ids.
    metric : str, optional
        This one only; otherwise all that both have.

    Raises
    ------
    PrmcalError
        If the two cannot be compared, with the reason, or one has no such metric.
    DatabaseError
        If there is no such cell, or no readable database.
    """
    folder = RunFolder(directory)
    folder.record()
    with reading(folder.published) as connection:
        first, second = (cell(connection, each, samples=0) for each in (cell_a, cell_b))
        _require_comparable(first.cell, second.cell)
        values_a, values_b = _values(first), _values(second)
        names = _common_metrics(values_a, values_b, first.cell, second.cell, metric)
        compared = _differences(connection, Store(directory), first, second, names)
        on_calibration = first.cell["leaderboard"] == "calibration"
        a, b = values_a[names[0]], values_b[names[0]]
        return CellComparison(
            a=first.cell,
            b=second.cell,
            metrics=tuple(
                MetricComparison(
                    metric=name,
                    a=(values_a[name].value, values_a[name].low, values_a[name].high),
                    b=(values_b[name].value, values_b[name].low, values_b[name].high),
                    from_zero=name in METRICS and METRICS[name].better == "near zero",
                    **compared[name],
                )
                for name in names
            ),
            questions=int(a.questions),
            prefixes=(int(a.rows), int(b.rows)) if on_calibration else None,
            common_prefixes=common_prefixes(connection, cell_a, cell_b) if on_calibration else None,
            differing=question_differences(connection, cell_a, cell_b),
        )


def _require_comparable(first: Mapping[str, Any], second: Mapping[str, Any]) -> None:
    if first["cell_id"] == second["cell_id"]:
        raise PrmcalError(f"'{first['cell_id']}' is given twice. Name two cells.")
    for each in (first, second):
        if each["status"] == "failed":
            raise PrmcalError(f"The cell '{each['cell_id']}' failed and has no values: {each['reason']}")
        if each["status"] != "done":
            raise PrmcalError(
                f"The cell '{each['cell_id']}' is {each['status']} and has no values yet. Finish the run first."
            )
    for name, what in (("leaderboard", "leaderboards"), ("dataset", "data sets")):
        if first[name] != second[name]:
            raise PrmcalError(
                f"Cells of different {what} ('{first[name]}' and '{second[name]}') cannot be paired: they were not "
                f"measured by the same things on the same questions. Name two cells of one."
            )


def _values(detail: CellDetail) -> dict[str, Any]:
    overall = detail.results[detail.results["question_level"].isna()]
    return {row.metric: row for row in overall.itertuples()}


def _common_metrics(
    values_a: Mapping[str, Any],
    values_b: Mapping[str, Any],
    first: Mapping[str, Any],
    second: Mapping[str, Any],
    chosen: str | None,
) -> list[str]:
    both = values_a.keys() & values_b.keys()
    known = [name for name in METRICS if name in both] + sorted(both - METRICS.keys())
    if chosen is None:
        if known:
            return known
        raise PrmcalError(f"'{first['cell_id']}' and '{second['cell_id']}' have no metric in common.")
    if chosen in both:
        return [chosen]
    lacking = [each["cell_id"] for each, has in ((first, values_a), (second, values_b)) if chosen not in has]
    close = difflib.get_close_matches(chosen, known, n=1)
    hint = f"Did you mean '{close[0]}'? " if close else ""
    raise PrmcalError(
        f"There is no '{chosen}' of {' and '.join(repr(each) for each in lacking)}. {hint}"
        f"Both cells have: {', '.join(known) or 'nothing'}."
    )


def _differences(
    connection: sa.Connection, store: Store, first: CellDetail, second: CellDetail, metrics: list[str]
) -> dict[str, dict[str, Any]]:
    """By metric: as it was stored, or else compared now."""
    cells = (first.cell["cell_id"], second.cell["cell_id"])
    stored = stored_comparisons(connection, *cells).set_index("metric")
    found = {name: _stored(stored.loc[name]) for name in metrics if name in stored.index}
    if len(found) < len(metrics):
        measured_a, measured_b = (_measured(connection, store, each) for each in (first, second))
        for name in metrics:
            if name not in found:
                found[name] = _paired(name, measured_a, measured_b, cells)
    return found


def _stored(row: Any) -> dict[str, Any]:
    numbers = {name: float(row[name]) for name in ("difference", "low", "high", "p_value", "p_adjusted")}
    return {**numbers, "pairs": int(row["pairs"])}


def _measured(connection: sa.Connection, store: Store, detail: CellDetail) -> dict[str, Replicated]:
    """A cell's replicates: as they were stored, or drawn again from its values of single questions."""
    job = detail.jobs[detail.jobs["depth"] == 0].iloc[0]
    (shard,) = job["parameters"]["shards"]
    try:
        return replicated(store, ArtifactRef(job["kind"], shard["key"]))
    except DataError:
        values = question_values(connection, detail.cell["cell_id"])
        if values.empty:
            raise
    bootstrap = Bootstrap(**job["parameters"]["bootstrap"])
    found = {}
    for name, rows in values.groupby("metric"):
        mean = QuestionMean(rows["value"].to_numpy(), rows["question_id"].to_numpy(dtype=str))
        drawn = estimate(mean, bootstrap)
        key = content_key(mean.question_ids.tolist())
        found[str(name)] = Replicated(drawn.value, drawn.replicates, drawn.questions, key)
    return found


def _paired(
    metric: str,
    measured_a: Mapping[str, Replicated],
    measured_b: Mapping[str, Replicated],
    cells: tuple[str, str],
) -> dict[str, Any]:
    names = " and ".join(repr(each) for each in cells)
    if metric not in measured_a or metric not in measured_b:
        raise PrmcalError(
            f"'{metric}' of {names} rests on a single question: one pair says nothing about others."
        )
    first, second = measured_a[metric], measured_b[metric]
    if first.resampled != second.resampled:
        raise PrmcalError(
            f"{names} cannot be paired: they were measured on different questions ({first.questions} and "
            f"{second.questions}, not all the same). A question that is too long for a PRM is not measured with it."
        )
    if first.replicates.shape != second.replicates.shape:
        raise PrmcalError(
            f"{names} cannot be paired: one was resampled {first.replicates.size} times, the other "
            f"{second.replicates.size} times. Run the grid again."
        )
    found = compare_replicates(comparable(metric, first), comparable(metric, second))
    return {
        "difference": found.difference,
        "low": found.low,
        "high": found.high,
        "p_value": found.p_value,
        "p_adjusted": None,
        "pairs": None,
    }
