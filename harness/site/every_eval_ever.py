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
from datetime import UTC
from pathlib import Path
from typing import Any
from uuid import UUID

from prmcal.db.text.board import estimate
from prmcal.db.text.formats import LEADERBOARDS
from prmcal.harness.site.finished_cells import FinishedCell, FinishedCells, Row
from prmcal.harness.storage.written import write_text

SCHEMA_VERSION = "0.3.0"
COLLECTION = "prmcal"
"""The folder of the records below ``data``."""
_SAMPLING = ("temperature", "top_p", "top_k", "max_tokens")
_UNIT = re.compile(
    r"(accuracy(_at_\d+)?|pass_at_n|wrong|area|brier|positive_brier|ece|adaptive_ce|average_ce|auroc_within|"
    r"coverage_[\d.]+)(_with_terminal)?"
)


def write_records(board: FinishedCells, folder: Path) -> None:
    """Write the records of all finished cells to ``data/prmcal/DEVELOPER/MODEL/UUID.json`` in an existing folder."""
    for cell in board.cells:
        scored = [row for row in cell.values if board.metrics.better(row["metric"]) in ("lower", "higher")]
        if scored:
            path = folder / "data" / COLLECTION / board.model(cell).folder / f"{_uuid(cell)}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, json.dumps(_record(board, cell, scored), indent=2, ensure_ascii=False) + "\n")


def _uuid(cell: FinishedCell) -> UUID:
    """Return the name of a record: a UUID in the form of version 4, which depends on the cell and its key only."""
    text = f"{cell.cell_id} {cell.job['job_key']}"
    return UUID(bytes=hashlib.sha256(text.encode()).digest()[:16], version=4)


def _record(board: FinishedCells, cell: FinishedCell, scored: list[Row]) -> dict[str, Any]:
    model, moment = board.model(cell), cell.measured_at.replace(tzinfo=UTC)
    timestamp = str(int(moment.timestamp()))
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"{COLLECTION}-{_uuid(cell)}/{model.id}/{timestamp}",
        "evaluation_timestamp": moment.isoformat(),
        "retrieved_timestamp": timestamp,
        "source_metadata": {
            "source_name": f"prmcal {LEADERBOARDS[cell.leaderboard].title.lower()} leaderboard",
            "source_type": "evaluation_run",
            "source_organization_name": cell.provenance.get("submitters", "unknown"),
            "evaluator_relationship": "other",
            "additional_details": {**cell.provenance, "cell": cell.cell_id, "job_key": cell.job["job_key"]},
        },
        "eval_library": {"name": "prmcal", "version": board.prmcal_version},
        "model_info": {
            "name": model.name,
            "id": model.id,
            "developer": model.developer,
            "additional_details": {
                "deployment_type": "unknown",
                "model_availability": "unknown",
                **{name: text for name, text in cell.coordinates.items() if name != cell.about},
            },
        },
        "evaluation_results": [_result(board, cell, row) for row in scored],
    }


def _result(board: FinishedCells, cell: FinishedCell, row: Row) -> dict[str, Any]:
    name, dataset = row["metric"], cell.coordinates["dataset"]
    described, about = board.metrics, board.datasets.get(dataset, {})
    costs = {
        other["metric"]: estimate(other["metric"], other["value"], other["low"], other["high"])
        for other in cell.values
        if described.better(other["metric"]) not in ("lower", "higher")
    }
    arguments = board.plugins.get(("metric", name), {}).get("arguments", {})
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
            "metric_name": described.title(name),
            "evaluation_description": described.description(name),
            **({"metric_parameters": plain} if plain else {}),
            "lower_is_better": described.better(name) == "lower",
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
