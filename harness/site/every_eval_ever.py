"""Records of the schema Every Eval Ever (evalevalai.com, version 0.3), a file for each finished cell.

A record has one model, and a cell has up to three plugins. Records of the calibration leaderboard are about the PRM,
and those of the scaling leaderboard and of the league are about the LLM. The others are additional details of the
model. Values that no direction makes better, such as samples, are details of the others.

Files are named by the key of the job that measured the cell, and times are those of the measurement. So a leaderboard
gives the same bytes whenever it is exported.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from prmcal.db import catalog
from prmcal.db.metrics import COORDINATES, Leaderboard
from prmcal.db.reader import frame, reading
from prmcal.db.tables import JobInput
from prmcal.db.text.board import estimate
from prmcal.db.text.formats import LEADERBOARDS, missing
from prmcal.harness.storage.written import write_text

SCHEMA_VERSION = "0.3.0"
COLLECTION = "prmcal"
"""The folder of the records below ``data``."""
_SAMPLING = ("temperature", "top_p", "top_k", "max_tokens")
_UNIT = re.compile(
    r"(accuracy(_at_\d+)?|pass_at_n|wrong|area|brier|positive_brier|ece|adaptive_ce|average_ce|auroc_within|"
    r"coverage_[\d.]+)(_with_terminal)?"
)
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_NOT_PORTABLE = re.compile(r"[^A-Za-z0-9._-]+")
_SHIPPED = "nano:"

Row = Mapping[str, Any]
"""A row of the database, in which what is missing is None."""


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


class Records:
    """The records of all finished cells of a published database, of a run or of a merged leaderboard.

    `prmcal_version` has the versions that measured the cells.
    """

    def __init__(self, published: Path) -> None:
        with reading(published) as source:
            jobs = {row["job_key"]: row for row in catalog.jobs(source).to_dict("records")}
            edges = frame(source, sa.select(JobInput.job_key, JobInput.input_key))
            ran = [_without_gaps(row) for row in catalog.runs(source).to_dict("records")]
            sent = {row["submission_id"]: row for row in catalog.submissions(source).to_dict("records")}
            known = {row["cell_id"]: _without_gaps(row) for row in catalog.cells(source).to_dict("records")}
            tables = {table: catalog.measurements(source, table) for table in LEADERBOARDS}
            used = catalog.datasets(source).to_dict("records")
            self._plugins = {
                (row["kind"], row["name"]): row for row in catalog.plugins(source).to_dict("records")
            }
            self._metrics = catalog.metrics(source)
        self._datasets = {row["name"]: row for row in used if row["split"] == "test"}
        self.prmcal_version = ", ".join(sorted({row["prmcal_version"] for row in ran}))
        self._cells: list[FinishedCell] = []
        latest, direct = ran[-1], edges.groupby("job_key")["input_key"].agg(list).to_dict()

        @cache
        def behind(key: str) -> frozenset[str]:
            return frozenset({key}).union(*map(behind, direct.get(key, [])))

        for table, long in tables.items():
            done = long[(long["status"] == "done") & long["metric"].notna()]
            for cell_id, group in done.groupby("cell_id", sort=False):
                cell, rows = known[str(cell_id)], [_without_gaps(row) for row in group.to_dict("records")]
                where = {name: rows[0][name] for name in COORDINATES if rows[0][name] is not None}
                self._cells.append(
                    FinishedCell(
                        str(cell_id),
                        table,
                        {
                            name: f"{each:g}" if isinstance(each, float) else each
                            for name, each in where.items()
                        },
                        rows,
                        cell["measured_at"] or latest["finished_at"] or latest["started_at"],
                        jobs[cell["job_key"]],
                        [jobs[key] for key in sorted(behind(cell["job_key"])) if key in jobs],
                        _provenance(rows[0], sent),
                    )
                )

    def write(self, folder: Path) -> None:
        """Write the records to ``data/prmcal/DEVELOPER/MODEL/UUID.json`` in an existing folder."""
        for cell in self._cells:
            scored = [
                row for row in cell.values if self._metrics[row["metric"]].better in ("lower", "higher")
            ]
            if scored:
                model = (_NOT_PORTABLE.sub("-", name).strip("-.") or "unknown" for name in self._model(cell))
                path = folder.joinpath("data", COLLECTION, *model, f"{_uuid(cell)}.json")
                path.parent.mkdir(parents=True, exist_ok=True)
                write_text(path, json.dumps(self._record(cell, scored), indent=2, ensure_ascii=False) + "\n")

    def _model(self, cell: FinishedCell) -> tuple[str, str]:
        """Return the developer and the name of the model that a cell is about, as the hub names it.

        The developer is "unknown" unless the checkpoint says who it is.
        """
        name = cell.coordinates[cell.about]
        arguments = self._plugins.get((cell.about, name), {}).get("arguments", {})
        checkpoint = str(arguments.get("checkpoint") or arguments.get("model") or "")
        if checkpoint.startswith(_SHIPPED):
            return "prmcal", f"nano-{checkpoint.removeprefix(_SHIPPED)}"
        developer, _, own = checkpoint.partition("/")
        return (developer, own) if _HUB_NAME.fullmatch(checkpoint) else ("unknown", name)

    def _record(self, cell: FinishedCell, scored: list[Row]) -> dict[str, Any]:
        (developer, name), moment = self._model(cell), cell.measured_at.replace(tzinfo=UTC)
        timestamp = str(int(moment.timestamp()))
        return {
            "schema_version": SCHEMA_VERSION,
            "evaluation_id": f"{COLLECTION}-{_uuid(cell)}/{developer}/{name}/{timestamp}",
            "evaluation_timestamp": moment.isoformat(),
            "retrieved_timestamp": timestamp,
            "source_metadata": {
                "source_name": f"prmcal {LEADERBOARDS[cell.leaderboard].title.lower()} leaderboard",
                "source_type": "evaluation_run",
                "source_organization_name": cell.provenance.get("submitters", "unknown"),
                "evaluator_relationship": "other",
                "additional_details": {
                    **cell.provenance,
                    "cell": cell.cell_id,
                    "job_key": cell.job["job_key"],
                },
            },
            "eval_library": {"name": "prmcal", "version": self.prmcal_version},
            "model_info": {
                "name": name,
                "id": f"{developer}/{name}",
                "developer": developer,
                "additional_details": {
                    "deployment_type": "unknown",
                    "model_availability": "unknown",
                    **{kind: text for kind, text in cell.coordinates.items() if kind != cell.about},
                },
            },
            "evaluation_results": [self._result(cell, row) for row in scored],
        }

    def _result(self, cell: FinishedCell, row: Row) -> dict[str, Any]:
        name, dataset = row["metric"], cell.coordinates["dataset"]
        described, about = self._metrics, self._datasets.get(dataset, {})
        costs = {
            other["metric"]: estimate(other["metric"], other["value"], other["low"], other["high"])
            for other in cell.values
            if described[other["metric"]].better not in ("lower", "higher")
        }
        arguments = self._plugins.get(("metric", name), {}).get("arguments", {})
        plain = {key: each for key, each in arguments.items() if isinstance(each, (str, int, float, bool))}
        unit = _UNIT.fullmatch(name)
        uncertainty: dict[str, Any] = {"num_samples": int(row["questions"])}
        if row["low"] is not None:
            uncertainty["confidence_interval"] = {
                "lower": row["low"],
                "upper": row["high"],
                "confidence_level": 0.95,
                "method": "bootstrap over questions",
            }
            replicates = cell.job["parameters"].get("bootstrap", {}).get("replicates")
            uncertainty |= {} if replicates is None else {"num_bootstrap_samples": replicates}
        config = _generation_config(cell)
        return {
            "evaluation_result_id": f"{cell.cell_id}/{name}",
            "evaluation_name": f"prmcal.{cell.leaderboard}.{dataset}",
            "source_data": {
                "dataset_name": dataset,
                "source_type": "other",
                "additional_details": {
                    each: str(about[each])
                    for each in ("content_hash", "grader_version", "questions")
                    if each in about
                },
            },
            "metric_config": {
                "metric_id": f"{COLLECTION}.{name}",
                "metric_name": described[name].title,
                "evaluation_description": described[name].description,
                **({"metric_parameters": plain} if plain else {}),
                "lower_is_better": described[name].better == "lower",
                "score_type": "continuous",
                "min_score": 0.0 if unit else "-Infinity",
                "max_score": 1.0 if unit else "Infinity",
            },
            "score_details": {
                "score": row["value"],
                "details": {"questions": str(int(row["questions"])), "rows": str(int(row["rows"])), **costs},
                "uncertainty": uncertainty,
            },
            **({"generation_config": config} if config else {}),
        }


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


def _uuid(cell: FinishedCell) -> UUID:
    """Return the name of a record: a UUID in the form of version 4, which depends on the cell and its key only."""
    text = f"{cell.cell_id} {cell.job['job_key']}"
    return UUID(bytes=hashlib.sha256(text.encode()).digest()[:16], version=4)


def _generation_config(cell: FinishedCell) -> dict[str, Any]:
    """Return how the LLM was sampled on the test questions; empty if this is not known."""
    for job in cell.behind:
        same = all(job[name] == cell.coordinates.get(name) for name in ("llm", "dataset"))
        if same and job["split"] == "test" and "sampling" in job["parameters"]:
            sampling = job["parameters"]["sampling"]
            known = {name: sampling[name] for name in _SAMPLING if name in sampling}
            others = {name: json.dumps(each) for name, each in sampling.items() if name not in known}
            parts = {"generation_args": known, "additional_details": others}
            return {name: part for name, part in parts.items() if part}
    return {}
