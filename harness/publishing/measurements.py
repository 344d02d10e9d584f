"""The finished cells of a leaderboard with their values, models and provenance, as the exports need them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from prmcal.db.catalog import (
    cells,
    datasets,
    jobs,
    measurements,
    metrics,
    plugins,
    runs,
    submissions,
    with_role,
)
from prmcal.db.metrics import COORDINATES, Leaderboard, Metric, Metrics
from prmcal.db.reader import frame, reading
from prmcal.db.tables import JobInput
from prmcal.db.text.presentation import LEADERBOARDS
from prmcal.db.text.readable import missing

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["HUB_NAME", "Board", "Measurement", "Model", "Value", "read_board"]

HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
"""The name of a repository on the hub."""
_SHIPPED = "nano:"
_LOCAL_ENGINES = ("transformers", "vllm")


@dataclass(frozen=True)
class Model:
    """An LLM or a PRM.

    Attributes
    ----------
    developer, name : str
        As in its name on the hub. The developer is "unknown" unless the checkpoint says who it is.
    plugin : str
        The plugin that loads it.
    shipped : bool
        Whether it is one of the models that prmcal contains.
    """

    developer: str
    name: str
    plugin: str
    shipped: bool

    @property
    def id(self) -> str:
        """The name in the form of the hub."""
        return f"{self.developer}/{self.name}"

    @property
    def engine(self) -> str | None:
        """The library that runs it on the machine of the run; None if the plugin does not tell."""
        return next((each for each in _LOCAL_ENGINES if each in self.plugin), None)


@dataclass(frozen=True)
class Value:
    """A measured value with its 95% interval, whose ends are None if it has none."""

    metric: Metric
    value: float
    low: float | None
    high: float | None
    questions: int
    rows: int


@dataclass(frozen=True)
class Measurement:
    """A finished cell.

    Attributes
    ----------
    cell_id, job_key : str
    leaderboard : {"calibration", "scaling", "league"}
    coordinates : dict of str to str
        The coordinates that the cell has, as text.
    values : tuple of Value
    measured_at : datetime
        End of the run that measured it, UTC; its start if it has not ended.
    replicates : int or None
        Replicates of the bootstrap behind the intervals.
    inputs : frozenset of str
        The keys of all jobs behind the cell, its own included.
    provenance : dict of str to str
        What is known of the submissions, the verification and the versions behind the cell.
    """

    cell_id: str
    job_key: str
    leaderboard: Leaderboard
    coordinates: Mapping[str, str]
    values: tuple[Value, ...]
    measured_at: datetime
    replicates: int | None
    inputs: frozenset[str]
    provenance: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Board:
    """All finished cells, and what they have in common.

    Attributes
    ----------
    measurements : tuple of Measurement
        In the order of the leaderboards.
    jobs : dict
        The rows of the table ``jobs`` by key.
    plugins : dict
        The rows of the table ``plugins`` by kind and name.
    datasets : dict
        The rows of the table ``datasets`` by name, of the test split.
    prmcal_version : str
        The version that measured the cells; several are separated by commas.
    packages : dict of str to str
        Versions of the packages of the latest run.
    baselines : frozenset of str
        The names of the calibrators that leave rewards unchanged.
    """

    measurements: tuple[Measurement, ...]
    jobs: Mapping[str, Mapping[str, Any]]
    plugins: Mapping[tuple[str, str], Mapping[str, Any]]
    datasets: Mapping[str, Mapping[str, Any]]
    prmcal_version: str
    packages: Mapping[str, str]
    baselines: frozenset[str]

    def model(self, kind: str, name: str) -> Model:
        """Return an LLM or a PRM by its name on the leaderboards."""
        row = self.plugins.get((kind, name), {"arguments": {}, "plugin": ""})
        checkpoint = str(row["arguments"].get("checkpoint") or row["arguments"].get("model") or "")
        if checkpoint.startswith(_SHIPPED):
            return Model("prmcal", f"nano-{checkpoint.removeprefix(_SHIPPED)}", row["plugin"], True)
        if HUB_NAME.fullmatch(checkpoint):
            developer, _, model = checkpoint.partition("/")
            return Model(developer, model, row["plugin"], False)
        return Model("unknown", name, row["plugin"], False)

    def sampling(self, measurement: Measurement) -> Mapping[str, Any]:
        """Return how the LLM of a cell was sampled on the test questions; empty if this is not known."""
        for key in sorted(measurement.inputs):
            job = self.jobs.get(key, {})
            same = all(job.get(name) == measurement.coordinates.get(name) for name in ("llm", "dataset"))
            if same and job.get("split") == "test" and "sampling" in job["parameters"]:
                found: Mapping[str, Any] = job["parameters"]["sampling"]
                return found
        return {}


def read_board(published: Path) -> Board:
    """Read the finished cells of a published database, of a run or of a merged leaderboard."""
    with reading(published) as source:
        described = metrics(source)
        known_jobs = {row["job_key"]: row for row in jobs(source).to_dict("records")}
        inputs = _Inputs(frame(source, sa.select(JobInput.job_key, JobInput.input_key)))
        ran = [_without_gaps(row) for row in runs(source).to_dict("records")]
        sent = {row["submission_id"]: row for row in submissions(source).to_dict("records")}
        known = {row["cell_id"]: _without_gaps(row) for row in cells(source).to_dict("records")}
        tables = {table: measurements(source, table) for table in LEADERBOARDS}
        used = datasets(source).to_dict("records")
        named = {(row["kind"], row["name"]): row for row in plugins(source).to_dict("records")}
        baselines = frozenset(with_role(source, "baseline"))
    latest = ran[-1]
    found = []
    for table, long in tables.items():
        done = long[(long["status"] == "done") & long["metric"].notna()]
        for cell_id, rows in done.groupby("cell_id", sort=False):
            cell = known[str(cell_id)]
            first, *_ = values = [_without_gaps(row) for row in rows.to_dict("records")]
            found.append(
                Measurement(
                    cell_id=str(cell_id),
                    job_key=cell["job_key"],
                    leaderboard=table,
                    coordinates={name: _text(first[name]) for name in COORDINATES if first[name] is not None},
                    values=tuple(_value(row, described) for row in values),
                    measured_at=cell["measured_at"] or latest["finished_at"] or latest["started_at"],
                    replicates=known_jobs[cell["job_key"]]["parameters"]
                    .get("bootstrap", {})
                    .get("replicates"),
                    inputs=inputs.of(cell["job_key"]),
                    provenance=_provenance(first, sent),
                )
            )
    return Board(
        measurements=tuple(found),
        jobs=known_jobs,
        plugins=named,
        datasets={row["name"]: row for row in used if row["split"] == "test"},
        prmcal_version=", ".join(sorted({row["prmcal_version"] for row in ran})),
        packages=latest["packages"],
        baselines=baselines,
    )


class _Inputs:
    """The jobs behind each job."""

    def __init__(self, edges: pd.DataFrame) -> None:
        self._direct: dict[str, list[str]] = {}
        for job_key, input_key in edges.itertuples(index=False):
            self._direct.setdefault(job_key, []).append(input_key)
        self._known: dict[str, frozenset[str]] = {}

    def of(self, key: str) -> frozenset[str]:
        """Return the keys of a job and of all jobs behind it."""
        if key not in self._known:
            behind = (self.of(each) for each in self._direct.get(key, []))
            self._known[key] = frozenset({key}).union(*behind)
        return self._known[key]


def _value(row: Mapping[str, Any], described: Metrics) -> Value:
    name = row["metric"]
    metric = described.get(name) or Metric(name, described.title(name), "calibration", None, "")
    return Value(metric, row["value"], row["low"], row["high"], int(row["questions"]), int(row["rows"]))


def _provenance(row: Mapping[str, Any], sent: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    if "submissions" not in row:
        return {}
    own = [sent[each] for each in row["submissions"].split()]
    told = {
        name: row[name]
        for name in (
            "seed",
            "conditions",
            "version",
            "conflict",
            "tier",
            "verified_by",
            "verified_at",
            "outdated",
            "failed_verifications",
        )
    }
    told |= {"submissions": row["submissions"].replace(" ", ", ")}
    for title, name in (("submitters", "submitter"), ("licences", "licence")):
        told[title] = ", ".join(dict.fromkeys(each[name] for each in own if each[name]))
    told["signatures"] = ", ".join(
        f"{each['submission_id']} by {each['signed_by']}" for each in own if each["signed_by"]
    )
    return {name: str(text) for name, text in told.items() if text}


def _without_gaps(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row in which what is missing is None."""
    return {name: None if missing(value) or value != value else value for name, value in row.items()}


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
