"""Two cells side by side: paired differences of their metrics, and the questions on which they differ most."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.orm import aliased

from prmcal.db.metrics import Better, Metrics
from prmcal.db.queries.cells import CellDetail, cell, metrics
from prmcal.db.queries.two_runs import common_prefixes, question_differences, question_values
from prmcal.db.reader import Source, frame, reading
from prmcal.db.run_folder import artifact_folder
from prmcal.db.statistics.bootstrap import Bootstrap, QuestionMean, estimate
from prmcal.db.statistics.paired import (
    SIGNIFICANCE,
    Replicated,
    comparable,
    read_replicates,
    replicated_difference,
)
from prmcal.db.tables import Cell, Comparison
from prmcal.errors import ArtifactError, IncomparableCellsError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class MetricComparison:
    """The difference of two cells in one metric.

    Attributes
    ----------
    metric : str
    a, b : tuple of float
        The values of the cells with their 95% intervals: (value, low, high).
    difference, low, high : float
        A - B with its 95% interval. If 0 is the best value of the metric, absolute values are subtracted.
    from_zero : bool
        Whether absolute values are subtracted.
    p_value : float
        Two-sided p value, not adjusted.
    p_adjusted : float or None
        p value after Holm's correction over the pairs of the group; None for cells that do not compete.
    pairs : int or None
        Number of these pairs.
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

    def row(self) -> dict[str, Any]:
        """The comparison as one row of a table, with the names of :attr:`CellComparison.table`."""
        sides = {
            f"{side}{end}": number
            for side in ("a", "b")
            for end, number in zip(("", "_low", "_high"), getattr(self, side), strict=True)
        }
        names = ("difference", "low", "high", "from_zero", "p_value", "p_adjusted", "pairs", "real")
        return {"metric": self.metric, **sides, **{name: getattr(self, name) for name in names}}

    @property
    def p(self) -> float:
        """The adjusted p value if there is one, else the p value."""
        return self.p_value if self.p_adjusted is None else self.p_adjusted

    @property
    def real(self) -> bool:
        """Whether the difference is significant."""
        return self.p < SIGNIFICANCE


@dataclass(frozen=True, eq=False)
class CellComparison:
    """The paired comparison of two cells.

    Attributes
    ----------
    a, b : dict
        The rows of the cells in the table ``cells``.
    metrics : tuple of MetricComparison
        The metrics in the order of the leaderboard.
    questions : int
        Number of questions that both cells were measured on.
    prefixes : tuple of int, or None
        Number of prefixes of A and of B; None on the scaling leaderboard.
    common_prefixes : int or None
        Number of prefixes that both have; None for different LLMs.
    differing : DataFrame
        The questions on which they differ most, from
        :func:`prmcal.db.queries.two_runs.question_differences`.
    """

    a: dict[str, Any]
    b: dict[str, Any]
    metrics: tuple[MetricComparison, ...]
    questions: int
    prefixes: tuple[int, int] | None
    common_prefixes: int | None
    differing: pd.DataFrame

    @property
    def table(self) -> pd.DataFrame:
        """The comparison as a table.

        Columns metric, a, a_low, a_high, b, b_low, b_high, difference, low, high (A - B with its 95% interval),
        from_zero, p_value, p_adjusted, pairs and real (whether the difference is significant).
        """
        import pandas as pd

        return pd.DataFrame([each.row() for each in self.metrics])

    def __repr__(self) -> str:
        cells = f"A {self.a['cell_id']}\nB {self.b['cell_id']}"
        return f"{cells}\n{self.paired_over}\n{self.table.to_string(index=False)}"

    def _repr_html_(self) -> str:
        lines = (f"A {self.a['cell_id']}", f"B {self.b['cell_id']}", self.paired_over)
        return "".join(f"<p>{escape(line)}</p>" for line in lines) + str(self.table.to_html(index=False))

    @property
    def paired_over(self) -> str:
        """A sentence about the questions and prefixes behind the comparison."""
        questions = f"Paired over the same {self.questions:,} questions"
        if self.prefixes is None:
            return f"{questions}."
        of_a, of_b = self.prefixes
        if self.a["llm"] != self.b["llm"]:
            return f"{questions}. The LLMs have different prefixes: {of_a:,} and {of_b:,}."
        if self.common_prefixes == of_a == of_b:
            return f"{questions} and the same {of_a:,} prefixes."
        common = "" if self.common_prefixes is None else f", of which {self.common_prefixes:,} are common"
        return f"{questions} with {of_a:,} and {of_b:,} prefixes{common}."


def compare_cells(database: Path, cell_a: str, cell_b: str, metric: str | None = None) -> CellComparison:
    """Compare two finished cells of a leaderboard and data set over the questions that they were measured on.

    Parameters
    ----------
    database : Path or URL
        The published copy. Cells that do not compete are compared from the artifacts in its folder. Cells of the
        scaling leaderboard can also be compared without the artifacts, which a server does not have.
    cell_a, cell_b : str
        Identifiers of the cells.
    metric : str, optional
        Name of a metric. Default: all metrics that both cells have.

    Raises
    ------
    IncomparableCellsError
        If the cells cannot be compared, or one does not have the metric. The message has the reason.
    ArtifactError
        If the cells do not compete and their artifacts are absent.
    DatabaseError
        If there is no such cell, or no readable database.
    """
    folder = database.parent if isinstance(database, Path) else None
    with reading(database) as connection:
        first, second = (cell(connection, each, samples=0) for each in (cell_a, cell_b))
        _require_comparable(first.cell, second.cell)
        values_a, values_b = _values(first), _values(second)
        described = metrics(connection)
        names = _common_metrics(values_a, values_b, first.cell, second.cell, metric, described)
        compared = _differences(connection, folder, first, second, names, described)
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
                    from_zero=described.better(name) == "near zero",
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
                f"Cells of different {what} ('{first[name]}' and '{second[name]}') cannot be paired, because they were "
                f"not measured alike on the same questions. Name two cells of one leaderboard and data set."
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
    described: Metrics,
) -> list[str]:
    both = values_a.keys() & values_b.keys()
    known = described.ordered(both)
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
        f"There is no metric '{chosen}' of {' and '.join(repr(each) for each in lacking)}. {hint}"
        f"Both cells have: {', '.join(known) or 'nothing'}."
    )


