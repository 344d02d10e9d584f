"""Two cells of the reader's choice, paired: what ``prmcal compare`` and the dashboard show.

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

from prmcal.db.files import artifact_folder
from prmcal.db.queries.comparison import (
    common_prefixes,
    question_differences,
    question_values,
    stored_comparisons,
)
from prmcal.db.queries.leaderboard import METRICS, SIGNIFICANCE
from prmcal.db.queries.provenance import CellDetail, cell
from prmcal.db.queries.replicates import comparable, replicated
from prmcal.db.reader import reading
from prmcal.db.statistics.bootstrap import Bootstrap, QuestionMean, estimate
from prmcal.db.statistics.paired import Replicated, compare_replicates
from prmcal.errors import ArtifactError, IncomparableCellsError

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
        Where they differ most: as :func:`prmcal.db.queries.comparison.question_differences` returns it.
    """

    a: dict[str, Any]
    b: dict[str, Any]
    metrics: tuple[MetricComparison, ...]
    questions: int
    prefixes: tuple[int, int] | None
    common_prefixes: int | None
    differing: pd.DataFrame

    @property
    def paired_over(self) -> str:
        """What was paired, as a sentence."""
        questions = f"Paired over the same {self.questions:,} questions"
        if self.prefixes is None:
            return f"{questions}."
        of_a, of_b = self.prefixes
        if self.a["llm"] != self.b["llm"]:
            return f"{questions}; each LLM has prefixes of its own, {of_a:,} and {of_b:,}."
        if self.common_prefixes == of_a == of_b:
            return f"{questions} and the same {of_a:,} prefixes."
        common = "" if self.common_prefixes is None else f", {self.common_prefixes:,} of them the same"
        return f"{questions}; {of_a:,} and {of_b:,} prefixes{common}."


def compare(path: Path, cell_a: str, cell_b: str, metric: str | None = None) -> CellComparison:
    """Compare two finished cells of one data set over the questions that they were measured on.

    Parameters
    ----------
    path : Path
        The published copy. Cells that do not compete are compared from the artifacts beside it; those of the scaling
        leaderboard without them too.
    cell_a, cell_b : str
        Cell ids.
    metric : str, optional
        This one only; otherwise all that both have.

    Raises
    ------
    IncomparableCellsError
        If the two cannot be compared, with the reason, or one has no such metric.
    ArtifactError
        If they do not compete and what they were measured with is not there.
    DatabaseError
        If there is no such cell, or no readable database.
    """
    with reading(path) as connection:
        first, second = (cell(connection, each, samples=0) for each in (cell_a, cell_b))
        _require_comparable(first.cell, second.cell)
        values_a, values_b = _values(first), _values(second)
        names = _common_metrics(values_a, values_b, first.cell, second.cell, metric)
        compared = _differences(connection, path.parent, first, second, names)
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
        raise IncomparableCellsError(f"'{first['cell_id']}' is given twice. Name two cells.")
    for each in (first, second):
        if each["status"] == "failed":
            raise IncomparableCellsError(
                f"The cell '{each['cell_id']}' failed and has no values: {each['reason']}"
            )
        if each["status"] != "done":
            raise IncomparableCellsError(
                f"The cell '{each['cell_id']}' is {each['status']} and has no values yet. Finish the run first."
            )
    for name, what in (("leaderboard", "leaderboards"), ("dataset", "data sets")):
        if first[name] != second[name]:
            raise IncomparableCellsError(
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
        raise IncomparableCellsError(
            f"'{first['cell_id']}' and '{second['cell_id']}' have no metric in common."
        )
    if chosen in both:
        return [chosen]
    lacking = [each["cell_id"] for each, has in ((first, values_a), (second, values_b)) if chosen not in has]
    close = difflib.get_close_matches(chosen, known, n=1)
    hint = f"Did you mean '{close[0]}'? " if close else ""
    raise IncomparableCellsError(
        f"There is no '{chosen}' of {' and '.join(repr(each) for each in lacking)}. {hint}"
        f"Both cells have: {', '.join(known) or 'nothing'}."
    )


def _differences(
    connection: sa.Connection, directory: Path, first: CellDetail, second: CellDetail, metrics: list[str]
) -> dict[str, dict[str, Any]]:
    """By metric: as it was stored, or else compared now."""
    cells = (first.cell["cell_id"], second.cell["cell_id"])
    stored = stored_comparisons(connection, *cells).set_index("metric")
    found = {name: _stored(stored.loc[name]) for name in metrics if name in stored.index}
    if len(found) < len(metrics):
        measured_a, measured_b = _measured(connection, directory, (first, second))
        for name in metrics:
            if name not in found:
                found[name] = _paired(name, measured_a, measured_b, cells)
    return found


def _stored(row: Any) -> dict[str, Any]:
    numbers = {name: float(row[name]) for name in ("difference", "low", "high", "p_value", "p_adjusted")}
    return {**numbers, "pairs": int(row["pairs"])}


def _measured(
    connection: sa.Connection, directory: Path, cells: tuple[CellDetail, CellDetail]
) -> list[dict[str, Replicated]]:
    """The replicates of two cells: as they were stored, or drawn again from their values of single questions."""
    jobs = [each.jobs[each.jobs["depth"] == 0].iloc[0] for each in cells]
    try:
        return [_of_artifact(directory, job) for job in jobs]
    except ArtifactError:
        values = [question_values(connection, each.cell["cell_id"]) for each in cells]
        if any(each.empty for each in values):
            raise
        return [_drawn_again(each, job) for each, job in zip(values, jobs, strict=True)]


def _of_artifact(directory: Path, job: Any) -> dict[str, Replicated]:
    (shard,) = job["parameters"]["shards"]
    return replicated(artifact_folder(directory, job["kind"], shard["key"]))


def _drawn_again(values: pd.DataFrame, job: Any) -> dict[str, Replicated]:
    bootstrap = Bootstrap(**job["parameters"]["bootstrap"])
    found = {}
    for name, rows in values.groupby("metric"):
        mean = QuestionMean(rows["value"].to_numpy(), rows["question_id"].to_numpy(dtype=str))
        drawn = estimate(mean, bootstrap)
        resampled = "\n".join(mean.question_ids)
        found[str(name)] = Replicated(drawn.value, drawn.replicates, drawn.questions, resampled)
    return found


def _paired(
    metric: str,
    measured_a: Mapping[str, Replicated],
    measured_b: Mapping[str, Replicated],
    cells: tuple[str, str],
) -> dict[str, Any]:
    names = " and ".join(repr(each) for each in cells)
    if metric not in measured_a or metric not in measured_b:
        raise IncomparableCellsError(
            f"'{metric}' of {names} rests on a single question: one pair says nothing about others."
        )
    first, second = measured_a[metric], measured_b[metric]
    if first.resampled != second.resampled:
        raise IncomparableCellsError(
            f"{names} cannot be paired: they were measured on different questions ({first.questions} and "
            f"{second.questions}, not all the same). A question that is too long for a PRM is not measured with it."
        )
    if first.replicates.shape != second.replicates.shape:
        raise IncomparableCellsError(
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
