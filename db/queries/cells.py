"""The cells of a run: their numbers and names, the jobs behind them, and the metrics and roles of plugins."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

import sqlalchemy as sa

from prmcal.db.metrics import Leaderboard, MetricColumn, Metrics, cell_number
from prmcal.db.reader import Source, connection_of, frame
from prmcal.db.tables import (
    Cell,
    DatasetRow,
    DescribedMetric,
    JobInput,
    JobRow,
    PluginRow,
    QuestionRow,
    Result,
    RunRow,
    TrajectoryRow,
)
from prmcal.errors import UnknownCellError

if TYPE_CHECKING:
    import pandas as pd


_ALL_CELLS = "`prmcal leaderboard DIR --table calibration` and `--table scaling` list all cells."
_NAMED = 3
"""The largest number of cells in a message."""


def cell_numbers() -> sa.Subquery:
    """Return a subquery with the short number of each cell: columns cell_id and number.

    Numbers count the cells of the calibration leaderboard from 1, and continue with the scaling leaderboard and the
    league. The order of the numbers is the order of the rows of the leaderboards, so it depends on the grid only. A run
    has all its cells from the start.
    """
    order = [
        sa.case({name: position for position, name in enumerate(get_args(Leaderboard))}, value=Cell.leaderboard),
        *(position for kind in ("dataset", "llm", "prm") for position in _grid_order(kind)),
        *_grid_order("strategy"),
        Cell.target.nulls_first(),
        Cell.level.nulls_first(),
        *_grid_order("calibrator"),
        Cell.cell_id,
    ]
    number = sa.func.row_number(type_=sa.Integer).over(order_by=order)
    return sa.select(Cell.cell_id, number.label("number")).subquery()


def _grid_order(kind: str) -> list[sa.ColumnElement[Any]]:
    """Return columns that order cells as the grid orders its plugins of a kind. Cells without a plugin come first."""
    name = getattr(Cell, kind)
    position = sa.select(PluginRow.position).where(PluginRow.kind == kind, PluginRow.name == name).scalar_subquery()
    return [name.is_not(None), position.asc().nulls_last(), name.nulls_first()]


class SettingNames(TypedDict, total=False):
    """The names of the settings to keep. A setting is a combination of data set, LLM and PRM. None keeps all names."""

    llm: Sequence[str] | None
    prm: Sequence[str] | None
    dataset: Sequence[str] | None


class Names(SettingNames, total=False):
    """The names of the cells to keep. None keeps all names.

    Cells without a plugin of a kind stay: a strategy without a PRM is a baseline for every PRM.
    """

    calibrator: Sequence[str] | None
    strategy: Sequence[str] | None


def with_names(cells: pd.DataFrame, names: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows with some names, as :class:`Names` has them, and the rows without a plugin of the kind."""
    for kind, kind_names in names.items():
        if kind_names is not None:
            cells = cells[cells[kind].isin(list(kind_names)) | cells[kind].isna()]
    return cells


def numbered_cells(*names: str) -> sa.Select[*tuple[Any, ...]]:
    """Select cell_id, number (the short number) and columns with names of all cells, in the order of the numbers."""
    numbers = cell_numbers()
    cells = sa.select(Cell.cell_id, numbers.c.number, *Cell.columns(*names))
    return cells.join(numbers, numbers.c.cell_id == Cell.cell_id).order_by(numbers.c.number)


def numbered(source: Source) -> dict[str, int]:
    """Return the short number of each cell by its identifier, in the order of the numbers."""
    with connection_of(source) as connection:
        return {row.cell_id: row.number for row in connection.execute(numbered_cells())}


def find_cell(source: Source, name: str) -> str:
    """Return the identifier of the cell that a reader names.

    The name is a short number (``12`` or ``#12``), an identifier, or a part of an identifier that only one cell has.
    The parts between slashes or spaces may leave out others: ``weak/isotonic/math`` is a part of
    ``calibration/weak/qwen/isotonic/nano-math``. Raises an UnknownCellError if there is no such cell or several. The
    message has up to three cells that may be meant.
    """
    numbers = numbered(source)
    text = name.strip()
    if text in numbers:
        return text
    if re.fullmatch(r"#?\d+", text):
        matching = [cell_id for cell_id, number in numbers.items() if number == int(text.removeprefix("#"))]
    else:
        matching = _matching(numbers, text.lower())
    if len(matching) == 1:
        return matching[0]
    if matching:
        some = _listed(numbers, matching[:_NAMED])
        raise UnknownCellError(f"'{name}' is part of {len(matching)} cells. Did you mean {some}? {_ALL_CELLS}")
    raise unknown_cell(name, numbers)


