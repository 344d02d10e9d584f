"""``prmcal show``: a cell with its results, its jobs and some of its trajectories."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prmcal.db.catalog import cell, cell_provenance, is_merged, metrics, seed_spreads
from prmcal.db.metrics import Metrics, cell_number
from prmcal.db.queries.cells import CellDetail, find_cell, numbered
from prmcal.db.reader import Source
from prmcal.db.text.board import Column, estimate
from prmcal.db.text.formats import amount, counted, graded, missing, number
from prmcal.db.text.provenance import renewal, verified_text
from prmcal.harness.cli.options import (
    DEFAULT_RUN,
    CellArgument,
    PagerOption,
    RunOption,
    WideOption,
    hidden_note,
)
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.terminal import UNLIMITED, fit, wrapped
from prmcal.harness.terminal import show as show_text

if TYPE_CHECKING:
    import pandas as pd


_JOB_WEIGHTS = {
    "depth": 8,
    "kind": 0,
    "dataset": 3,
    "split": 2,
    "job_key": 0,
    "seed": 1,
    "status": 6,
    "shards": 7,
    "samples": 5,
    "seconds": 4,
}
"""The columns of the table of jobs. Those with the largest weights are left out first."""


def show(
    cell: CellArgument,
    directory: RunOption = DEFAULT_RUN,
    wide: WideOption = False,
    pager: PagerOption = True,
) -> None:
    """Show the results of a cell and their provenance.

    The provenance is the cell's plugins, data sets, jobs with keys and seeds, and some trajectories.
    """
    show_text(render_cell(directory, cell, UNLIMITED if wide else None), pager)


def render_cell(directory: Path, name: str, width: int | None = None) -> str:
    """Return a cell of a run's folder as text.

    Parameters
    ----------
    directory : Path
        The output folder of a run.
    name : str
        A name of a cell, as :func:`prmcal.db.queries.cells.find_cell` takes it.
    width : int, optional
        Default: the width of the terminal.

    Raises
    ------
    PrmcalError
        If no grid was run in the folder.
    DatabaseError
        If there is no such cell, or no readable database.
    """
    published = RunFolder(directory).results()
    cell_id = find_cell(published, name)
    detail = cell(published, cell_id)
    short = cell_number(numbered(published)[cell_id])
    head = [wrapped(f"{short} {cell_id}: {detail.cell['status']}", width)]
    if detail.cell["reason"]:
        head.append(wrapped(f"reason: {detail.cell['reason']}", width))
    head += [wrapped(line, width) for line in _provenance(published, detail.cell)]
    parts = ["\n".join(head)]
    if len(detail.results):
        parts.append(_results(detail.results, metrics(published), width))
    spreads = seed_spreads(published)
    spreads = spreads[spreads["cell_id"] == cell_id]
    if len(spreads):
        parts.append(_spreads(spreads, metrics(published), width))
    parts += [_plugins(detail, width), _data(detail, width), _jobs(detail.jobs, width)]
    parts += [
        wrapped(
            f"Trajectory {row.trajectory} of {row.question_id} ({graded(row.verdict, row.finish_reason)}): "
            f"{_kept(row.question)}",
            width,
        )
        + "\n"
        + wrapped(_kept(row.text), width)
        for row in detail.samples.itertuples()
    ]
    return "\n\n".join(parts) + "\n"


def _provenance(source: Source, row: dict[str, Any]) -> Iterator[str]:
    """Yield where a cell of a merged leaderboard comes from, what tells it apart, and how to renew it."""
    if not is_merged(source):
        return
    found = cell_provenance(source)
    (own,) = found[found["cell_id"] == row["cell_id"]].to_dict("records")
    ids, failed = own["submissions"].split(), own["failed_verifications"]
    if ids:
        verified = verified_text(own["tier"], own["verified_by"], own["verified_at"], failed)
        yield f"From {counted(len(ids), 'submission')} ({', '.join(ids)}): {verified}."
    told = [f"{name.capitalize()}: {own[name]}." for name in ("conditions", "version") if own[name]]
    if own["conflict"]:
        told.append("Another submission has other bytes under a key behind it.")
    if told:
        yield " ".join(told)
    if not missing(own["outdated"]):
        yield f"Not current. Since then, this has changed: {own['outdated']}. To measure it again: {renewal(row)}"


def _kept(text: Any) -> str:
    """Return a text, or say that its submission leaves it out."""
    return text if isinstance(text, str) else "(left out of the submission)"


def _results(results: pd.DataFrame, described: Metrics, width: int | None) -> str:
    place = {name: index for index, name in enumerate(described)}
    rows = sorted(
        results.to_dict("records"),
        key=lambda row: (
            place.get(row["metric"], len(place)),
            row["metric"],
            not missing(row["question_level"]) and row["question_level"],
        ),
    )
    values = tuple(estimate(row["metric"], row["value"], row["low"], row["high"]) for row in rows)
    columns = [
        Column("metric", tuple(row["metric"] for row in rows), 0),
        Column("value, 95% interval", values, 0, whole=True),
        Column("questions", _texts(rows, "questions"), 1),
        Column("rows", _texts(rows, "rows"), 2),
    ]
    if any(not missing(row["question_level"]) for row in rows):
        columns.insert(1, Column("level", _texts(rows, "question_level", "all"), 0))
    return _with_note(columns, width)


def _spreads(spreads: pd.DataFrame, described: Metrics, width: int | None) -> str:
    place = {name: index for index, name in enumerate(described)}
    rows = sorted(spreads.to_dict("records"), key=lambda row: place.get(row["metric"], len(place)))
    columns = [Column("metric", _texts(rows, "metric"), 0), Column("seeds", _texts(rows, "seeds"), 0)]
    for title, name in (
        ("mean", "mean"),
        ("standard deviation", "standard_deviation"),
        ("lowest", "lowest"),
        ("highest", "highest"),
    ):
        columns.append(Column(title, tuple(number(row[name]) for row in rows), 0))
    return "Between seeds, over all questions\n\n" + _with_note(columns, width)


def _plugins(detail: CellDetail, width: int | None) -> str:
    lines = ["Plugins"]
    for row in detail.plugins.itertuples():
        lines.append(wrapped(f"{row.kind} {row.name}: {row.plugin}", width, indent="  ", hanging="  "))
        for title, data in (("arguments", row.arguments), ("identity", row.identity)):
            text = f"{title} {json.dumps(data, sort_keys=True)}"
            lines.append(wrapped(text, width, indent="    ", hanging="  "))
    return "\n".join(lines)


def _data(detail: CellDetail, width: int | None) -> str:
    lines = ["Data"]
    for row in detail.datasets.itertuples():
        text = (
            f"{row.name}/{row.split}: {row.questions} questions, content {row.content_hash}, "
            f"grader {row.grader_version}"
        )
        lines.append(wrapped(text, width, indent="  ", hanging="  "))
    return "\n".join(lines)


def _jobs(jobs: pd.DataFrame, width: int | None) -> str:
    rows = jobs.astype({"seed": "str"}).to_dict("records")
    columns = [Column(name, _texts(rows, name), weight) for name, weight in _JOB_WEIGHTS.items()]
    return "Jobs, from the cell down to the rollouts\n\n" + _with_note(columns, width)


def _with_note(columns: list[Column], width: int | None) -> str:
    fitted = fit(columns, width)
    if not fitted.hidden:
        return fitted.text
    return f"{fitted.text}\n{wrapped(hidden_note(fitted.hidden), width)}"


def _texts(rows: list[dict[str, Any]], name: str, absent: str = "") -> tuple[str, ...]:
    return tuple(absent if missing(row[name]) else _text(row[name]) for row in rows)


def _text(value: Any) -> str:
    return amount(value) if isinstance(value, float) else str(value)