def _differences(
    connection: sa.Connection,
    directory: Path | None,
    first: CellDetail,
    second: CellDetail,
    metrics: list[str],
    described: Metrics,
) -> dict[str, dict[str, Any]]:
    """Return the differences by metric: stored comparisons if there are any, else from replicates."""
    cells = (first.cell["cell_id"], second.cell["cell_id"])
    stored = _stored_comparisons(connection, *cells).set_index("metric")
    found = {name: _stored(stored.loc[name]) for name in metrics if name in stored.index}
    if len(found) < len(metrics):
        needed = [name for name in metrics if name not in found]
        measured_a, measured_b = _measured(connection, directory, (first, second), needed)
        for name in metrics:
            if name not in found:
                found[name] = _paired(name, measured_a, measured_b, cells, described.better(name))
    return found


def _stored_comparisons(source: Source, cell_a: str, cell_b: str) -> pd.DataFrame:
    """Return the stored comparisons of two cells. Cells of different groups have none.

    Returns
    -------
    DataFrame
        One row per metric: metric, difference (A - B), low, high, p_value, p_adjusted, questions and pairs (the number
        of p values in Holm's correction).
    """
    first, second = aliased(Cell), aliased(Cell)
    group = (first.leaderboard, first.llm, first.prm, first.dataset, first.conditions, Comparison.metric)
    made = sa.func.nullif(Comparison.p_value, float("nan"))
    all_pairs = (
        sa.select(Comparison.__table__, sa.func.count(made).over(partition_by=group).label("pairs"))
        .join(first, sa.and_(first.cell_id == Comparison.cell_a, first.status == "done"))
        .join(second, sa.and_(second.cell_id == Comparison.cell_b, second.status == "done"))
        .where(Comparison.cell_a != Comparison.cell_b)
        .subquery()
    )
    pair = all_pairs.c
    turned = pair.cell_a == cell_b

    def signed(straight: sa.ColumnElement[float], reverse: sa.ColumnElement[float]) -> sa.Label[float]:
        return sa.case((turned, -reverse), else_=straight).label(straight.key)

    query = sa.select(
        pair.metric,
        signed(pair.difference, pair.difference),
        signed(pair.low, pair.high),
        signed(pair.high, pair.low),
        pair.p_value,
        pair.p_adjusted,
        pair.questions,
        pair.pairs,
    )
    both = [cell_a, cell_b]
    return frame(source, query.where(pair.cell_a.in_(both), pair.cell_b.in_(both)).order_by(pair.metric))


def _stored(row: Any) -> dict[str, Any]:
    numbers = {name: float(row[name]) for name in ("difference", "low", "high", "p_value", "p_adjusted")}
    return {**numbers, "pairs": int(row["pairs"])}


def _measured(
    connection: sa.Connection,
    directory: Path | None,
    cells: tuple[CellDetail, CellDetail],
    metrics: Sequence[str],
) -> list[dict[str, Replicated]]:
    """Return the replicates of two cells from their artifacts, or drawn again from the values of single questions."""
    jobs = [each.jobs[each.jobs["depth"] == 0].iloc[0] for each in cells]
    try:
        return [_of_artifact(directory, job) for job in jobs]
    except ArtifactError:
        values = [question_values(connection, each.cell["cell_id"]) for each in cells]
        if any(not set(metrics) <= set(each["metric"]) for each in values):
            raise
        return [_drawn_again(each, job) for each, job in zip(values, jobs, strict=True)]


def _of_artifact(directory: Path | None, job: Any) -> dict[str, Replicated]:
    if directory is None:
        raise ArtifactError(
            "These cells do not compete, so their comparison needs the artifacts, which a server does not have. "
            "Give the folder of the leaderboard."
        )
    (shard,) = job["parameters"]["shards"]
    return read_replicates(artifact_folder(directory, job["kind"], shard["key"]))


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
    better: Better | None,
) -> dict[str, Any]:
    names = " and ".join(repr(each) for each in cells)
    if metric not in measured_a or metric not in measured_b:
        raise IncomparableCellsError(
            f"'{metric}' of {names} was measured on a single question, so a difference has no interval and no p value."
        )
    first, second = measured_a[metric], measured_b[metric]
    if first.resampled != second.resampled:
        raise IncomparableCellsError(
            f"{names} cannot be paired: they were measured on different questions ({first.questions} and "
            f"{second.questions}, not all the same). Questions that are too long for a PRM are left out."
        )
    if first.replicates.shape != second.replicates.shape:
        raise IncomparableCellsError(
            f"{names} cannot be paired, because they have {first.replicates.size} and {second.replicates.size} "
            f"bootstrap replicates. Run the grid again."
        )
    found = replicated_difference(comparable(first, better), comparable(second, better))
    return {
        "difference": found.difference,
        "low": found.low,
        "high": found.high,
        "p_value": found.p_value,
        "p_adjusted": None,
        "pairs": None,
    }
