"""The finished cells of a leaderboard with their values, models and provenance, as exports need them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from prmcal.db import catalog
from prmcal.db.metrics import COORDINATES, Leaderboard, Metrics
from prmcal.db.reader import frame, reading
from prmcal.db.tables import JobInput
from prmcal.db.text.formats import LEADERBOARDS, missing

HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
"""The name of a repository on the hub."""
_NOT_PORTABLE = re.compile(r"[^A-Za-z0-9._-]+")
_SHIPPED = "nano:"

Row = Mapping[str, Any]
"""A row of the database, in which what is missing is None."""


@dataclass(frozen=True)
class HubModel:
    """An LLM or a PRM as the hub names it. The developer is "unknown" unless the checkpoint says who it is."""

    developer: str
    name: str

    @property
    def id(self) -> str:
        """The name in the form of the hub."""
        return f"{self.developer}/{self.name}"

    @property
    def folder(self) -> Path:
        """The developer and the name, as folders of any system."""
        return Path(portable(self.developer), portable(self.name))


@dataclass(frozen=True, eq=False)
class FinishedCell:
    """A finished cell."""

    cell_id: str
    leaderboard: Leaderboard
    coordinates: Mapping[str, str]
    """The coordinates that the cell has, as text."""
    values: Sequence[Row]
    """Its values: metric, value, low, high, questions and rows. A value without an interval has no ends."""
    measured_at: datetime
    """End of the run that measured it, UTC; its start if it has not ended."""
    job: Row
    """The row of the job that measured it."""
    behind: Sequence[Row]
    """The rows of all jobs behind the cell, its own included."""
    provenance: Mapping[str, str]
    """The facts about the submissions, the verification and the versions behind the cell."""

    @property
    def about(self) -> str:
        """The kind of the model that the cell is about."""
        return "prm" if self.leaderboard == "calibration" else "llm"


@dataclass(frozen=True, eq=False)
class FinishedCells:
    """All finished cells in the order of the leaderboards, and rows of the database that they have in common.

    `plugins` are by kind and name, and `datasets`, of the test split, by name. `prmcal_version` has the versions that
    measured the cells.
    """

    cells: Sequence[FinishedCell]
    metrics: Metrics
    plugins: Mapping[tuple[str, str], Row]
    datasets: Mapping[str, Row]
    prmcal_version: str

    def model(self, cell: FinishedCell) -> HubModel:
        """Return the model that a cell is about."""
        name = cell.coordinates[cell.about]
        arguments = self.plugins.get((cell.about, name), {}).get("arguments", {})
        checkpoint = str(arguments.get("checkpoint") or arguments.get("model") or "")
        if checkpoint.startswith(_SHIPPED):
            return HubModel("prmcal", f"nano-{checkpoint.removeprefix(_SHIPPED)}")
        if HUB_NAME.fullmatch(checkpoint):
            return HubModel(*checkpoint.split("/"))
        return HubModel("unknown", name)


def portable(name: str) -> str:
    """Return a name as the name of a file or a folder."""
    return _NOT_PORTABLE.sub("-", name).strip("-.") or "unknown"


def read_finished_cells(published: Path) -> FinishedCells:
    """Read the finished cells of a published database, of a run or of a merged leaderboard."""
    with reading(published) as source:
        jobs = {row["job_key"]: row for row in catalog.jobs(source).to_dict("records")}
        edges = frame(source, sa.select(JobInput.job_key, JobInput.input_key))
        ran = [_without_gaps(row) for row in catalog.runs(source).to_dict("records")]
        sent = {row["submission_id"]: row for row in catalog.submissions(source).to_dict("records")}
        known = {row["cell_id"]: _without_gaps(row) for row in catalog.cells(source).to_dict("records")}
        tables = {table: catalog.measurements(source, table) for table in LEADERBOARDS}
        used = catalog.datasets(source).to_dict("records")
        plugins = {(row["kind"], row["name"]): row for row in catalog.plugins(source).to_dict("records")}
        described = catalog.metrics(source)
    latest, direct = ran[-1], edges.groupby("job_key")["input_key"].agg(list).to_dict()

    @cache
    def behind(key: str) -> frozenset[str]:
        return frozenset({key}).union(*map(behind, direct.get(key, [])))

    found = []
    for table, long in tables.items():
        done = long[(long["status"] == "done") & long["metric"].notna()]
        for cell_id, group in done.groupby("cell_id", sort=False):
            cell, rows = known[str(cell_id)], [_without_gaps(row) for row in group.to_dict("records")]
            where = {name: rows[0][name] for name in COORDINATES if rows[0][name] is not None}
            found.append(
                FinishedCell(
                    str(cell_id),
                    table,
                    {name: f"{each:g}" if isinstance(each, float) else each for name, each in where.items()},
                    rows,
                    cell["measured_at"] or latest["finished_at"] or latest["started_at"],
                    jobs[cell["job_key"]],
                    [jobs[key] for key in sorted(behind(cell["job_key"])) if key in jobs],
                    _provenance(rows[0], sent),
                )
            )
    return FinishedCells(
        found,
        described,
        plugins,
        {row["name"]: row for row in used if row["split"] == "test"},
        ", ".join(sorted({row["prmcal_version"] for row in ran})),
    )


def _provenance(row: Row, sent: Mapping[str, Row]) -> dict[str, str]:
    if "submissions" not in row:
        return {}
    own = [sent[each] for each in row["submissions"].split()]
    names = ("tier", "verified_by", "verified_at", "outdated", "failed_verifications")
    found = {name: row[name] for name in names} | {"submissions": row["submissions"].replace(" ", ", ")}
    for title, name in (("submitters", "submitter"), ("licences", "licence")):
        found[title] = ", ".join(dict.fromkeys(each[name] for each in own if each[name]))
    signed = [f"{each['submission_id']} by {each['signed_by']}" for each in own if each["signed_by"]]
    found["signatures"] = ", ".join(signed)
    return {name: str(text) for name, text in found.items() if text}


def _without_gaps(row: Row) -> dict[str, Any]:
    return {name: None if missing(value) else value for name, value in row.items()}