def unknown_cell(name: str, numbers: Mapping[str, int]) -> UnknownCellError:
    """Return the error that no cell has this name, with the most similar identifiers."""
    close = difflib.get_close_matches(name.lower(), numbers, n=_NAMED, cutoff=0.5)
    hint = f"Did you mean {_listed(numbers, close)}?" if close else _ALL_CELLS
    return UnknownCellError(f"There is no cell '{name}'. {hint}")


def _matching(ids: Collection[str], text: str) -> list[str]:
    """Return the identifiers that a text is a part of: whole names if possible, else any characters."""
    words = [re.escape(word) for word in re.split(r"[/\s]+", text) if word]
    whole_names = re.compile("(?:^|/)" + "/(?:.*/)?".join(words) + "(?:/|$)")
    anywhere = re.compile(".*".join(words))
    for pattern in (whole_names, anywhere):
        matching = [cell_id for cell_id in ids if words and pattern.search(cell_id.lower())]
        if matching:
            return matching
    return []


def _listed(numbers: Mapping[str, int], ids: list[str]) -> str:
    return " or ".join(f"{cell_number(numbers[cell_id])} '{cell_id}'" for cell_id in ids)


def metrics(source: Source) -> Metrics:
    """Return the metrics of both leaderboards, in the order of columns."""
    columns = DescribedMetric.columns("name", "title", "leaderboard", "better", "description")
    with connection_of(source) as connection:
        rows = connection.execute(sa.select(*columns).order_by(DescribedMetric.position))
        return Metrics(MetricColumn(*row) for row in rows)


Role = Literal["baseline", "reference", "recomputed", "full budget", "fixed", "one sample", "vote"]
"""Role of a plugin.

baseline: a calibrator that leaves rewards unchanged.
reference: a strategy that needs the truth, and so cannot be used in practice.
recomputed: a strategy that :mod:`prmcal.db.queries.curves` computes for any target C.
full budget: a strategy that answers with the trajectory of the highest score among a fixed number of samples.
fixed: a strategy that gives every question the same number of samples.
one sample: the strategy that answers with the first trajectory.
vote: the strategy that answers with the most frequent answer.
"""

# Strategies that read success counts are also recognized by their jobs (prmcal.db.queries.curves.references). That
# does not work for pass@N, which reads only trajectories, nor for imported data, where one job has both.
_REGISTERED: dict[Role, tuple[str, tuple[str, ...]]] = {
    "baseline": ("calibrator", ("uncalibrated",)),
    "reference": ("strategy", ("oracle IAS", "pass@N")),
    "recomputed": ("strategy", ("best-of-n + IAS",)),
    "full budget": ("strategy", ("best-of-n",)),
    "fixed": ("strategy", ("best-of-n", "majority vote", "weighted best-of-n")),
    "one sample": ("strategy", ("pass@1",)),
    "vote": ("strategy", ("majority vote",)),
}


def with_role(source: Source, role: Role) -> list[str]:
    """Return the plugins of the grid that have a role: their names in the grid, in the order of the grid."""
    kind, registered = _REGISTERED[role]
    query = sa.select(PluginRow.name).where(PluginRow.kind == kind, PluginRow.plugin.in_(registered))
    return list(frame(source, query.order_by(PluginRow.position, PluginRow.name))["name"])


@dataclass(frozen=True)
class CellDetail:
    """A cell with its results and its provenance."""

    cell: dict[str, Any]
    """The row of the cell in the table ``cells``."""
    run: dict[str, Any] | None
    """The row in the table ``runs`` of the run that measured it; None until it is done."""
    results: pd.DataFrame
    """Its values over all questions and by difficulty."""
    jobs: pd.DataFrame
    """The job that measured it and all jobs that this job depends on, with the columns of the table ``jobs``. The
    column ``depth`` is the distance from the cell."""
    plugins: pd.DataFrame
    datasets: pd.DataFrame
    """Its plugins and data sets, with versions and hashes."""
    samples: pd.DataFrame
    """A few of the trajectories that it was measured on."""


