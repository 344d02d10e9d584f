"""The differences between two runs, paired over the questions that both measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from prmcal.db.metrics import COORDINATES, MAIN_METRICS, Leaderboard, Metric, Metrics
from prmcal.db.queries.cells import metrics
from prmcal.db.queries.leaderboard import leaderboard
from prmcal.db.reader import frame, reading
from prmcal.db.run_folder import artifact_folder
from prmcal.db.statistics.paired import Replicated, holm, read_replicates, replicated_difference
from prmcal.db.tables import Cell, Dataset, Job
from prmcal.errors import ArtifactError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class RunComparison:
    """The cells of one leaderboard in two runs, compared by its main metric."""

    described: Metric
    """The metric."""
    both: pd.DataFrame
    """Cells that both runs have finished: cell_id and the columns of :data:`prmcal.db.metrics.COORDINATES`; value_a,
    low_a, high_a, value_b, low_b, high_b; difference (A - B), low, high and p, which is adjusted by Holm's correction
    for all paired cells; overlap (whether the two 95% intervals overlap). The interval of the difference and p are
    missing if the cells cannot be paired."""
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

    `first` and `other` are the published copies. The ids of cells on a merged leaderboard tell replicates and versions
    apart. Such cells have the ids of `first`. Cells are paired if they were measured on the same questions with the
    same bootstrap, and if the artifacts of both are in the folders of the runs. Raises a DatabaseError if one of the
    databases cannot be read.
    """
    metric = MAIN_METRICS[table][0]
    # One after the other: connections to two files are not open at the same time.
    a = _read(first, table, metric)
    b = _under_names_of(a, _read(other, table, metric))
    described = a.metrics.get(metric) or Metric(metric, a.metrics.title(metric), table, None, "")
    both = a.cells.merge(b.cells[["cell_id", "value", "low", "high"]], on="cell_id", suffixes=("_a", "_b"))
    differences = [_difference(a, b, row, described) for row in both.to_dict("records")]
    for place, name in enumerate(("difference", "low", "high", "p")):
        both[name] = [each[place] for each in differences]
    both["p"] = holm(both["p"].to_numpy(dtype=float))
    both["overlap"] = (both["low_a"] <= both["high_b"]) & (both["low_b"] <= both["high_a"])
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
