"""``prmcal show``: a cell with its results, its jobs and some of its trajectories."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prmcal.db.catalog import cell, cell_provenance, is_merged, metrics, seed_spreads
from prmcal.db.metrics import cell_number
from prmcal.db.queries.cells import CellDetail, find_cell, numbered
from prmcal.db.reader import Source, reading
from prmcal.db.text.board import Column, estimate
from prmcal.db.text.formats import amount, counted, graded, kept, missing, number
from prmcal.db.text.provenance import renewal, verified_text
from prmcal.harness.cli.options import DEFAULT_RUN, CellArgument, PagerOption, RunOption, WideOption, fitted
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.terminal import UNLIMITED, wrapped
from prmcal.harness.terminal import show as show_text

if TYPE_CHECKING:
    import pandas as pd


_JOB_WEIGHTS = {
    **{"depth": 8, "kind": 0, "dataset": 3, "split": 2, "job_key": 0, "seed": 1, "status": 6, "shards": 7},
    **{"samples": 5, "seconds": 4},
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
    """Return a cell of a run's folder as text. The name is one that :func:`prmcal.db.queries.cells.find_cell` takes.

    Raise PrmcalError if there is no such run or cell.
    """
    with reading(RunFolder(directory).results()) as source:
        cell_id = find_cell(source, name)
        detail, short = cell(source, cell_id), cell_number(numbered(source)[cell_id])
        provenance = list(_provenance(source, detail.cell))
        spreads = seed_spreads(source)
        order = {metric: place for place, metric in enumerate(metrics(source))}
    head = [f"{short} {cell_id}: {detail.cell['status']}"]
    if detail.cell["reason"]:
        head.append(f"reason: {detail.cell['reason']}")
    parts = ["\n".join(wrapped(line, width) for line in (*head, *provenance))]
    if len(detail.results):
        parts.append(fitted(_results(detail.results, order), width))
    spreads = spreads[spreads["cell_id"] == cell_id]
    if len(spreads):
        parts += ["Between seeds, over all questions", fitted(_spreads(spreads, order), width)]
    jobs = detail.jobs.astype({"seed": "str"}).to_dict("records")
    columns = [Column(name, _texts(jobs, name), weight) for name, weight in _JOB_WEIGHTS.items()]
    parts += [_plugins(detail, width), "Jobs, from the cell down to the rollouts", fitted(columns, width)]
    for row in detail.samples.itertuples():
        graded_as = graded(row.verdict, row.finish_reason)
        title = f"Trajectory {row.trajectory} of {row.question_id} ({graded_as}): {kept(row.question)}"
        parts.append(f"{wrapped(title, width)}\n{wrapped(kept(row.text), width)}")
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


def _results(results: pd.DataFrame, order: Mapping[str, int]) -> list[Column]:
    # Values over all questions come before those of a difficulty.
    place = results["metric"].map(order).fillna(len(order))
    results = results.assign(place=place).sort_values(
        ["place", "metric", "question_level"], na_position="first"
    )
    rows = results.to_dict("records")
    values = tuple(estimate(row["metric"], row["value"], row["low"], row["high"]) for row in rows)
    levels = [Column("level", _texts(rows, "question_level", "all"))]
    return [
        Column("metric", _texts(rows, "metric")),
        *(levels if results["question_level"].notna().any() else ()),
        Column("value, 95% interval", values, whole=True),
        Column("questions", _texts(rows, "questions"), 1),
        Column("rows", _texts(rows, "rows"), 2),
    ]


def _spreads(spreads: pd.DataFrame, order: Mapping[str, int]) -> list[Column]:
    rows = sorted(spreads.to_dict("records"), key=lambda row: order.get(row["metric"], len(order)))
    measured = ("mean", "standard_deviation", "lowest", "highest")
    return [
        Column("metric", _texts(rows, "metric")),
        Column("seeds", _texts(rows, "seeds")),
        *(Column(each.replace("_", " "), tuple(number(row[each]) for row in rows)) for each in measured),
    ]


def _plugins(detail: CellDetail, width: int | None) -> str:
    lines = ["Plugins"]
    for row in detail.plugins.itertuples():
        lines.append(wrapped(f"{row.kind} {row.name}: {row.plugin}", width, indent="  ", hanging="  "))
        for title, data in (("arguments", row.arguments), ("identity", row.identity)):
            text = f"{title} {json.dumps(data, sort_keys=True)}"
            lines.append(wrapped(text, width, indent="    ", hanging="  "))
    lines += ["", "Data"]
    for row in detail.datasets.itertuples():
        text = f"{row.name}/{row.split}: {row.questions} questions, content {row.content_hash}, grader "
        lines.append(wrapped(text + row.grader_version, width, indent="  ", hanging="  "))
    return "\n".join(lines)


def _texts(rows: list[dict[str, Any]], name: str, absent: str = "") -> tuple[str, ...]:
    values = [absent if missing(row[name]) else row[name] for row in rows]
    return tuple(amount(value) if isinstance(value, float) else str(value) for value in values)