def cell(source: Source, cell_id: str, *, samples: int = 3) -> CellDetail:
    """Return a cell with its provenance and its first trajectories. Raise UnknownCellError as :func:`cell_row`."""
    with connection_of(source) as connection:
        row = cell_row(connection, cell_id)
        jobs = _upstream_jobs(connection, row)
        measured_by = sa.select(RunRow.__table__).where(RunRow.run_id == row["source"])
        run = connection.execute(measured_by).mappings().one_or_none()
        kinds = ("llm", "prm", "calibrator", "dataset", "strategy")
        names = [(kind, row[kind]) for kind in kinds if row[kind] is not None]
        its_plugins = sa.tuple_(PluginRow.kind, PluginRow.name).in_(names)
        # The jobs of its calibrator have other questions.
        measured = jobs.merge(jobs.loc[jobs["depth"] == 0, ["llm", "dataset", "split"]])
        splits = jobs[["dataset", "split"]].dropna().drop_duplicates().itertuples(index=False, name=None)
        datasets = sa.select(DatasetRow).where(sa.tuple_(DatasetRow.name, DatasetRow.split).in_(list(splits)))
        results = sa.select(Result).where(Result.cell_id == cell_id)
        results = results.order_by(Result.metric, Result.question_level.nulls_first())
        return CellDetail(
            cell=row,
            run=None if run is None else dict(run),
            results=frame(connection, results).drop(columns="cell_id"),
            jobs=jobs,
            plugins=frame(connection, sa.select(PluginRow).where(its_plugins).order_by(PluginRow.kind, PluginRow.name)),
            datasets=frame(connection, datasets.order_by(DatasetRow.name, DatasetRow.split)),
            samples=frame(connection, sampled(list(measured["job_key"])).limit(samples)),
        )


def cell_row(connection: sa.Connection, cell_id: str) -> dict[str, Any]:
    """Return the row of a cell in the table ``cells``.

    Raise UnknownCellError if there is no such cell. The message has similar identifiers.
    """
    query = sa.select(Cell.__table__).where(Cell.cell_id == cell_id)
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        raise unknown_cell(cell_id, numbered(connection))
    return dict(row)


def _upstream_jobs(connection: sa.Connection, row: dict[str, Any]) -> pd.DataFrame:
    start = sa.select(JobRow.job_key, sa.literal(0).label("depth")).where(JobRow.job_key == row["job_key"])
    upstream = start.cte("upstream", recursive=True)
    edges = sa.select(JobInput.input_key, upstream.c.depth + 1).join(upstream, JobInput.job_key == upstream.c.job_key)
    upstream = upstream.union(edges)
    depth = sa.func.min(upstream.c.depth).label("depth")
    nearest = sa.select(upstream.c.job_key, depth).group_by(upstream.c.job_key).subquery()
    jobs = sa.select(nearest.c.depth, JobRow.__table__).join(nearest, nearest.c.job_key == JobRow.job_key)
    return frame(connection, jobs.order_by(nearest.c.depth, JobRow.kind, JobRow.job_key))


def of_job(question_id: Any) -> sa.ColumnElement[bool]:
    """Return the condition that a row of the table ``questions`` is about a question of a job."""
    same_split = (QuestionRow.dataset == JobRow.dataset, QuestionRow.split == JobRow.split)
    return sa.and_(*same_split, QuestionRow.question_id == question_id)


def sampled(job_keys: Sequence[str]) -> sa.Select[*tuple[Any, ...]]:
    """Select the trajectories of some jobs with their questions, ordered by question and index."""
    labels = {"question": QuestionRow.text, "reference": QuestionRow.answer, "question_level": QuestionRow.level}
    of_questions = [column.label(name) for name, column in labels.items()]
    columns = ("trajectory", "text", "steps", "tokens", "finish_reason", "answer", "verdict", "correct")
    rows = sa.select(TrajectoryRow.question_id, *of_questions, *TrajectoryRow.columns(*columns))
    rows = rows.join(JobRow, JobRow.job_key == TrajectoryRow.job_key)
    rows = rows.outerjoin(QuestionRow, of_job(TrajectoryRow.question_id))
    rows = rows.where(TrajectoryRow.job_key.in_(job_keys))
    return rows.order_by(TrajectoryRow.question_id, TrajectoryRow.trajectory, TrajectoryRow.job_key)
