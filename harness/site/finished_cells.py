"""The finished cells of a leaderboard with their values, models and provenance, as exports need them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from prmcal.db import catalog
from prmcal.db.metrics import COORDINATES, Leaderboard, Metric
from prmcal.db.reader import frame, reading
from prmcal.db.tables import JobInput
from prmcal.db.text.formats import missing
from prmcal.db.text.presentation import LEADERBOARDS

HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
"""The name of a repository on the hub."""
_SHIPPED = "nano:"
_ENGINES = ("transformers", "vllm")


@dataclass(frozen=True)
class HubModel:
    """An LLM or a PRM as the hub names it. The developer is "unknown" unless the checkpoint says who it is.

    `engine` is the library that runs it on the machine of the run; None if the plugin does not say. `shipped` says
    that prmcal contains it.
    """

    developer: str
    name: str
    engine: str | None
    shipped: bool = False

    @property
    def id(self) -> str:
        """The name in the form of the hub."""
        return f"{self.developer}/{self.name}"


@dataclass(frozen=True)
class MeasuredValue:
    """A measured value with its 95% interval, whose ends are None if it has none."""

    metric: Metric
    value: float
    low: float | None
    high: float | None
    questions: int
    rows: int

    @property
    def scored(self) -> bool:
        """True if a direction makes it better."""
        return self.metric.better in ("lower", "higher")


@dataclass(frozen=True)
class FinishedCell:
    """A finished cell.

    Attributes
    ----------
    cell_id, job_key : str
    leaderboard : {"calibration", "scaling", "league"}
    coordinates : dict of str to str
        The coordinates that the cell has, as text.
    values : tuple of MeasuredValue
    measured_at : datetime
        End of the run that measured it, UTC; its start if it has not ended.
    inputs : frozenset of str
        The keys of all jobs behind the cell, its own included.
    provenance : dict of str to str
        What is known of the submissions, the verification and the versions behind the cell.
    """

    cell_id: str
    job_key: str
    leaderboard: Leaderboard
    coordinates: Mapping[str, str]
    values: tuple[MeasuredValue, ...]
    measured_at: datetime
    inputs: frozenset[str]
    provenance: Mapping[str, str]

    @property
    def about(self) -> str:
        """The kind of the model that the cell is about."""
        return "prm" if self.leaderboard == "calibration" else "llm"


@dataclass(frozen=True, eq=False)
class FinishedCells:
    """All finished cells in the order of the leaderboards, and rows of the database that they have in common.

    `jobs` are by key, `plugins` by kind and name, and `datasets`, of the test split, by name. `prmcal_version` has the
    versions that measured the cells, `packages` is that of the latest run, and `baselines` are the calibrators that
    leave rewards unchanged.
    """

    cells: tuple[FinishedCell, ...]
    jobs: Mapping[str, Mapping[str, Any]]
    plugins: Mapping[tuple[str, str], Mapping[str, Any]]
    datasets: Mapping[str, Mapping[str, Any]]
    prmcal_version: str
    packages: Mapping[str, str]
    baselines: frozenset[str]

    def model(self, cell: FinishedCell) -> HubModel:
        """Return the model that a cell is about."""
        name = cell.coordinates[cell.about]
        row = self.plugins.get((cell.about, name), {"arguments": {}, "plugin": ""})
        engine = next((each for each in _ENGINES if each in row["plugin"]), None)
        checkpoint = str(row["arguments"].get("checkpoint") or row["arguments"].get("model") or "")
        if checkpoint.startswith(_SHIPPED):
            return HubModel("prmcal", f"nano-{checkpoint.removeprefix(_SHIPPED)}", engine, shipped=True)
        if HUB_NAME.fullmatch(checkpoint):
            developer, _, model = checkpoint.partition("/")
            return HubModel(developer, model, engine)
        return HubModel("unknown", name, engine)

    def sampling(self, cell: FinishedCell) -> Mapping[str, Any]:
        """Return how the LLM of a cell was sampled on the test questions; empty if this is not known."""
        for key in sorted(cell.inputs):
            job = self.jobs.get(key, {})
            same = all(job.get(name) == cell.coordinates.get(name) for name in ("llm", "dataset"))
            if same and job.get("split") == "test" and "sampling" in job["parameters"]:
                found: Mapping[str, Any] = job["parameters"]["sampling"]
                return found
        return {}


def read_finished_cells(published: Path) -> FinishedCells:
    """Read the finished cells of a published database, of a run or of a merged leaderboard."""
    with reading(published) as source:
        described = catalog.metrics(source)
        jobs = {row["job_key"]: row for row in catalog.jobs(source).to_dict("records")}
        edges = frame(source, sa.select(JobInput.job_key, JobInput.input_key))
        direct: dict[str, list[str]] = edges.groupby("job_key")["input_key"].agg(list).to_dict()
        ran = [_without_gaps(row) for row in catalog.runs(source).to_dict("records")]
        sent = {row["submission_id"]: row for row in catalog.submissions(source).to_dict("records")}
        known = {row["cell_id"]: _without_gaps(row) for row in catalog.cells(source).to_dict("records")}
        tables = {table: catalog.measurements(source, table) for table in LEADERBOARDS}
        used = catalog.datasets(source).to_dict("records")
        plugins = {(row["kind"], row["name"]): row for row in catalog.plugins(source).to_dict("records")}
        baselines = frozenset(catalog.with_role(source, "baseline"))
    latest = ran[-1]

    @cache
    def behind(key: str) -> frozenset[str]:
        return frozenset({key}).union(*map(behind, direct.get(key, [])))

    def value(row: Mapping[str, Any]) -> MeasuredValue:
        name = row["metric"]
        metric = described.get(name) or Metric(name, described.title(name), "calibration", None, "")
        return MeasuredValue(
            metric, row["value"], row["low"], row["high"], int(row["questions"]), int(row["rows"])
        )

    found = []
    for table, long in tables.items():
        done = long[(long["status"] == "done") & long["metric"].notna()]
        for cell_id, group in done.groupby("cell_id", sort=False):
            cell, rows = known[str(cell_id)], [_without_gaps(row) for row in group.to_dict("records")]
            where = {name: rows[0][name] for name in COORDINATES if rows[0][name] is not None}
            found.append(
                FinishedCell(
                    str(cell_id),
                    cell["job_key"],
                    table,
                    {
                        name: f"{each:g}" if isinstance(each, float) else str(each)
                        for name, each in where.items()
                    },
                    tuple(map(value, rows)),
                    cell["measured_at"] or latest["finished_at"] or latest["started_at"],
                    behind(cell["job_key"]),
                    _provenance(rows[0], sent),
                )
            )
    return FinishedCells(
        tuple(found),
        jobs,
        plugins,
        {row["name"]: row for row in used if row["split"] == "test"},
        ", ".join(sorted({row["prmcal_version"] for row in ran})),
        latest["packages"],
        baselines,
    )


def _provenance(row: Mapping[str, Any], sent: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
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


def _without_gaps(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row in which what is missing is None."""
    return {name: None if missing(value) or value != value else value for name, value in row.items()}
