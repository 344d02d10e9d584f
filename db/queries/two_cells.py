"""Two cells side by side, paired over the questions that both measured."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import sqlalchemy as sa

from prmcal.db.metrics import UNTESTED, Better
from prmcal.db.queries.cells import cell_row, metrics, of_job
from prmcal.db.queries.curves import references
from prmcal.db.queries.runs import input_jobs
from prmcal.db.queries.trajectories import MEDIAN, is_counted, same_prefix, success_counts
from prmcal.db.reader import frame, reading
from prmcal.db.run_folder import artifact_folder
from prmcal.db.statistics.paired import SIGNIFICANCE, Replicated, read_replicates, replicated_difference
from prmcal.db.tables import CalibratedReward, Cell, Comparison, JobRow, QuestionResult, QuestionRow, Result
from prmcal.errors import IncomparableCellsError

_MOST_QUESTIONS = 5
_ENDS = {"": "value", "_low": "low", "_high": "high"}


@dataclass(frozen=True, eq=False)
class CellComparison:
    """The paired comparison of two cells."""

    a: dict[str, Any]
    b: dict[str, Any]
    """The rows of the cells in the table ``cells``."""
    table: pd.DataFrame
    """One row per metric, in the order of the leaderboard: metric; a, a_low, a_high, b, b_low and b_high (the values of
    the cells with their 95% intervals); difference, low and high (B - A with its 95% interval; if 0 is the best value
    of the metric, absolute values are subtracted, and from_zero is true); p_value (two-sided, of this pair as its
    interval; NaN for what no value is better of, such as samples or the noise of orders, and for a cell that needs the
    truth), p_adjusted (after Holm's correction over the pairs of the group) and pairs (their number), which are None
    for cells and metrics that do not compete; and real (whether this p value is significant; None without one)."""
    questions: int
    """Number of questions that both cells were measured on."""
    differing: pd.DataFrame
    """Up to five questions on which they differ, the largest absolute difference first: question_id, question_level,
    question (its text), value_a, value_b and difference (B - A). On the calibration leaderboard, the value is the
    squared error of the point estimate, averaged over the prefixes of the question. On the scaling leaderboard, this
    metric is the accuracy. The frame is empty if the database does not have these values."""

    def __repr__(self) -> str:
        cells = f"A {self.a['cell_id']}\nB {self.b['cell_id']}"
        return f"{cells}\n{self.paired_over}\n{self.table.to_string(index=False)}"

    @property
    def p_values(self) -> list[float]:
        """The p value of each metric for this pair alone, like its interval. NaN for one question."""
        return [float(row.p_value) for row in self.table.itertuples()]

    @property
    def paired_over(self) -> str:
        """A sentence about the questions behind the comparison."""
        return f"Paired over the same {self.questions:,} questions."


def compare_cells(database: Path, cell_a: str, cell_b: str) -> CellComparison:
    """Compare two finished cells of a leaderboard and data set over the questions that they were measured on.

    The cells are compared by all metrics that both have. `database` is the published copy; cells that do not compete
    are compared from the artifacts in its folder. Raises an IncomparableCellsError if the cells cannot be compared. The
    message has the reason. Raises an ArtifactError if the cells do not compete and their artifacts are absent. Raises a
    DatabaseError if there is no such cell, or no readable database.
    """
    with reading(database) as connection:
        first, second = (cell_row(connection, cell_id) for cell_id in (cell_a, cell_b))
        _require_comparable(first, second)
        values = [_values(connection, cell_id) for cell_id in (cell_a, cell_b)]
        descriptions = metrics(connection)
        common = descriptions.ordered(values[0].keys() & values[1].keys())
        names = [name for name in common if name not in UNTESTED]
        if not names:
            raise IncomparableCellsError(f"'{cell_a}' and '{cell_b}' have no metric in common.")
        stored = _stored_comparisons(connection, cell_a, cell_b)
        unstored = [name for name in names if name not in stored]
        replicates, query = [], sa.select(JobRow.kind, JobRow.parameters)
        for cell in (first, second) if unstored else ():
            kind, parameters = connection.execute(query.where(JobRow.job_key == cell["job_key"])).one()
            folder = artifact_folder(database.parent, kind, parameters["shards"][0]["key"])
            replicates.append(read_replicates(folder))
        is_tested = {cell_a, cell_b}.isdisjoint(references(connection))
        rows: list[dict[str, Any]] = []
        for name in names:
            better = descriptions[name].better
            comparison = stored.get(name) or _paired(name, replicates, (first, second), better)
            p_value = comparison["p_value"] if better and is_tested else math.nan
            row: dict[str, Any] = {"metric": name}
            for side, value in zip(("a", "b"), values, strict=True):
                row |= {f"{side}{end}": value[name][column] for end, column in _ENDS.items()}
            row |= {key: comparison[key] for key in ("difference", "low", "high")}
            row |= {"from_zero": better == "near zero"}
            row |= {"p_value": p_value, "p_adjusted": comparison["p_adjusted"], "pairs": comparison["pairs"]}
            rows.append({**row, "real": None if math.isnan(p_value) else p_value < SIGNIFICANCE})
        differing = _question_differences(connection, cell_a, cell_b)
        table = pd.DataFrame(rows, dtype=object)
        return CellComparison(first, second, table, values[0][names[0]]["questions"], differing)


def _require_comparable(first: Mapping[str, Any], second: Mapping[str, Any]) -> None:
    if first["cell_id"] == second["cell_id"]:
        raise IncomparableCellsError(f"'{first['cell_id']}' is given twice. Name two cells.")
    for cell in (first, second):
        if cell["status"] != "done":
            why = f": {cell['reason']}" if cell["reason"] else " yet. Finish the run first."
            raise IncomparableCellsError(f"The cell '{cell['cell_id']}' is {cell['status']} and has no values{why}")
    for name, what in (("leaderboard", "leaderboards"), ("dataset", "data sets")):
        if first[name] != second[name]:
            raise IncomparableCellsError(
                f"Cells of different {what} ('{first[name]}' and '{second[name]}') cannot be paired, because their "
                "questions or measurements differ. Name two cells of one leaderboard and data set."
            )


def _values(connection: sa.Connection, cell_id: str) -> dict[str, Any]:
    query = sa.select(Result).where(Result.cell_id == cell_id, Result.question_level.is_(None))
    return {row["metric"]: row for row in frame(connection, query).to_dict("records")}


def _stored_comparisons(connection: sa.Connection, cell_a: str, cell_b: str) -> dict[str, dict[str, Any]]:
    """Return the comparisons of two cells that the database has, by metric. Cells of different groups have none."""
    group = (Cell.leaderboard, Cell.llm, Cell.prm, Cell.dataset, Comparison.metric)
    tested = sa.func.nullif(Comparison.p_value, float("nan"))
    pairs = sa.func.count(tested).over(partition_by=group).label("pairs")
    all_pairs = sa.select(Comparison.__table__, pairs).join(Cell, Cell.cell_id == Comparison.cell_a).subquery()
    cell_ids = [cell_a, cell_b]
    query = sa.select(all_pairs).where(all_pairs.c.cell_a.in_(cell_ids), all_pairs.c.cell_b.in_(cell_ids))
    comparisons = {row["metric"]: dict(row) for row in connection.execute(query).mappings()}
    for row in comparisons.values():
        if row["cell_a"] == cell_a:
            row["difference"], row["low"], row["high"] = -row["difference"], -row["high"], -row["low"]
    return comparisons


def _paired(
    name: str, replicates: Sequence[Mapping[str, Replicated]], cells: Sequence[Mapping[str, Any]], better: Better | None
) -> dict[str, Any]:
    pair = " and ".join(repr(cell["cell_id"]) for cell in cells)
    if any(name not in by_metric for by_metric in replicates):
        raise IncomparableCellsError(
            f"'{name}' of {pair} was measured on a single question, so a difference has no interval and no p value."
        )
    first, second = (by_metric[name].comparable(better) for by_metric in replicates)
    if (first.resampled, first.replicates.shape) != (second.resampled, second.replicates.shape):
        raise IncomparableCellsError(
            f"{pair} cannot be paired: they were measured on different questions ({first.questions} and "
            f"{second.questions}, not all the same) or with another bootstrap. Questions that are too long for a PRM "
            "are left out."
        )
    return {**replicated_difference(second, first)._asdict(), "p_adjusted": None, "pairs": None}


def _question_differences(connection: sa.Connection, cell_a: str, cell_b: str) -> pd.DataFrame:
    first, second = _by_question(connection, cell_a), _by_question(connection, cell_b)
    difference = (second.c.value - first.c.value).label("difference")
    size = sa.func.abs(difference.element)
    columns = (first.c.question_id, QuestionRow.level.label("question_level"), QuestionRow.text.label("question"))
    values = (first.c.value.label("value_a"), second.c.value.label("value_b"), difference)
    query = sa.select(*columns, *values).join(second, second.c.question_id == first.c.question_id)
    query = query.join(Cell, Cell.cell_id == cell_a).join(JobRow, JobRow.job_key == Cell.job_key)
    query = query.outerjoin(QuestionRow, of_job(first.c.question_id)).where(size > 0)
    return frame(connection, query.order_by(size.desc(), first.c.question_id).limit(_MOST_QUESTIONS))


def _by_question(connection: sa.Connection, cell_id: str) -> sa.Subquery:
    """Select question_id and the compared value of a cell's questions."""
    cell = cell_row(connection, cell_id)
    jobs = input_jobs(connection, cell["job_key"])
    if cell["leaderboard"] == "calibration" and "success" in jobs:
        counts = success_counts([jobs["success"]]).subquery()
        error = CalibratedReward.reward - counts.c.successes * 1.0 / counts.c.follow_ups
        errors = sa.select(counts.c.question_id, sa.func.avg(error * error).label("value"))
        errors = errors.join(CalibratedReward, same_prefix(CalibratedReward, counts))
        errors = errors.where(CalibratedReward.job_key == jobs["calibrated"], CalibratedReward.level == MEDIAN)
        errors = errors.where(is_counted(counts.c.terminal, Cell.cell_id == cell_id))
        return errors.group_by(counts.c.question_id).subquery()
    values = sa.select(QuestionResult.question_id, QuestionResult.value)
    return values.where(QuestionResult.cell_id == cell_id, QuestionResult.metric == "accuracy").subquery()
