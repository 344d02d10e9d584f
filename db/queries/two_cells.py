"""Two cells side by side, and two runs, paired over the questions that both measured."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd
import sqlalchemy as sa

from prmcal.db.metrics import COORDINATES, MAIN_METRICS, UNTESTED, Better, Leaderboard, Metric, Metrics
from prmcal.db.queries.cells import cell_row, metrics, of_job
from prmcal.db.queries.leaderboard import leaderboard
from prmcal.db.queries.runs import input_jobs
from prmcal.db.queries.trajectories import MEDIAN, counted, same_prefix, success_counts
from prmcal.db.reader import frame, reading
from prmcal.db.run_folder import artifact_folder
from prmcal.db.statistics.paired import SIGNIFICANCE, Replicated, holm, read_replicates, replicated_difference
from prmcal.db.tables import (
    CalibratedReward,
    Cell,
    Comparison,
    Dataset,
    Job,
    Question,
    QuestionResult,
    Result,
)
from prmcal.errors import ArtifactError, IncomparableCellsError

_MOST_QUESTIONS = 5


@dataclass(frozen=True, eq=False)
class CellComparison:
    """The paired comparison of two cells."""

    a: dict[str, Any]
    b: dict[str, Any]
    """The rows of the cells in the table ``cells``."""
    table: pd.DataFrame
    """One row per metric, in the order of the leaderboard: metric; a, a_low, a_high, b, b_low and b_high (the values of
    the cells with their 95% intervals); difference, low and high (A - B with its 95% interval; if 0 is the best value
    of the metric, absolute values are subtracted, and from_zero is true); p_value (two-sided), p_adjusted (after Holm's
    correction over the pairs of the group) and pairs (their number), which are None for cells and metrics that do not
    compete; and real (whether the difference is significant; None if there is no p value)."""
    questions: int
    """Number of questions that both cells were measured on."""
    prefixes: tuple[int, int] | None
    """Number of prefixes of A and of B; None on the scaling leaderboard."""
    differing: pd.DataFrame
    """Up to five questions on which they differ, the largest absolute difference first: question_id, question_level,
    question (its text), value_a, value_b and difference (A - B). On the calibration leaderboard, the value is the
    squared error of the point estimate, averaged over the prefixes of the question. On the scaling leaderboard, it is
    the accuracy. The frame is empty if the database does not have these values."""

    def __repr__(self) -> str:
        cells = f"A {self.a['cell_id']}\nB {self.b['cell_id']}"
        return f"{cells}\n{self.paired_over}\n{self.table.to_string(index=False)}"

    def _repr_html_(self) -> str:
        lines = (f"A {self.a['cell_id']}", f"B {self.b['cell_id']}", self.paired_over)
        return "".join(f"<p>{escape(line)}</p>" for line in lines) + str(self.table.to_html(index=False))

    @property
    def p_values(self) -> list[float]:
        """The adjusted p value of each metric if there is one, else the p value; NaN for a single question."""
        rows = self.table.itertuples()
        return [float(row.p_value if row.p_adjusted is None else row.p_adjusted) for row in rows]

    @property
    def paired_over(self) -> str:
        """A sentence about the questions and prefixes behind the comparison."""
        prefixes = ""
        if self.prefixes is not None:
            of_a, of_b = self.prefixes
            prefixes = (
                f", with {of_a:,} and {of_b:,} prefixes" if of_a != of_b else f", with {of_a:,} prefixes"
            )
        return f"Paired over the same {self.questions:,} questions{prefixes}."


def compare_cells(database: Path, cell_a: str, cell_b: str, metric: str | None = None) -> CellComparison:
    """Compare two finished cells of a leaderboard and data set over the questions that they were measured on.

    They are compared by one metric, or by all that both have. `database` is the published copy; cells that do not
    compete are compared from the artifacts in its folder. Raises an IncomparableCellsError if the cells cannot be
    compared, or one does not have the metric. The message has the reason. Raises an ArtifactError if the cells do not
    compete and their artifacts are absent. Raises a DatabaseError if there is no such cell, or no readable database.
    """
    with reading(database) as connection:
        first, second = cells = [cell_row(connection, each) for each in (cell_a, cell_b)]
        _require_comparable(first, second)
        values = [_values(connection, each) for each in (cell_a, cell_b)]
        described = metrics(connection)
        common = described.ordered(values[0].keys() & values[1].keys())
        names = [name for name in common if (name not in UNTESTED if metric is None else name == metric)]
        if not names:
            asked, both = "" if metric is None else f" '{metric}'", ", ".join(common) or "nothing"
            raise IncomparableCellsError(
                f"'{cell_a}' and '{cell_b}' have no metric{asked} in common. Both have: {both}."
            )
        stored = _stored_comparisons(connection, cell_a, cell_b)
        others = [name for name in names if name not in stored]
        measured = _measured(connection, database.parent, cells) if others else []
        rows = []
        for name in names:
            better = described[name].better
            found = stored.get(name) or _paired(name, measured, cells, better)
            p_value = found["p_value"] if found["p_adjusted"] is None else found["p_adjusted"]
            sides = {
                f"{side}{end}": value[name][column]
                for side, value in zip(("a", "b"), values, strict=True)
                for end, column in (("", "value"), ("_low", "low"), ("_high", "high"))
            }
            rows.append(
                {
                    "metric": name,
                    **sides,
                    **{key: found[key] for key in ("difference", "low", "high")},
                    "from_zero": better == "near zero",
                    **{key: found[key] for key in ("p_value", "p_adjusted", "pairs")},
                    "real": None if p_value != p_value else p_value < SIGNIFICANCE,
                }
            )
        on_calibration = first["leaderboard"] == "calibration"
        a, b = (value[names[0]] for value in values)
        return CellComparison(
            a=first,
            b=second,
            table=pd.DataFrame(rows, dtype=object),
            questions=a["questions"],
            prefixes=(a["rows"], b["rows"]) if on_calibration else None,
            differing=_question_differences(connection, cell_a, cell_b),
        )


def _require_comparable(first: Mapping[str, Any], second: Mapping[str, Any]) -> None:
    if first["cell_id"] == second["cell_id"]:
        raise IncomparableCellsError(f"'{first['cell_id']}' is given twice. Name two cells.")
    for each in (first, second):
        if each["status"] != "done":
            why = f": {each['reason']}" if each["reason"] else " yet. Finish the run first."
            raise IncomparableCellsError(
                f"The cell '{each['cell_id']}' is {each['status']} and has no values{why}"
            )
    for name, what in (("leaderboard", "leaderboards"), ("dataset", "data sets")):
        if first[name] != second[name]:
            raise IncomparableCellsError(
                f"Cells of different {what} ('{first[name]}' and '{second[name]}') cannot be paired, because they were "
                f"not measured alike on the same questions. Name two cells of one leaderboard and data set."
            )


def _values(connection: sa.Connection, cell_id: str) -> dict[str, Any]:
    """Return the results of a cell over all questions, by metric."""
    query = sa.select(Result).where(Result.cell_id == cell_id, Result.question_level.is_(None))
    return {row["metric"]: row for row in frame(connection, query).to_dict("records")}


def _stored_comparisons(connection: sa.Connection, cell_a: str, cell_b: str) -> dict[str, dict[str, Any]]:
    """Return the comparisons of two cells that the database has, by metric. Cells of different groups have none."""
    group = (Cell.leaderboard, Cell.llm, Cell.prm, Cell.dataset, Comparison.metric)
    made = sa.func.nullif(Comparison.p_value, float("nan"))
    all_pairs = (
        sa.select(Comparison.__table__, sa.func.count(made).over(partition_by=group).label("pairs"))
        .join(Cell, Cell.cell_id == Comparison.cell_a)
        .subquery()
    )
    both = [cell_a, cell_b]
    query = sa.select(all_pairs).where(all_pairs.c.cell_a.in_(both), all_pairs.c.cell_b.in_(both))
    found = {row["metric"]: dict(row) for row in connection.execute(query).mappings()}
    for row in found.values():
        if row["cell_a"] == cell_b:
            row["difference"], row["low"], row["high"] = -row["difference"], -row["high"], -row["low"]
    return found


def _measured(
    connection: sa.Connection, folder: Path, cells: Sequence[Mapping[str, Any]]
) -> list[dict[str, Replicated]]:
    """Return the replicates of two cells from their artifacts."""
    query = sa.select(Job.kind, Job.parameters)
    jobs: list[Any] = [
        connection.execute(query.where(Job.job_key == each["job_key"])).mappings().one() for each in cells
    ]
    return [job_replicates(folder, job) for job in jobs]


def _paired(
    metric: str,
    measured: Sequence[Mapping[str, Replicated]],
    cells: Sequence[Mapping[str, Any]],
    better: Better | None,
) -> dict[str, Any]:
    names = " and ".join(repr(each["cell_id"]) for each in cells)
    if any(metric not in each for each in measured):
        raise IncomparableCellsError(
            f"'{metric}' of {names} was measured on a single question, so a difference has no interval and no p value."
        )
    first, second = (each[metric].comparable(better) for each in measured)
    if (first.resampled, first.replicates.shape) != (second.resampled, second.replicates.shape):
        raise IncomparableCellsError(
            f"{names} cannot be paired: they were measured on different questions ({first.questions} and "
            f"{second.questions}, not all the same) or with another bootstrap. Questions that are too long for a PRM "
            "are left out."
        )
    return {**replicated_difference(first, second)._asdict(), "p_adjusted": None, "pairs": None}


def _question_differences(connection: sa.Connection, cell_a: str, cell_b: str) -> pd.DataFrame:
    """Return the attribute ``differing`` of a comparison."""
    first, second = _by_question(connection, cell_a), _by_question(connection, cell_b)
    difference = (first.c.value - second.c.value).label("difference")
    query = (
        sa.select(
            first.c.question_id,
            Question.level.label("question_level"),
            Question.text.label("question"),
            first.c.value.label("value_a"),
            second.c.value.label("value_b"),
            difference,
        )
        .join(second, second.c.question_id == first.c.question_id)
        .join(Cell, Cell.cell_id == cell_a)
        .join(Job, Job.job_key == Cell.job_key)
        .outerjoin(Question, of_job(first.c.question_id))
        .where(sa.func.abs(difference.element) > 0)
        .order_by(sa.func.abs(difference.element).desc(), first.c.question_id)
        .limit(_MOST_QUESTIONS)
    )
    return frame(connection, query)


def _by_question(connection: sa.Connection, cell_id: str) -> sa.Subquery:
    """Select question_id and the value by which the questions of a cell are compared."""
    jobs = input_jobs(connection, cell_row(connection, cell_id)["job_key"])
    if "success" in jobs:
        counts = success_counts([jobs["success"]]).subquery()
        error = CalibratedReward.reward - counts.c.successes * 1.0 / counts.c.follow_ups
        return (
            sa.select(counts.c.question_id, sa.func.avg(error * error).label("value"))
            .join(CalibratedReward, same_prefix(CalibratedReward, counts))
            .where(
                CalibratedReward.job_key == jobs["calibrated"],
                CalibratedReward.level == MEDIAN,
                counted(counts.c.terminal, Cell.cell_id == cell_id),
            )
            .group_by(counts.c.question_id)
            .subquery()
        )
    return (
        sa.select(QuestionResult.question_id, QuestionResult.value)
        .where(QuestionResult.cell_id == cell_id, QuestionResult.metric == "accuracy")
        .subquery()
    )


@dataclass(frozen=True, eq=False)
class RunComparison:
    """The cells of one leaderboard in two runs, compared by its main metric."""

    described: Metric
    """The metric."""
    both: pd.DataFrame
    """Cells that both runs have finished: cell_id and the columns of :data:`prmcal.db.metrics.COORDINATES`; value_a,
    low_a, high_a, value_b, low_b, high_b; difference (A - B), low, high and p, which is adjusted by Holm's correction
    for all paired cells. The interval of the difference and p are missing if the cells cannot be paired."""
    only_a: pd.DataFrame
    only_b: pd.DataFrame
    """Cells that only one run has finished: cell_id and the coordinates."""


@dataclass(frozen=True, eq=False)
class _Run:
    folder: Path
    cells: pd.DataFrame
    jobs: Mapping[str, Mapping[str, Any]]
    metrics: Metrics


def compare_runs(first: Path, other: Path, table: Leaderboard = "calibration") -> RunComparison:
    """Compare the cells that two runs call by the same names, and those that are results of the same job.

    `first` and `other` are the published copies. The names are those of `first`. Cells are paired if they were measured
    on the same questions with the same bootstrap, and if the artifacts of both are in the folders of the runs. Raises a
    DatabaseError if one of the databases cannot be read.
    """
    metric = MAIN_METRICS[table][0]
    # One after the other: connections to two files are not open at the same time.
    a = _read(first, table, metric)
    b = _under_names_of(a, _read(other, table, metric))
    described = a.metrics[metric]
    both = a.cells.merge(b.cells[["cell_id", "value", "low", "high"]], on="cell_id", suffixes=("_a", "_b"))
    differences = [_difference(a, b, row, described) for row in both.to_dict("records")]
    for place, name in enumerate(("difference", "low", "high", "p")):
        both[name] = [each[place] for each in differences]
    both["p"] = holm(both["p"].to_numpy(dtype=float))
    names = ["cell_id", *COORDINATES]
    return RunComparison(
        described,
        both,
        a.cells.loc[~a.cells["cell_id"].isin(b.cells["cell_id"]), names].reset_index(drop=True),
        b.cells.loc[~b.cells["cell_id"].isin(a.cells["cell_id"]), names].reset_index(drop=True),
    )


def _read(database: Path, table: Leaderboard, metric: str) -> _Run:
    with reading(database) as connection:
        cells = leaderboard(connection, table)
        done = cells[cells["status"] == "done"]
        for name in (metric, f"{metric}_low", f"{metric}_high"):
            done = done if name in done else done.assign(**{name: float("nan")})
        columns = {metric: "value", f"{metric}_low": "low", f"{metric}_high": "high"}
        kept = done[["cell_id", *COORDINATES, *columns]].rename(columns=columns).reset_index(drop=True)
        query = (
            sa.select(Cell.cell_id, Cell.job_key, Job.kind, Job.parameters, Dataset.content_hash)
            .join(Job, Job.job_key == Cell.job_key)
            .outerjoin(Dataset, sa.and_(Dataset.name == Job.dataset, Dataset.split == Job.split))
            .where(Cell.leaderboard == table)
        )
        jobs = {row["cell_id"]: row for row in frame(connection, query).to_dict("records")}
        return _Run(database.parent, kept, jobs, metrics(connection))


def _under_names_of(a: _Run, b: _Run) -> _Run:
    """Return `b`, in which cells that only the same job of `a` has measured have their names in `a`."""
    by_job = [
        {
            str(run.jobs[cell]["job_key"]): cell
            for cell in run.cells["cell_id"]
            if cell in run.jobs and cell not in others
        }
        for run, others in ((a, set(b.cells["cell_id"])), (b, set(a.cells["cell_id"])))
    ]
    names = {cell: by_job[0][key] for key, cell in by_job[1].items() if key in by_job[0]}
    return replace(
        b,
        cells=b.cells.assign(cell_id=b.cells["cell_id"].replace(names)),
        jobs={names.get(cell, cell): job for cell, job in b.jobs.items()},
    )


def _difference(a: _Run, b: _Run, row: Mapping[str, Any], described: Metric) -> Sequence[float]:
    """Return the difference with its interval and p value, which are NaN for cells that cannot be paired."""
    jobs = [run.jobs[row["cell_id"]] for run in (a, b) if row["cell_id"] in run.jobs]
    questions = [(job["content_hash"], (job["parameters"] or {}).get("bootstrap")) for job in jobs]
    if len(questions) == 2 and questions[0] == questions[1] and None not in questions[0]:
        with suppress(ArtifactError, KeyError, ValueError):
            first, second = (
                job_replicates(run.folder, job)[described.name].comparable(described.better)
                for run, job in zip((a, b), jobs, strict=True)
            )
            return replicated_difference(first, second)
    values = [row["value_a"], row["value_b"]]
    if described.better == "near zero":
        values = [abs(value) for value in values]
    return values[0] - values[1], math.nan, math.nan, math.nan


def job_replicates(folder: Path, job: Mapping[str, Any]) -> dict[str, Replicated]:
    """Return the values of a measuring job over all questions, with their replicates, by metric.

    `folder` is the output folder of the run, and `job` its row of the table ``jobs``, or the columns kind and
    parameters. Raise ArtifactError if the artifact is absent or cannot be read.
    """
    (shard,) = job["parameters"]["shards"]
    return read_replicates(artifact_folder(folder, job["kind"], shard["key"]))
