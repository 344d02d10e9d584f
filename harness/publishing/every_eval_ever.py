"""Records of the schema Every Eval Ever (evalevalai.com, version 0.3), a file for each finished cell.

A record has one model, and a cell has up to three plugins. Records of the calibration leaderboard are about the PRM,
and those of the scaling leaderboard and of the league are about the LLM. The others are additional details of the
model. Values that no direction makes better, such as samples, are details of the others.

Files are named by the key of the job that measured the cell, and times are those of the measurement. So a leaderboard
gives the same bytes whenever it is exported.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC
from pathlib import Path
from typing import Any
from uuid import UUID

from prmcal.db.metrics import Metric
from prmcal.db.text.presentation import LEADERBOARDS
from prmcal.db.text.readable import estimate
from prmcal.harness.publishing.measurements import Board, Measurement, Model, Value
from prmcal.harness.publishing.samples import sample_lines
from prmcal.harness.storage.written_folder import write_text

__all__ = ["SCHEMA_VERSION", "write_records"]

SCHEMA_VERSION = "0.3.0"
COLLECTION = "prmcal"
"""The folder of the records below ``data``."""

_UNIT = re.compile(
    r"(accuracy(_at_\d+)?|pass_at_n|wrong|area|brier|positive_brier|ece|adaptive_ce|average_ce|auroc_within|"
    r"coverage_[\d.]+)(_with_terminal)?"
)
_NOT_PORTABLE = re.compile(r"[^A-Za-z0-9._-]+")
_RESERVED = {
    "con",
    "prn",
    "aux",
    "nul",
    "data",
    *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10)),
}


def write_records(board: Board, published: Path, folder: Path) -> None:
    """Write the records of all finished cells, and the graded texts of those that have some.

    Parameters
    ----------
    board : Board
    published : Path
        The published copy of the database, for the texts.
    folder : Path
        An existing folder. Files are written to ``data/prmcal/DEVELOPER/MODEL/UUID.json`` in it, and texts to
        ``UUID_samples.jsonl`` beside them.
    """
    for measurement in board.measurements:
        scored = [value for value in measurement.values if value.metric.better in ("lower", "higher")]
        if not scored:
            continue
        model = _model(board, measurement)
        name = _uuid(measurement)
        place = Path("data", COLLECTION, _portable(model.developer), _portable(model.name))
        record = _record(board, measurement, model, scored)
        (folder / place).mkdir(parents=True, exist_ok=True)
        lines = sample_lines(board, measurement, published, record)
        if lines:
            text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
            samples = place / f"{name}_samples.jsonl"
            write_text(folder / samples, text)
            record["detailed_evaluation_results"] = {
                "format": "jsonl",
                "file_path": samples.as_posix(),
                "hash_algorithm": "sha256",
                "checksum": hashlib.sha256(text.encode()).hexdigest(),
                "total_rows": len(lines),
            }
        write_text(folder / place / f"{name}.json", json.dumps(record, indent=2, ensure_ascii=False) + "\n")


def _model(board: Board, measurement: Measurement) -> Model:
    kind = "prm" if measurement.leaderboard == "calibration" else "llm"
    return board.model(kind, measurement.coordinates[kind])


def _uuid(measurement: Measurement) -> UUID:
    """Return the name of a record: a UUID in the form of version 4, which depends on the cell and its key only."""
    text = f"{measurement.cell_id} {measurement.job_key}"
    return UUID(bytes=hashlib.sha256(text.encode()).digest()[:16], version=4)


def _record(board: Board, measurement: Measurement, model: Model, scored: list[Value]) -> dict[str, Any]:
    moment = measurement.measured_at.replace(tzinfo=UTC)
    timestamp = str(int(moment.timestamp()))
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"{COLLECTION}-{_uuid(measurement)}/{model.id}/{timestamp}",
        "evaluation_timestamp": moment.isoformat(),
        "retrieved_timestamp": timestamp,
        "source_metadata": {
            "source_name": f"prmcal {LEADERBOARDS[measurement.leaderboard].title.lower()} leaderboard",
            "source_type": "evaluation_run",
            "source_organization_name": measurement.provenance.get("submitters", "unknown"),
            "evaluator_relationship": "other",
            "additional_details": {
                **measurement.provenance,
                "cell": measurement.cell_id,
                "job_key": measurement.job_key,
            },
        },
        "eval_library": {"name": "prmcal", "version": board.prmcal_version},
        "model_info": _model_info(board, measurement, model),
        "evaluation_results": [_result(board, measurement, value) for value in scored],
    }


def _model_info(board: Board, measurement: Measurement, model: Model) -> dict[str, Any]:
    details = {
        "deployment_type": "self_deployed" if model.engine else "unknown",
        "model_availability": "open_weights" if model.shipped else "unknown",
        **{
            name: text
            for name, text in measurement.coordinates.items()
            if name != ("prm" if measurement.leaderboard == "calibration" else "llm")
        },
    }
    info: dict[str, Any] = {
        "name": model.name,
        "id": model.id,
        "developer": model.developer,
        "additional_details": details,
    }
    if model.engine:
        version = board.packages.get(model.engine)
        info["inference_engine"] = {"name": model.engine, **({"version": version} if version else {})}
    return info


def _result(board: Board, measurement: Measurement, value: Value) -> dict[str, Any]:
    dataset = measurement.coordinates["dataset"]
    about = board.datasets.get(dataset, {})
    described = {
        name: str(about[name]) for name in ("content_hash", "grader_version", "questions") if name in about
    }
    result: dict[str, Any] = {
        "evaluation_result_id": f"{measurement.cell_id}/{value.metric.name}",
        "evaluation_name": f"prmcal.{measurement.leaderboard}.{dataset}",
        "source_data": {"dataset_name": dataset, "source_type": "other", "additional_details": described},
        "metric_config": _metric_config(value.metric, board),
        "score_details": {
            "score": value.value,
            "details": {
                "questions": str(value.questions),
                "rows": str(value.rows),
                **{
                    other.metric.name: estimate(other.metric.name, other.value, other.low, other.high)
                    for other in measurement.values
                    if other.metric.better not in ("lower", "higher")
                },
            },
            "uncertainty": _uncertainty(measurement, value),
        },
    }
    sampling = _generation(board.sampling(measurement))
    return {**result, "generation_config": sampling} if sampling else result


def _metric_config(metric: Metric, board: Board) -> dict[str, Any]:
    arguments = board.plugins.get(("metric", metric.name), {}).get("arguments", {})
    plain = {name: each for name, each in arguments.items() if isinstance(each, (str, int, float, bool))}
    unit = _UNIT.fullmatch(metric.name)
    return {
        "metric_id": f"{COLLECTION}.{metric.name}",
        "metric_name": metric.title,
        "evaluation_description": metric.description,
        **({"metric_parameters": plain} if plain else {}),
        "lower_is_better": metric.better == "lower",
        "score_type": "continuous",
        "min_score": 0.0 if unit else "-Infinity",
        "max_score": 1.0 if unit else "Infinity",
    }


def _uncertainty(measurement: Measurement, value: Value) -> dict[str, Any]:
    found: dict[str, Any] = {"num_samples": value.questions}
    if value.low is not None and value.high is not None:
        found["confidence_interval"] = {
            "lower": value.low,
            "upper": value.high,
            "confidence_level": 0.95,
            "method": "bootstrap over questions",
        }
        if measurement.replicates is not None:
            found["num_bootstrap_samples"] = measurement.replicates
    return found


def _generation(sampling: Mapping[str, Any]) -> dict[str, Any]:
    known = {
        name: sampling[name] for name in ("temperature", "top_p", "top_k", "max_tokens") if name in sampling
    }
    others = {name: json.dumps(each) for name, each in sampling.items() if name not in known}
    return {
        **({"generation_args": known} if known else {}),
        **({"additional_details": others} if others else {}),
    }


def _portable(name: str) -> str:
    """Return a name as the name of a folder on every system."""
    plain = _NOT_PORTABLE.sub("-", name).strip(".-") or "unknown"
    return f"{plain}-model" if plain.split(".")[0].lower() in _RESERVED else plain
